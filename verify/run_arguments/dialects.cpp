#include "verify/run_arguments/dialects.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/argument_table.h"

namespace verify {

namespace {

constexpr std::string_view kDialects =
#include "dialects.tsv.inc"
    ;

struct DialectRow {
  std::string dialect;
  std::string name;
  std::vector<std::string> arguments;
  std::string condition;  // "" where there is none
};

const std::vector<DialectRow>& dialect_rows() {
  static const auto rows = [] {
    std::vector<DialectRow> all;
    for (const TextRow& cells : rows_of_table(kDialects)) {
      all.push_back(
          {cells[0], run_argument_name(cells[1]), words_of_cell(cells[2]), cells[3] == "-" ? "" : cells[3]});
      for (const std::string& argument : all.back().arguments)
        SIM_CHECK(find_argument(argument.substr(0, argument.find('='))) != nullptr);
    }
    return all;
  }();
  return rows;
}

std::string last_name(const std::string& path) { return run_argument_name(path.substr(path.rfind('.') + 1)); }

class Translator {
 public:
  Translator(std::string_view dialect, const std::vector<NamedValue>& named) : dialect_(dialect) {
    for (const NamedValue& one : named)
      if (one.values.size() == 1) by_name_.emplace(last_name(one.path), one.values.front());
    for (const NamedValue& one : named) {
      const bool is_absent = one.values == std::vector<std::string>{"null"};
      if (!is_absent && !take(one)) made.unused.push_back(one.path);
    }
  }

  Translation made;

 private:
  std::string text(std::string_view name) const {
    const auto found = by_name_.find(run_argument_name(name));
    return found == by_name_.end() ? "null" : found->second;
  }
  std::optional<std::int64_t> number(std::string_view word) const {
    const auto literal = whole_number(word);
    return literal ? literal : whole_number(text(word));
  }
  bool holds(const std::string& condition, const NamedValue& own) const;
  std::optional<std::int64_t> computed(std::string_view expression) const;
  std::optional<std::string> filled(std::string_view text) const;
  bool take(const NamedValue& one);
  void add(const std::string& argument, const std::vector<std::string>& values, const NamedValue& from);

  std::string_view dialect_;
  std::map<std::string, std::string> by_name_;  // the values; of several of one name the first
  std::map<std::string, std::string> paths_;    // of each argument that is given
};

/// Whether "=true", "!=1" or "other_name=null" holds.
bool Translator::holds(const std::string& condition, const NamedValue& own) const {
  if (condition.empty()) return true;
  const std::size_t equals = condition.find('=');
  const bool is_negated = equals > 0 && condition[equals - 1] == '!';
  const std::string name = condition.substr(0, equals - (is_negated ? 1 : 0));
  std::string value = name.empty() ? fmt::format("{}", fmt::join(own.values, " ")) : text(name);
  if (value == "True" || value == "False") value.front() = value == "True" ? 't' : 'f';
  return (value == condition.substr(equals + 1)) != is_negated;
}

/// The value of "a", "a*b" or "a-b".
std::optional<std::int64_t> Translator::computed(std::string_view expression) const {
  const std::size_t sign = expression.find_first_of("*-");
  const auto left = number(expression.substr(0, sign));
  if (sign == std::string_view::npos || !left) return left;
  const auto right = number(expression.substr(sign + 1));
  std::int64_t result = 0;
  const bool overflows = !right || (expression[sign] == '*' ? __builtin_mul_overflow(*left, *right, &result)
                                                            : __builtin_sub_overflow(*left, *right, &result));
  return overflows ? std::nullopt : std::optional(result);
}

/// Returns a text with the values of what its braces hold; nothing where one is no whole number.
std::optional<std::string> Translator::filled(std::string_view text) const {
  std::string filled;
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{')) {
    const std::size_t close = text.find('}', open);
    const auto value = computed(text.substr(open + 1, close - open - 1));
    if (!value) return std::nullopt;
    filled += fmt::format("{}{}", text.substr(0, open), *value);
    text.remove_prefix(close + 1);
  }
  return filled + std::string(text);
}

/// Returns whether a value says something about an argument, or that it is not given.
bool Translator::take(const NamedValue& one) {
  const std::string name = last_name(one.path);
  bool is_known = false;
  for (const DialectRow& row : dialect_rows()) {
    if (row.dialect != dialect_ || row.name != name || !holds(row.condition, one)) continue;
    is_known = true;
    for (const std::string& argument : row.arguments) {
      const std::size_t equals = argument.find('=');
      if (equals == std::string::npos) {
        add(argument, one.values, one);
      } else if (const auto text = filled(std::string_view(argument).substr(equals + 1))) {
        add(argument.substr(0, equals), text->empty() ? std::vector<std::string>() : std::vector{*text}, one);
      }
    }
  }
  if (is_known || dialect_ == "huggingface" || find_argument(name) == nullptr) return is_known;
  add(name, one.values, one);
  return true;
}

void Translator::add(const std::string& argument, const std::vector<std::string>& values,
                     const NamedValue& from) {
  const auto before = std::ranges::find(made.given, argument, &RunArgument::name);
  if (before == made.given.end()) {
    made.given.push_back({argument, values, from.line});
    paths_[argument] = from.path;
  } else if (before->values != values) {
    made.unresolved.push_back(
        {.text = fmt::format("{}", fmt::join(before->values, " ")),
         .argument = argument,
         .line = before->line,
         .reason = fmt::format("{} says so, and {} in line {} says {}", paths_[argument], from.path,
                               from.line, fmt::join(values, " "))});
  }
}

}  // namespace

Translation translated(std::string_view dialect, const std::vector<NamedValue>& named) {
  return std::move(Translator(dialect, named).made);
}

bool gives_used_argument(const std::vector<NamedValue>& named) {
  return std::ranges::any_of(translated("nested", named).given, is_used_argument, &RunArgument::name);
}

std::string name_of_swift(const std::string& name) {
  const auto found = std::ranges::find_if(
      dialect_rows(), [&](const DialectRow& row) { return row.dialect == "swift" && row.name == name; });
  return found == dialect_rows().end() ? name : found->arguments.front();
}

std::string first_names(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

}  // namespace verify
