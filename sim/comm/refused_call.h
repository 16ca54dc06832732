#pragma once

/// The refusal of a call whose sizes, root or peer do not fit its group, as those of a call in a wrong group
/// seldom do. The call is no part of a rank's log, because it is not made; the refusal has its record.
///
/// Errors  the code is that of Communicator: call_shape, split_rows, overlapping_buffers, call_root or
///         call_peer.

#include <utility>

#include "sim/base/error.h"
#include "sim/comm/call.h"

namespace sim {

/// The state of such a rank in the facts of a finding.
inline constexpr const char* kRefusedIn = "is refused in";

class RefusedCall : public Error {
 public:
  RefusedCall(Refusal refusal, const CallRecord& call) : Error(std::move(refusal)), call_(call) {}
  const CallRecord& call() const { return call_; }

 private:
  CallRecord call_;
};

}  // namespace sim
