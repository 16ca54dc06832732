#pragma once

/// The ranks to look at first: the ends of the graph of waits (wait_graph.h). The shortest explanation comes
/// first, and a later kind is looked for only where the earlier ones name nobody:
///
///   roots   Ranks whose devices are behind (lags.cpp), and ranks without a pending call that have not issued
///           what is pending on others. So is a rank without a dump for which others wait, unless it may wait
///           itself for a root with a dump, or ranks with dumps wait for each other in a circle.
///   ahead   Instead of roots that have no pending call: ranks that have gone on (suspect_rules.h).
///   messages, circle, stuck    Ranks that are held, where nobody stands still (suspect_rules.h).
///   beside  Where members of groups are not known (unlisted_members.cpp), nothing of them is stuck: few
///           ranks without a pending call are named instead, and then ranks without a dump.
///   lone    A send whose peer has ended, or has not come to receive it.
///   early   Ranks whose dumps are early (early_dumps.h), where all others wait for them.
///
/// Of a job that ran while the dumps were written, nobody is named (suspects.cpp).
///
/// Exact   A message that was sent and that nobody receives is not seen where the ring has lost it: no status
///         tells of it. A call that the ring of a dump has lost may hold its rank, so nothing is said to be
///         stuck behind one, or in a circle with it: then nobody is named.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verify/inspect/odd_programs.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

enum class SuspectKind : std::uint8_t { host, device, order, absent, unknown };
/// Returns "host", "device", "order", "absent" or "unknown".
const char* suspect_kind_name(SuspectKind kind);

struct Suspect {
  int rank = 0;
  SuspectKind kind = SuspectKind::unknown;
  std::string reason;  // a sentence
};

/// What is seen of the suspects.
enum class Seen : std::uint8_t {
  kinds,       // each by its kind
  ahead,       // they have gone on where all others ended
  unreceived,  // they have not come to the other half of messages
  counted,     // they may have made another call than the others, by their counts: `detail` has the calls
  stuck,       // they are all members of calls that do not end
  not_begun,   // or those whose devices have not begun one that the devices of others have begun
  // Of ranks that wait for each other in circles:
  circle,
  alone,     // they are in other calls than the others of the circles
  missed,    // they have not come to a call in which more ranks wait: `detail` has it, and where they wait
  odd_peer,  // one is held by a message, `detail`, and no other one goes as far
  uneven,    // they are of stages with another number of microbatches: `detail` has the numbers
  facing,    // they are two parties, each held in calls of one kind: `detail` has both
  departed,  // they depart from the calls of their pipeline stages
};

struct Suspects {
  std::map<int, Suspect> ranks;
  Seen seen = Seen::kinds;
  std::string detail;
  std::vector<std::vector<int>> circles;  // the shortest of each set of calls that wait for each other
  std::vector<OddProgram> departed;       // each with its first call that departs
  std::vector<int> unknown;  // ranks without a whole dump that are awaited, and may wait for a suspect
  /// So many collectives of different ranks are pending at all of their members, and nobody is a suspect: no
  /// single rank explains them.
  std::size_t running = 0;
  /// Nobody is a suspect, because the job ran while the dumps were written (suspects.cpp): others wait for
  /// these ranks.
  std::vector<int> behind;
  bool has_run() const { return running > 0 || !behind.empty(); }
  bool are_stuck() const { return seen == Seen::stuck || seen == Seen::not_begun; }
  bool are_named_by_kinds() const { return seen == Seen::kinds || seen >= Seen::circle; }

  void add(int rank, SuspectKind kind, std::string reason) {
    ranks.try_emplace(rank, Suspect{rank, kind, std::move(reason)});
  }
  std::vector<int> all() const {
    std::vector<int> found;
    for (const auto& [rank, one] : ranks) found.push_back(rank);
    return found;
  }
};

// Which ranks the others wait for, and how the wait spreads.
//
// Exact   Nothing depends on the order of the files.

struct Waiting {
  std::vector<HoldingCall> calls;  // nearest to a suspect first
  Suspects suspects;
  std::vector<std::string> through;  // kinds or descriptions of the groups by which the wait spreads
  std::int64_t waiting_ranks = 0;    // that wait for a suspect, by other ranks or directly
  std::vector<int> idle;             // ranks with a whole dump and without a pending call
  std::vector<int> held;             // ranks with a pending call
  std::vector<int> lost;             // ranks whose ring may have lost a pending call
};

/// Returns the call that holds a rank, one that waits for others if there is one; null where none holds it.
const HoldingCall* find_call_of(const Waiting& waiting, int rank);

Waiting waiting_of(const Job& job, const Progresses& progresses);

}  // namespace verify
