#pragma once

/// The ranks to look at first: the ends of the graph of waits (wait_graph.h). The shortest explanation comes
/// first, and a later kind is looked for only where the earlier ones name nobody:
///
///   roots   Ranks whose devices are behind (lags.h), and ranks without a pending call that have not issued
///           what is pending on others. So is a rank without a dump for which others wait, unless it may wait
///           itself for a root with a dump, or ranks with dumps wait for each other in a circle.
///   ahead   Instead of roots that have no pending call: the ranks that wait for them, where these are few
///           and have gone on where all others ended (calls_ahead.h).
///   messages  The ranks of messages that both of their ends wait for (stuck_calls.h).
///   circle  Ranks of which each waits for the next one (circle_suspects.h).
///   stuck   A call to which every member has come, and which none has completed (stuck_calls.h).
///   beside  Where members of groups are not known (unlisted_members.h), nothing of them is stuck: few ranks
///           without a pending call are named instead, and then ranks without a dump.
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
#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/odd_programs.h"
#include "verify/inspect/pending_calls.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

// What is known of a job that hung, as the rules ask for it that choose the suspects.

struct Evidence {
  const Job& job;
  const Progresses& progresses;
  const std::vector<Lag>& lags;
  const WaitGraph& graph;

  const Recording& recording(std::size_t dump) const { return job.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  /// Returns the dump of a rank; -1 where it has none.
  int dump_of(int rank) const { return job.dump_of_rank[static_cast<std::size_t>(rank)]; }

  bool is_early(int rank) const {
    return dump_of(rank) >= 0 && job.is_early[static_cast<std::size_t>(dump_of(rank))];
  }
  /// Whether a call that the ring of a rank has lost may hold the rank.
  bool may_have_lost(int rank) const {
    return dump_of(rank) >= 0 && progresses.may_have_lost(static_cast<std::size_t>(dump_of(rank)));
  }
  /// Whether the call that holds a rank is known by its number only: it may be another one than the others
  /// make under this number.
  bool has_lost_call_of(int rank) const {
    return dump_of(rank) >= 0 && !progresses.of(static_cast<std::size_t>(dump_of(rank))).lost.empty();
  }
  /// Returns the first of the calls that hold a rank, which must be held.
  const HoldingCall& first_call_of(int rank) const {
    return graph.calls[graph.fronts[static_cast<std::size_t>(dump_of(rank))].front()];
  }
};

enum class SuspectKind : std::uint8_t { host, device, order, absent, unknown };
/// Returns "host", "device", "order", "absent" or "unknown".
const char* suspect_kind_name(SuspectKind kind);

struct Suspect {
  int rank = 0;
  SuspectKind kind = SuspectKind::unknown;
  std::string reason;  // a sentence
};

struct Suspects {
  std::vector<Suspect> ranks;             // ascending by rank
  std::vector<std::vector<int>> circles;  // the shortest of each set of calls that wait for each other
  bool are_alone = false;    // the suspects of circles are in other calls than the others of them
  std::vector<int> unknown;  // ranks without a whole dump that are awaited, and may wait for a suspect
  bool is_ahead = false;     // the suspects have gone on where all others ended
  bool is_stuck = false;     // the suspects are all members of calls that do not end
  bool are_behind = false;  // or those whose devices have not begun one that the devices of others have begun
  /// The suspects of circles have not come to this call, in which more ranks wait: "nccl:barrier, call 3 of
  /// the default group, in which ranks 0 to 5 wait, and waits in ...". "": there is no such call.
  std::string missed;
  /// The suspects of a circle are two parties, each held in calls of one kind: "ranks 0 and 1 wait in
  /// nccl:barrier, call 3 of the default group, and ranks 2 and 3 in ... and in 1 other group of this kind".
  /// "": there are no such parties.
  std::string facing;
  /// The suspect of a circle is held by this message, and no other one goes as far: "nccl:send 0->2 of the pp
  /// group of ranks 0, 2 and 4". "": there is no such message.
  std::string odd_peer;
  /// The suspects of circles are the ranks of stages with another number of microbatches (uneven_stages.h):
  /// "ranks 4 to 7, stage 1 of the pipeline, have begun 5 microbatches ...". "": there are no such stages.
  std::string uneven;
  /// The suspects of circles depart from the calls of their pipeline stages: each with its first such call.
  std::vector<OddProgram> departed;
  /// The suspects may have made another call than the others, or those wait: "rank 0 has completed
  /// nccl:gather, call 3 of ..., by its count, and ranks 1 to 3 wait in it". "": there are no such calls.
  std::string counted;
  /// So many collectives of different ranks are pending at all of their members, and nobody is a suspect: no
  /// single rank explains them.
  std::size_t running = 0;
  /// Nobody is a suspect, because the job ran while the dumps were written (suspects.cpp): others wait for
  /// these ranks.
  std::vector<int> behind;
  bool is_unreceived = false;  // the suspects have not come to the other half of messages
  bool has_run() const { return running > 0 || !behind.empty(); }
};

Suspects suspects_of(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags,
                     const WaitGraph& graph);

}  // namespace verify
