#pragma once

/// What the scenarios of one replay have proved of settings of cases. Many scenarios have layers or a
/// training in common: each setting runs once, and its result is told in the rows of all of them.
///
/// Calls   One object serves the threads of a replay. Where faults are planted nothing is shared, because a
///         fault counts the calls that meet it.
/// Exact   A row is the same whether its settings ran for this scenario or for another one.

#include <optional>
#include <vector>

#include "verify/checks/shared_results.h"
#include "verify/properties/properties.h"

namespace verify {

/// The training of a setting, as the virtual ranks and the reference did it.
struct ProvedTraining {
  Judgement judgement;
  bool is_equal_in_field = false;
  std::vector<double> losses, reference, bounds;  // by step; no losses if the run broke a contract
};

struct ProvedSettings {
  /// The slacks of all properties that judge a setting, in their order; nothing if one of them does not hold.
  using Slacks = std::optional<std::vector<double>>;
  SharedResults<Slacks> layers;
  SharedResults<ProvedTraining> trainings;
};

}  // namespace verify
