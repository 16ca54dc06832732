#pragma once

/// The refusal of a rank that had no reason of its own: another rank has refused work that either all
/// ranks do or none does. If a report has findings of both kinds, those of ranks with a reason come first.
///
/// Errors  the code is the caller's; the hint names the rank that had the reason.

#include <utility>

#include "sim/base/error.h"

namespace sim {

class RefusedElsewhere : public Error {
 public:
  explicit RefusedElsewhere(Refusal refusal) : Error(std::move(refusal)) {}
};

}  // namespace sim
