#pragma once

/// Whether a job ran while its dumps were written.
///
/// In a job that hangs, every rank that is held waits for the ranks that keep the others waiting, directly or
/// by others. So a job ran on where some ranks are in a collective that can end (stuck_calls.h), or wait for
/// a rank whose dump was written early (early_dumps.h), and do not wait for a rank that seems to keep others
/// waiting. That one is behind, and no more is known of it.
///
/// Exact   Where all that are held wait for one rank, a job that runs looks like one that hangs: dumps do not
///         tell when they were written.

#include <cstddef>
#include <vector>

#include "verify/inspect/evidence.h"

namespace verify {

/// What some ranks wait for that wait for no suspect.
struct SignsOfRunning {
  std::size_t collectives = 0;  // that can end
  std::vector<int> early;       // ranks whose dumps were written early, and are not cut
  bool any() const { return collectives > 0 || !early.empty(); }
};

/// Returns these signs: `components` are the single calls at the ends of the graph, and `early_roots` the
/// ranks there whose dumps are early.
SignsOfRunning signs_of_running(const Evidence& know, const std::vector<int>& suspects,
                                const std::vector<std::vector<std::size_t>>& components,
                                const std::vector<int>& early_roots);

/// Whether every other rank with a whole dump that is not early waits for one of these ranks, directly or by
/// others, and these others are more; true, too, where one of these ranks has a dump that is cut.
bool do_all_wait_for(const Evidence& know, const std::vector<int>& ranks);

}  // namespace verify
