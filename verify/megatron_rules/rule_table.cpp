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
  const std::string& about = row.at(1);
  std::vector<std::string> arguments = words_of_cell(row.at(2));
  CHECK(!arguments.empty());
  MegatronRule rule{.code = row.at(0),
                    .is_of_runs = about == "run" || about == "both",
                    .is_of_options = about != "run",
                    .is_legacy = about == "sizes",
                    .arguments = arguments,
                    .broken = Expression(row.at(3)),
                    .numbers = TextWithValues(with_values(row.at(4), arguments)),
                    .rule = row.at(5),
                    .hint = TextWithValues(row.at(6))};
  CHECK(rule.is_of_runs || about == "options" || about == "sizes");
  if (!rule.is_of_options) return rule;
  rule.readers = kEverybody;
  for (const std::string& option : arguments) rule.readers = rule.readers & option_named(option).readers;
  return rule;
}

}  // namespace

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

std::vector<MegatronRule> read_rules(std::string_view table) {
  std::vector<MegatronRule> rules;
  for (const TextRow& row : rows_of_table(table)) rules.push_back(rule_of(row));
  return rules;
}

const std::vector<MegatronRule>& megatron_rules() {
  static const std::vector<MegatronRule> rules = read_rules(kRules);
  return rules;
}

}  // namespace verify
