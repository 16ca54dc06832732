#pragma once

/// Outputs that follow from a choice of the reference which an error may have exchanged with another one.
///
/// Exact   in the field every choice is certain.

#include "verify/cases/case_inputs.h"

namespace verify {

/// Makes every element of the outputs unknown (Bounded::is_unknown), so that none is judged.
inline void leave_unjudged(const reference::Number<sim::Field>&, Wholes<sim::Field>&) {}
inline void leave_unjudged(const reference::Number<reference::Bounded>& number,
                           Wholes<reference::Bounded>& wholes) {
  for (auto& [name, whole] : wholes)
    for (Eigen::Index i = 0; i < whole.size(); ++i) whole.data()[i] = number.unknown(whole.data()[i].value());
}

}  // namespace verify
