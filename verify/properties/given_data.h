#pragma once

/// Which calls give their rank data.

#include "sim/world/simulate.h"

namespace verify {

/// Whether a call gives its rank data of a group of several ranks.
inline bool gives_data(const sim::CallRecord& call) {
  return sim::moves_data(call.operation) && call.operation != sim::Operation::send && call.group->size() > 1;
}

}  // namespace verify
