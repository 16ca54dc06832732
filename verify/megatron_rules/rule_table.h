#pragma once

/// The rules by which Megatron refuses a run: the rows of rules.tsv, which the program has compiled in.
///
/// Calls   megatron_validation.h and run_validation.h hold options and runs against them.
/// Exact   A rule whose numbers are not known is not broken.
/// Errors  A row that cannot be read breaks an invariant (CHECK).

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

struct MegatronRule {
  std::string code;
  bool is_of_runs = false, is_of_options = false;
  bool is_legacy = false;  // holds under the rule book legacy, too
  std::vector<std::string> arguments;
  Expression broken;
  TextWithValues numbers;
  std::string rule;
  TextWithValues hint;
  Reader readers = Reader{};  // of all arguments, if they are options

  bool is_broken(const RuleFacts& facts) const;
  /// The refusal names the first argument that is given, or the first one.
  sim::Refusal refusal(const RuleFacts& facts) const;
};

const std::vector<MegatronRule>& megatron_rules();

/// Reads the rows of a table.
std::vector<MegatronRule> read_rules(std::string_view table);

}  // namespace verify
