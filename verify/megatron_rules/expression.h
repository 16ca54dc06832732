#pragma once

/// A condition or a value of rules.tsv, over what a rule sees (rule_facts.h).
///
/// Shapes  Operators, those that bind least first: or; and; not; = != < <= > >= in has beyond contains; + -;
///         * / %; ??. A leaf is --argument, $VARIABLE, the name of a derived value or of rule_names.tsv, a
///         number, or a 'text'. In a condition, an argument says whether it is given; beside a number it is
///         its one word as a number, and beside a text its words.
///         A in ('x', 'y')        the text of A is one of these
///         A has ('x', 'y')       one of the words of A is among these; has 'x' is the same of one
///         A beyond ('x', 'y')    one of the words of A is none of these
///         A contains 'x'         'x' is a part of the text of A
///         A ?? B                 A, or B if A is absent
///         if(C, A, B)            A if the condition holds, or else B, which is not known if it is left out
///         several(C, C, C)       two of these conditions hold, or more
///         count(A)               how many words there are
///         is_number(A)           whether A is a number
///         up_to_multiple(A, B)   the least multiple of B from A on; both are above 0
///         told(--a, --b)         these arguments as a refusal tells them
///         given(--a, --b)        those of them that are given
/// Exact   Logic has three values: a comparison of a number that is not known is neither true nor false.
///         Arithmetic is that of whole numbers: quotients are rounded down, and a quotient by 0 is not known.
/// Errors  A text that is no expression breaks an invariant (SIM_CHECK).

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/megatron_rules/rule_facts.h"

namespace verify {

class Expression {
 public:
  struct Node;

  explicit Expression(std::string_view text);
  RuleValue value(const RuleFacts& facts) const;
  /// Returns the leaves that are arguments, variables or names, as they are written.
  std::vector<std::string> leaves() const;

 private:
  std::shared_ptr<const Node> root_;
};

/// Returns the value of a name that rules may use: of an expression of rule_names.tsv, of what needs more
/// than an expression (rule_names.cpp), or a derived value (effective_values.h).
RuleValue named_value(std::string_view name, const RuleFacts& facts);
/// Whether the name is one of the first two.
bool is_rule_name(std::string_view name);
/// The rows of rule_names.tsv.
const std::map<std::string, Expression, std::less<>>& named_expressions();

/// Whether sparse attention (dsa) reads a way of communication as all_gather: without underscores, and in
/// letters of any case.
bool gathers_tokens(std::string cp_comm_type);

/// A text with values, such as "{--seq-length} over {tp * cp} ranks". After "||" stands another text, which
/// is taken if a value before it is not known.
class TextWithValues {
 public:
  explicit TextWithValues(std::string_view text);
  std::string filled(const RuleFacts& facts) const;
  std::vector<Expression> values() const;

 private:
  using Parts = std::vector<std::pair<std::string, std::optional<Expression>>>;
  std::vector<Parts> choices_;
};

}  // namespace verify
