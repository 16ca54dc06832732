#pragma once

/// The refusal of a rank that had no reason of its own: another rank has refused a piece of work that all
/// ranks do or none. A report that has findings of both kinds of ranks begins with those that had a reason.
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
