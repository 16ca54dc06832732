#pragma once

/// What can be seen of the values that ranks give to the calls of a run and get from them: whether there is
/// one that is not zero, and one that bf16 cannot hold.
///
/// Shapes  What a rank gives and gets in all its calls at a site is one row. Of dtypes other than f32 and f64
///         nothing is wide.

#include <map>
#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/properties/bench.h"

namespace verify {

// Which calls give their rank data.

/// Whether a call gives its rank data of a group of several ranks.
inline bool gives_data(const sim::CallRecord& call) {
  return sim::moves_data(call.operation) && call.operation != sim::Operation::send && call.group->size() > 1;
}

struct CallValues {
  bool gives_a_value = false;   // one that is not zero
  bool gives_a_number = false;  // one that is not zero, and no id or count
  bool gives_wide = false;      // one that bf16 cannot hold
  bool gets = false;            // a result
  bool gets_a_value = false;    // one that is not zero
  bool gets_a_part = false;     // of what ranks give, and other ranks get other parts
};

/// By site, for each rank.
using ValuesBySite = std::map<std::string, std::vector<CallValues>>;

/// Runs the case, and looks at its calls on one side of the faults that are planted in them.
ValuesBySite call_values(Bench& bench, const Case& the_case, const CaseSetting& setting, WatchedSide side);

}  // namespace verify
