#pragma once

/// Explains the first tensor of a run in the field that is wrong, by the recognisers (recognisers.h), and
/// tries what is found, or not found, at larger sizes: a tensor of one element may be anything.
///
/// Exact   what is said of the smallest setting alone is dropped where the same tensor is wrong at a larger
///         one, too, and it does not hold there. Of a tensor that has few values, and of a number that other
///         inputs would give, a relation is told only where it holds with other seeds, too.

#include <string>

#include "verify/explain/recognisers.h"

namespace verify {

/// How much an explanation says, in ascending order.
enum class Says { nothing, extent, part, cause };

struct ExplainedTensor {
  std::string text;
  Says says = Says::nothing;
  std::string tensor;           // its name
  std::string recogniser;       // the one that fitted; "" for none
  std::size_t elements = 0;     // that had to fit
  std::set<std::string> names;  // those of its factor here
  std::string relation;         // what the recogniser says, where that is a cause
  bool has_few_values = false;  // its elements are 0 or have one magnitude
};

/// Explains the wrong tensors of one run. Without experiments, the reference does not run again.
ExplainedTensor explain_wrong(const WrongTensors& tensors, ExperimentBudget& budget, bool has_experiments);

/// Explains a run, and others of the same case at other settings where that says more; "" where no tensor is
/// wrong.
std::string explain_tensors(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const sim::RunReport& report);

}  // namespace verify
