#pragma once

/// Ranks whose devices are known to be behind: a collective is pending on the rank that another member has
/// completed, or a send that its peer has received. Its own device has taken part in it, so nothing that it
/// waits for explains this.
///
/// A host that is behind is no such sign: a rank that reads the loss of a step, to log it, issues less than
/// the others do.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

struct Lag {
  bool is_device = false;
  std::string reason;  // a sentence
};

/// Whether an all_to_all that a member has completed is taken for a call in which all took part. A member
/// without rows for another one completes it although this one has not come to it.
enum class AllToAlls : std::uint8_t { left_out, taken };

/// Returns how each rank is behind, by dump.
std::vector<Lag> lags_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls);

}  // namespace verify
