#pragma once

/// The rules by which Megatron refuses a run, and what a user is warned of: the rows of rules.tsv and of
/// warnings.tsv, which the program has compiled in.
///
/// Calls   megatron_validation.h holds options and runs against them.
/// Exact   A rule whose numbers are not known is not broken.
/// Errors  A row that cannot be read breaks an invariant (SIM_CHECK).

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/warning.h"
#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

struct MegatronRule {
  std::string code;
  std::vector<std::string> about;
  bool is_of_runs = false, is_of_options = false;
  std::vector<std::string> arguments;
  Expression broken;
  TextWithValues numbers;
  std::string rule;
  TextWithValues hint;
  Reader readers = Reader{};  // of all arguments, if they are options

  bool is(std::string_view word) const;  // whether it is among `about`
  bool is_broken(const RuleFacts& facts) const;
  /// The refusal names the first argument that is given, or the first one.
  sim::Refusal refusal(const RuleFacts& facts) const;
};

const std::vector<MegatronRule>& megatron_rules();

/// Reads the rows of a table.
std::vector<MegatronRule> read_rules(std::string_view table);

/// Returns the warnings about this ("run", "replay", "memory") of whose rows the condition holds.
std::vector<sim::Warning> table_warnings(std::string_view about, const RuleFacts& facts);

}  // namespace verify
