#pragma once

/// The names that rules.tsv may use beside those of derived values (effective_values.h): the expressions of
/// rule_names.tsv, and what needs more than an expression.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"

namespace verify {

/// Returns the value of a name. Names that are unknown here are those of derived values.
RuleValue named_value(std::string_view name, const RuleFacts& facts);

/// Whether the name is one of these.
bool is_rule_name(std::string_view name);

/// Whether sparse attention (dsa) reads a way of communication as all_gather: without underscores, and in
/// letters of any case.
bool gathers_tokens(std::string cp_comm_type);

/// The rows of rule_names.tsv.
const std::map<std::string, Expression, std::less<>>& named_expressions();

}  // namespace verify
