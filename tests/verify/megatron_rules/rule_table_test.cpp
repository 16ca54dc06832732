#include "verify/megatron_rules/rule_table.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "verify/megatron_rules/rule_facts.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace {

using verify::MegatronRule;
using Lines = std::vector<std::string>;

bool is_argument(const std::string& name) {
  return verify::find_argument(name) != nullptr ||
         verify::shape_of_argument(name) != verify::ArgumentShape::unknown;
}

/// The names of what a rule may use that is derived of options, and of the arguments of a run.
const std::vector<std::string>& derived(bool of_options) {
  static const std::vector<std::string> options = [] {
    verify::Settings settings;
    settings.append("position-embedding-type", {"rope"});
    return verify::RuleFacts(settings).derived_names();
  }();
  static const std::vector<std::string> run =
      verify::RuleFacts(verify::RunValues(verify::RunArguments()), {}, 8).derived_names();
  return of_options ? options : run;
}

bool is_known(const std::string& leaf, bool of_options) {
  if (leaf.starts_with('$')) return !of_options;
  if (leaf.starts_with("--"))
    return of_options ? verify::find_option(leaf.substr(2)) != nullptr : is_argument(leaf.substr(2));
  const std::vector<std::string>& names = derived(of_options);
  return verify::is_rule_name(leaf) || std::ranges::find(names, leaf) != names.end();
}

/// The leaves of an expression that the facts of a rule do not have, with those of the names that it uses.
void add_unknown(const verify::Expression& expression, bool of_options, Lines& unknown) {
  for (const std::string& leaf : expression.leaves()) {
    if (!is_known(leaf, of_options)) unknown.push_back(leaf);
    const auto named = verify::named_expressions().find(leaf);
    if (named != verify::named_expressions().end()) add_unknown(named->second, of_options, unknown);
  }
}

/// The arguments, variables and names of rules that nothing gives a value, and arguments of sentences that do
/// not exist.
Lines unknown_names(const std::vector<MegatronRule>& rules) {
  Lines unknown;
  for (const MegatronRule& rule : rules) {
    std::vector<verify::Expression> expressions = {rule.broken};
    for (const auto& text : {rule.numbers.values(), rule.hint.values()})
      expressions.insert(expressions.end(), text.begin(), text.end());
    for (const std::string& argument : rule.arguments) expressions.emplace_back("--" + argument);
    for (const bool of_options : {false, true}) {
      if (!(of_options ? rule.is_of_options : rule.is_of_runs)) continue;
      for (const verify::Expression& one : expressions) add_unknown(one, of_options, unknown);
    }
  }
  return unknown;
}

Lines arguments_of_text(const std::string& text) {
  static const std::regex kArgument("--([A-Za-z][A-Za-z0-9-]*)");
  Lines arguments;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kArgument); at != std::sregex_iterator();
       ++at)
    arguments.push_back((*at)[1]);
  return arguments;
}

std::vector<MegatronRule> rules_of(const std::string& row) {
  return verify::read_rules("code\tabout\targuments\tbroken when\tnumbers\trule\ttry\n" + row + "\n");
}

TEST(RuleTable, EveryNameHasAValue) {
  EXPECT_EQ(unknown_names(verify::megatron_rules()), Lines{});
  EXPECT_EQ(unknown_names(rules_of("a\trun\tbf16\t--bf16 and --fp61 and world and worlds\t-\trule\t{tq}")),
            (Lines{"--fp61", "worlds", "tq"}));
  EXPECT_EQ(unknown_names(rules_of("a\toptions\tbf16\t--bf16 and shares_weights and $X\t-\trule\ttry")),
            (Lines{"gtp", "egtp", "$X"}));
}

TEST(RuleTable, SentencesNameArgumentsThatExist) {
  const verify::RuleFacts facts(verify::RunValues(verify::RunArguments()), {}, 8);
  for (const MegatronRule& rule : verify::megatron_rules()) {
    for (const std::string& name : arguments_of_text(rule.rule + " " + rule.hint.filled(facts)))
      EXPECT_TRUE(is_argument(name) || verify::find_option(name) != nullptr) << rule.code << " --" << name;
  }
}

/// The names that any of the tables uses.
std::set<std::string> used_names() {
  std::set<std::string> names;
  const std::regex name("[a-z_0-9]+");
  for (const char* table : {"rule_names", "rules", "warnings", "effective_values", "options_of_run"}) {
    std::ostringstream text;
    text << std::ifstream(std::string(SHARDPROOF_SOURCE_DIR) + "/verify/megatron_rules/" + table + ".tsv")
                .rdbuf();
    for (const verify::TextRow& row : verify::rows_of_table(text.str())) {
      for (std::size_t cell = 1; cell < row.size(); ++cell)
        for (auto at = std::sregex_iterator(row[cell].begin(), row[cell].end(), name);
             at != std::sregex_iterator(); ++at)
          names.insert(at->str());
    }
  }
  return names;
}

TEST(RuleTable, EveryNameIsUsed) {
  const std::set<std::string> used = used_names();
  for (const auto& named : verify::named_expressions())
    EXPECT_TRUE(used.contains(named.first)) << named.first;
}

TEST(RuleTable, ARefusalNamesTheFirstArgumentThatIsGivenAndTellsAll) {
  const std::vector<MegatronRule> rules =
      rules_of("a\trun\tfp16 bf16 lr\t--bf16\t{*}, tp {tp}\ta rule\t--lr {--lr} || no --lr");
  verify::RunArguments run;
  run.given = {{"bf16", {}, 1}};
  const verify::RuleFacts facts(verify::RunValues(run), {}, 8);
  ASSERT_TRUE(rules.front().is_broken(facts));
  const sim::Refusal refusal = rules.front().refusal(facts);
  EXPECT_EQ(refusal.option, "--bf16");
  EXPECT_EQ(refusal.numbers, "no --fp16, --bf16, no --lr, tp 1");
  EXPECT_EQ(refusal.hint, "no --lr");
}

TEST(RuleTable, ARowThatCannotBeReadBreaksAnInvariant) {
  for (const char* row : {"a\trun\tbf16\t--bf16 and\t-\trule\ttry", "a\tbuns\tbf16\t--bf16\t-\trule\ttry",
                          "a\trun\t-\t--bf16\t-\trule\ttry", "a\trun\tbf16\t--bf16\t-\trule",
                          "a\toptions\tlr\t--lr\t-\trule\ttry", "a\trun\tbf16\t--bf16\t{\trule\ttry"})
    EXPECT_DEATH(rules_of(row), "CHECK") << row;
}

}  // namespace
