#include "verify/megatron_rules/rule_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kRules =
#include "rules.tsv.inc"
    ;
constexpr std::string_view kWarnings =
#include "warnings.tsv.inc"
    ;

/// Puts the values of the arguments in the place of "{*}", and of those that are given in the place of "{+}".
std::string with_values(std::string numbers, const std::vector<std::string>& arguments) {
  if (numbers == "-") numbers = "{*}";
  for (const auto& [sign, function] : {std::pair("{*}", "told"), std::pair("{+}", "given")}) {
    const std::size_t at = numbers.find(sign);
    if (at != std::string::npos)
      numbers.replace(at, 3, fmt::format("{{{}(--{})}}", function, fmt::join(arguments, ", --")));
  }
  return numbers;
}

MegatronRule rule_of(const TextRow& row) {
  static const std::vector<std::string> kAbout = {
      "run", "options", "sizes", "bare", "step", "training", "layer", "megatron-experts", "absence"};
  std::vector<std::string> arguments = words_of_cell(row.at(2));
  SIM_CHECK(!arguments.empty());
  MegatronRule rule{.code = row.at(0),
                    .about = words_of_cell(row.at(1)),
                    .arguments = arguments,
                    .broken = Expression(row.at(3)),
                    .numbers = TextWithValues(with_values(row.at(4), arguments)),
                    .rule = row.at(5),
                    .hint = TextWithValues(row.at(6))};
  for (const std::string& word : rule.about) SIM_CHECK(std::ranges::find(kAbout, word) != kAbout.end());
  rule.is_of_runs = rule.is("run");
  rule.is_of_options = rule.is("options") || rule.is("sizes") || rule.is("bare");
  SIM_CHECK(rule.is_of_runs || rule.is_of_options);
  if (!rule.is_of_options) return rule;
  rule.readers = kEverybody;
  for (const std::string& option : arguments) rule.readers = rule.readers & option_named(option).readers;
  return rule;
}

struct WarningRow {
  std::string code, about;
  Expression when;
  TextWithValues sentence;
};

}  // namespace

bool MegatronRule::is(std::string_view word) const { return std::ranges::find(about, word) != about.end(); }

bool MegatronRule::is_broken(const RuleFacts& facts) const { return truth_of(broken.value(facts)) == true; }

sim::Refusal MegatronRule::refusal(const RuleFacts& facts) const {
  const auto given =
      std::ranges::find_if(arguments, [&](const std::string& argument) { return facts.is_given(argument); });
  return {.code = code,
          .option = fmt::format("--{}", given == arguments.end() ? arguments.front() : *given),
          .numbers = numbers.filled(facts),
          .rule = rule,
          .hint = hint.filled(facts)};
}

std::vector<MegatronRule> read_rules(std::string_view table) { return made_of_rows(table, rule_of); }

const std::vector<MegatronRule>& megatron_rules() {
  static const std::vector<MegatronRule> rules = read_rules(kRules);
  return rules;
}

std::vector<sim::Warning> table_warnings(std::string_view about, const RuleFacts& facts) {
  static const std::vector<WarningRow> rows = made_of_rows(kWarnings, [](const TextRow& row) {
    return WarningRow{row.at(0), row.at(1), Expression(row.at(2)), TextWithValues(row.at(3))};
  });
  std::vector<sim::Warning> warnings;
  for (const WarningRow& row : rows)
    if (row.about == about && truth_of(row.when.value(facts)) == true)
      warnings.push_back({row.code, row.sentence.filled(facts)});
  return warnings;
}

}  // namespace verify
