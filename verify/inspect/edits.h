#pragma once

/// Who is wrong: the least number of edits under which the recorded calls match.
///
/// An edit changes what one rank did, so that the others would not wait: it had gone on, or had left out a
/// call. Each kind of edit is a row of the table in edits.cpp: a finder, which says of which ranks the
/// evidence fits the edit, and a cost. Rows are tried by cost, and all edits of the cheapest row that finds
/// any are told.
///
///   const Explanation found = explained({job, progresses, snapshots, graph, disagreements, order});
///
/// Shapes  Explanation::ranks has the ranks to look at, each with typed facts. Sentences are written from
///         these in report.cpp alone.
/// Exact   A cost is a rank in an order, and no probability. Direct evidence is cheapest: calls that differ.
///         Next comes that the job ran, as nobody is then at fault. Ranks that wait for each other cost less
///         than one without a dump, which may wait, too. Nothing depends on the order of the files.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/inspect/disagreements.h"
#include "verify/inspect/odd_programs.h"
#include "verify/inspect/snapshots.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

enum class SuspectKind : std::uint8_t { host, device, order, absent };
/// Returns "host", "device", "order" or "absent".
const char* suspect_kind_name(SuspectKind kind);

/// What a sentence says: `sentence` names a row of sentences.tsv.
struct Facts {
  std::string_view sentence;
  std::vector<int> ranks, others;
  std::optional<HoldingCall> call, other;
  std::optional<std::uint32_t> group;
  std::int64_t n = 0, m = 0;
  std::int64_t at = -1;  // a pipeline stage
};

struct Suspect {
  int rank = 0;
  SuspectKind kind = SuspectKind::host;
  Facts facts;
  std::string reason;  // the sentence of the facts
};

enum class EditKind : std::uint8_t {
  none,
  altered,     // a call is another one than that of the other members
  regrouped,   // groups are made in another order
  older,       // dumps are of different times: the job ran, and nobody is at fault
  late,        // so it did, and one rank came late
  extra,       // calls are made that the others do not make
  stopped,     // a host stops issuing calls
  silent,      // a device does not see calls end
  unmet,       // both halves of a message are pending, with nothing before them
  uneven,      // a pipeline stage has another number of microbatches
  departed,    // a call is left out, made twice or exchanged
  crossed,     // ranks wait for each other, and nothing tells which of them is wrong
  gone,        // a rank has no dump
  relined,     // a call is made in another line of the program
  unbegun,     // a device has not begun a call to which all have come
  unended,     // nobody ends a call to which all have come
  unreceived,  // a message waits for a rank, and no call holds the rank
  unlinked,    // a rank stands still, or is gone, and no call that is known waits for it
};

struct Explanation {
  EditKind kind = EditKind::none;
  std::map<int, Suspect> ranks;
  Facts facts;                            // why, where one sentence says it of all ranks
  std::vector<std::vector<int>> circles;  // the shortest of each set of ranks that wait for each other
  std::vector<OddProgram> departed;       // each with its first call that departs
  std::vector<int> unknown;               // ranks without a whole dump that are awaited, and may wait
  std::vector<int> behind;                // of a job that ran: ranks that others wait for
  std::size_t running = 0;                // calls to which every member has come, of such a job
  std::int64_t elsewhere = 0;             // ranks of such a job that wait, and not for those
  std::optional<Disagreement> altered;    // the first disagreement that holds ranks
  std::int64_t sisters = 0;               // other groups that differ as this one does
  bool is_smaller = false;                // of two parties that wait for each other, the smaller one is named
  bool departs = false;                   // its ranks are distinguished by their programs
  Slowest slowest;                        // of a job that ran

  void add(int rank, SuspectKind kind_of, Facts why) {
    ranks.try_emplace(rank, Suspect{.rank = rank, .kind = kind_of, .facts = std::move(why), .reason = {}});
  }
  std::vector<int> all() const {
    std::vector<int> found;
    for (const auto& [rank, one] : ranks) found.push_back(rank);
    return found;
  }
};

/// The ends of the graph of waits, and their ranks.
struct Ends {
  std::vector<int> stopped, silent, gone;         // ranks that wait for nobody
  std::vector<std::vector<std::size_t>> circles;  // nodes
  std::vector<const HoldingCall*> stuck;          // calls to which all have come
};

/// What is known of a job that hung.
struct Evidence {
  const Job& job;
  const Progresses& progresses;
  const Snapshots& snapshots;
  const WaitGraph& graph;
  const std::vector<Disagreement>& disagreements;
  const InspectionFinding& order;  // of groups
  Ends ends = {};

  /// Whether the dump of a rank ends in the middle: it may have more calls than it shows.
  bool is_cut(int rank) const {
    const Recording* const own = job.find_recording(rank);
    return own != nullptr && own->is_truncated;
  }
  bool is_idle(int rank) const { return job.dump_of(rank) && progresses.is_idle(*job.dump_of(rank)); }
  bool may_have_lost(int rank) const {
    return job.dump_of(rank) && progresses.may_have_lost(*job.dump_of(rank));
  }
  bool has_lost_call_of(int rank) const {
    return job.dump_of(rank) && !progresses.of(*job.dump_of(rank)).lost.empty();
  }

  std::ptrdiff_t stage_of(int rank) const { return job.stage_of(*job.dump_of(rank)); }
  std::int64_t last_issued(int rank, std::uint32_t group) const {
    return progresses.last_issued(*job.dump_of(rank), group);
  }
  /// Returns the calls that hold a rank, as indices into those of the graph.
  const std::vector<std::size_t>& front_of(int rank) const { return graph.fronts[*job.dump_of(rank)]; }
  const HoldingCall& first_call_of(int rank) const { return graph.calls[front_of(rank).front()]; }
  /// Whether a call that holds a rank waits for another one.
  bool waits_for(int rank, int other) const;
  /// Returns a message that waits for a rank; null where there is none.
  const HoldingCall* message_that_awaits(int rank) const;
};

/// Finds the ends, and returns the edits of the cheapest row that finds any.
Explanation explained(Evidence know);

// The finders: each adds the ranks of its edits, and changes nothing where the evidence does not fit.

// edits_of_calls.cpp: calls that are other ones, that run, that few ranks make, or that do not end.

/// A disagreement that holds ranks, and those of other groups that differ in the same way. If no party is
/// smaller, the ranks are named that depart from their pipeline stages.
void find_altered(const Evidence& know, Explanation& found);

/// The job ran while the dumps were written: dumps are older than others; or calls can end, or (if no
/// messages are recorded) ranks wait, beside a rank for which all wait in a job that hangs; or several calls
/// can end. A lag is of a device only if few ranks lag (one, or an eighth, both chosen, of four or more).
void find_older(const Evidence& know, Explanation& found);

/// Ranks that have gone on where the others ended: few ranks wait in calls, and the others have no pending
/// call and have made exactly the calls before, as have those of other groups of the kind. If one rank alone
/// could be compared, it may have left out the call, and both are named.
void find_extra(const Evidence& know, Explanation& found);

/// Messages that do not end although both of their ends are at them.
void find_unmet(const Evidence& know, Explanation& found);

/// Calls to which all have come: members that make one in another line of the program than most, then those
/// whose devices have not begun it, then all. If sends hold all ranks, those that have not received.
void find_unended(const Evidence& know, Explanation& found);

/// Whether a call to which all have come is a collective that can end: the dump of every member is there and
/// not cut, and nothing else holds it.
bool can_end(const Evidence& know, const HoldingCall& call);

/// Few ranks without a pending call beside calls whose members are not known; then ranks without a dump in
/// whose groups calls are pending; then the peer of a send.
void find_unlinked(const Evidence& know, Explanation& found);

// edits_of_circles.cpp: ranks of which each waits for the next one. The first of these is named that is
// there: the ranks of a pipeline stage with another number of microbatches than the others; ranks that depart
// from the calls of their stage (odd_programs.h); ranks of the shortest circle, and of pairs beside it.
// Nothing is said of a circle with a rank that may have lost the call that holds it.
void find_circles(const Evidence& know, Explanation& found);

}  // namespace verify
