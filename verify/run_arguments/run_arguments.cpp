#include "verify/run_arguments/run_arguments.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace verify {

const char* run_file_kind_name(RunFileKind kind) {
  switch (kind) {
    case RunFileKind::log:
      return "log";
    case RunFileKind::yaml:
      return "yaml";
    case RunFileKind::script:
      return "script";
    case RunFileKind::command:
      return "command";
  }
  return "";
}

std::string run_argument_name(std::string_view written) {
  const std::size_t start = written.find_first_not_of('-');
  std::string name(start == std::string_view::npos ? "" : written.substr(start));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace verify
