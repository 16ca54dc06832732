#include "verify/requests/option_readers.h"

#include <fmt/format.h>

#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

bool runs_on_backends(Reader command) { return overlap(command, Reader::replay | Reader::check); }

bool is_read_by_backend(const Settings& given, const OptionInfo& option, Reader command,
                        const BackendKind& backend) {
  return overlap(option.readers, backend.reader) && overlap(option.backend_commands, command) &&
         (option.backend_beside.empty() || given.has(option.backend_beside));
}

}  // namespace

std::vector<OptionInfo> options_of(Reader command) {
  std::vector<OptionInfo> options;
  for (const OptionInfo& option : option_vocabulary()) {
    const bool is_on_a_backend = runs_on_backends(command) && overlap(option.readers, kEveryBackend) &&
                                 overlap(option.backend_commands, command);
    if (overlap(option.readers, command) || is_on_a_backend) options.push_back(option.as_read_by(command));
  }
  return options;
}

void require_read_by(const Settings& settings, Reader readers, const std::string& command) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (settings.has(option.name) && !overlap(option.readers, readers))
      refuse_without_effect(option.name, command);
  }
}

void require_read_by(const CommandLine& line, Reader command) {
  require_read_by(line.settings, runs_on_backends(command) ? command | kEveryBackend : command, line.command);
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

void require_no_virtual_ranks(const Scenario& scenario, const BackendKind& backend) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.needs_virtual_ranks && scenario.settings.has(option.name))
      refuse_without_effect(option.name, fmt::format("replay on {}", backend.name));
  }
}

}  // namespace verify
