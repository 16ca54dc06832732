#pragma once

/// Ranks that are known to be behind, by what the other members of their groups have done.
///
///   device  A collective is pending on the rank that another member has completed: its own device has taken
///           part in it, so nothing that it waits for explains this.
///   host    Another member has issued more calls of a group, after calls that are pending on both: what
///           holds this rank has not kept the other's host from going on.

#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

struct Lag {
  bool is_device = false, is_host = false;
  std::string reason;  // a sentence
  bool any() const { return is_device || is_host; }
};

/// Returns how each rank is behind, by dump.
std::vector<Lag> lags_of(const Job& job, const Progresses& progresses);

}  // namespace verify
