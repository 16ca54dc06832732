#pragma once

/// The values of a run after Megatron's own defaults and rules, under the names that Megatron's configuration
/// uses: what the run really trains with, whatever was left out of its arguments. They are the rows of
/// effective_values.tsv.
///
/// Shapes  An absent value is null in JSON: no interleaving, no experts, no recomputation. `layers_per_stage`
///         has a list of chunks for each pipeline rank; it is absent where layers cannot be placed.
/// Exact   Whole numbers are divided as Megatron divides them, also where the division has a remainder:
///         whether a value may be as it is, is judged elsewhere (megatron_validation.h).
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, argument_utils.py,
///         core/model_parallel_config.py, core/transformer/transformer_config.py,
///         core/num_microbatches_calculator.py.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/output/json.h"

namespace verify {

struct EffectiveValue {
  std::string name, kind;
  std::optional<Expression> value;  // nothing where it is computed here
};
const std::vector<EffectiveValue>& effective_rows();

/// Returns the value of this name of a run; absent where it is not known, and unknown where there is no name.
RuleValue effective_value(std::string_view name, const RuleFacts& run);

/// Returns the values of a run of this many ranks. Those that need the number of ranks are absent without it.
Json effective_values(const RunValues& values, std::optional<std::int64_t> world_size);

}  // namespace verify
