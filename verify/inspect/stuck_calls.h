#pragma once

/// Calls to which every member has come and that do not end. Where the recorder knew which devices have begun
/// one, the others are named.
///
/// Several of them are those of a job that ran while the dumps were written, or of a network that stopped:
/// then nobody is named. A call holds none of its ranks where one of these waits in a send, too; where that
/// is so of all calls, those who have not received are named. Members are named instead that have completed
/// such a call, where dumps of active calls alone do not tell which it was.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "verify/inspect/evidence.h"
#include "verify/inspect/suspects.h"

namespace verify {

/// What is said of stuck calls; the members are those of Suspects.
struct StuckCalls {
  std::map<int, Suspect> ranks;
  bool is_stuck = false, are_behind = false, is_unreceived = false;
  std::string counted;
  std::size_t running = 0;
};

/// Returns the collectives among these components that can end: every member has come to them, its dump is
/// there and not cut, and nothing else holds it.
std::vector<const HoldingCall*> collectives_that_can_end(
    const Evidence& know, const std::vector<std::vector<std::size_t>>& components);

/// Judges the components of the graph that are single calls.
StuckCalls stuck_calls(const Evidence& know, const std::vector<std::vector<std::size_t>>& components);

}  // namespace verify
