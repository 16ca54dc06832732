#include "verify/options/option_readers.h"

#include <fmt/format.h>
#include <string_view>

#include "verify/options/settings.h"

namespace verify {

namespace {

bool runs_on_backends(Reader command) { return overlap(command, Reader::replay | Reader::check); }

/// A condition on an option that backends read: only for some commands, or only together with another option.
struct Condition {
  const char* option;
  Reader command;
  const char* beside;  // the other option; "": none is needed
};
constexpr Condition kConditions[] = {{"message-bytes", Reader::replay, ""},
                                     {"world-size", Reader::replay | Reader::check, "rank"}};

bool is_read_by_backend(const Settings& given, const OptionInfo& option, Reader command,
                        const BackendKind& backend) {
  if (!overlap(option.readers, backend.reader)) return false;
  for (const Condition& condition : kConditions) {
    if (std::string_view(condition.option) != option.name) continue;
    return overlap(condition.command, command) && (*condition.beside == '\0' || given.has(condition.beside));
  }
  return true;
}

}  // namespace

void require_read_by(const CommandLine& line, Reader command) {
  const Reader readers = runs_on_backends(command) ? command | kEveryBackend : command;
  for (const OptionInfo& option : option_vocabulary()) {
    if (line.settings.has(option.name) && !overlap(option.readers, readers))
      refuse_without_effect(option.name, line.command);
  }
}

void require_read_on(const CommandLine& line, Reader command, const BackendKind* backend) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (!line.settings.has(option.name) || overlap(option.readers, command)) continue;
    if (backend != nullptr && is_read_by_backend(line.settings, option, command, *backend)) continue;
    refuse_without_effect(option.name, backend == nullptr
                                           ? line.command
                                           : fmt::format("{} {}", line.command, backend->asked_by));
  }
}

}  // namespace verify
