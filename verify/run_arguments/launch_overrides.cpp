#include "verify/run_arguments/launch_overrides.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/python_value.h"

namespace verify {

namespace {

/// "+model.pp=2"; nothing for a word of another form. A key without "." or "_" may be anything.
std::optional<NamedValue> override_in(std::string_view word, int line) {
  const bool is_added = word.starts_with('+');
  word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view path = word.substr(0, equals);
  const bool is_path = !path.empty() && std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
  if (!is_path || (!is_added && path.find_first_of("._") == std::string_view::npos)) return std::nullopt;
  return NamedValue{std::string(path), python_values(word.substr(equals + 1)), line};
}

std::vector<NamedValue> overrides_in(const std::vector<ShellField>& words, const ShellValues& values) {
  std::vector<NamedValue> named;
  for (const ShellField& word : words)
    if (auto one = override_in(values.shown(word.text), word.line)) named.push_back(*std::move(one));
  return named;
}

}  // namespace

bool gives_overrides(const std::vector<ShellField>& words, const ShellValues& values) {
  return std::ranges::any_of(translated("nested", overrides_in(words, values)).given,
                             [](const RunArgument& argument) {
                               const ArgumentRow* row = find_argument(argument.name);
                               return row != nullptr && row->use == ArgumentUse::used;
                             });
}

void take_overrides(const std::vector<ShellField>& words, const ShellValues& values, RunArguments& run) {
  Translation all = translated("nested", overrides_in(words, values));
  run.given = std::move(all.given);
  run.unresolved = std::move(all.unresolved);
  for (const ShellField& word : words) {
    const Translation one = translated("nested", overrides_in({word}, values));
    for (Unresolved& unknown : values.unresolved(word.text)) {
      if (!one.given.empty()) unknown.argument = one.given.front().name;
      if (!one.given.empty() || one.unused.empty()) run.unresolved.push_back(std::move(unknown));
    }
  }
  std::string note = "keys of a configuration are read by the names of arguments in them";
  if (!all.unused.empty()) note += "; not used: " + first_names(all.unused, 12);
  run.notes.push_back(std::move(note));
}

}  // namespace verify
