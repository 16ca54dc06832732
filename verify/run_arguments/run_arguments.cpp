#include "verify/run_arguments/run_arguments.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace verify {

const char* run_file_kind_name(RunFileKind kind) {
  static constexpr const char* kNames[] = {"log", "yaml", "script", "command"};  // as in RunFileKind
  return kNames[static_cast<std::size_t>(kind)];
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

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::string_view unquoted(std::string_view text) {
  const bool is_quoted =
      text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.front() == text.back();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// Returns the elements of a list, which commas outside of quotes separate.
std::vector<std::string> elements_of(std::string_view text) {
  std::vector<std::string> values;
  char quote = '\0';
  std::size_t begun = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (quote != '\0' && i < text.size()) {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == ',') {
      const std::string_view value = trimmed(text.substr(begun, i - begun));
      if (!value.empty()) values.emplace_back(unquoted(value));
      begun = i + 1;
    }
  }
  return values;
}

}  // namespace

std::vector<std::string> python_values(std::string_view printed) {
  const std::string_view text = trimmed(printed);
  const bool is_list = text.size() >= 2 && ((text.front() == '[' && text.back() == ']') ||
                                            (text.front() == '(' && text.back() == ')'));
  if (!is_list || text.substr(1).find_first_of("[(") != std::string_view::npos)
    return {std::string(unquoted(text))};
  return elements_of(trimmed(text.substr(1, text.size() - 2)));
}

}  // namespace verify
