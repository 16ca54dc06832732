#pragma once

/// Ranks whose devices are known to be behind: a collective is pending on the rank that another member has
/// completed. Its own device has taken part in it, so nothing that it waits for explains this.
///
/// A host that is behind is no such sign: a rank that reads the loss of a step, to log it, issues less than
/// the others do.

#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

struct Lag {
  bool is_device = false;
  std::string reason;  // a sentence
};

/// Returns how each rank is behind, by dump.
std::vector<Lag> lags_of(const Job& job, const Progresses& progresses);

}  // namespace verify
