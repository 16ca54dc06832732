#pragma once

/// The calls of each rank that have not ended, and those of them that hold the rank.
///
/// A rank's device runs the calls of a stream in order, so its first pending call holds it. A send does not,
/// if the rank has issued other calls after it: it went on (unless nothing else explains why the rank is
/// held, see wait_graph.h). Messages that were issued one right after the other
/// in one group may be one batch, so they hold a rank together. A call of a group of one rank waits for
/// nobody, so it holds the rank only where no other call does.
///
/// Shapes  `calls` are in the order in which they were issued; `front` has those that hold the rank.
/// Exact   A call that "pg_status" counts as completed is not pending, whatever its own state. A pending call
///         that only "pg_status" knows, because the ring has lost it, is in `lost`, and `front` is empty:
///         what holds the rank is not known.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>
#include <vector>

#include "verify/recorded_job/job.h"

namespace verify {

// Messages by their numbers: the n-th send from one rank to another in a group is the other half of the n-th
// recv there. So the dumps of both ends tell together how far a message came.
//
// Exact   Only dumps that have every call of their rank (Recording::is_whole) tell the number of a message.

class MessageCounts {
 public:
  explicit MessageCounts(const Job& job);

  /// Whether the rank at the other end, whose dump is `peer`, has completed its half of a message. False
  /// where the dumps do not tell.
  bool has_completed_half(std::size_t peer, const JobCall& call) const;
  /// Returns the number of a message, from 1; nothing where the dump does not tell it.
  std::optional<std::int64_t> number_of(const JobCall& call) const;
  /// Returns the ranks that have issued fewer sends than their peers have received, by the dumps of both.
  std::vector<int> senders_behind() const;

 private:
  /// The halves of the messages of a group between two positions: group, kind, from, to.
  using Direction = std::tuple<std::uint32_t, Operation::Kind, int, int>;
  struct OfRank {
    std::map<Direction, std::int64_t> issued, completed;
    std::vector<std::int64_t> numbers;  // by call; empty where no call is a message
  };

  const Job& job_;
  std::vector<OfRank> ranks_;  // by dump
};

struct PendingCalls {
  std::vector<JobCall> calls, front;
  std::vector<CollectiveId> lost;
  bool any() const { return !calls.empty() || !lost.empty(); }
};

/// How far the members of each group came that came furthest.
class Furthest {
 public:
  struct Completed {
    std::int64_t sequence = 0;
    int rank = -1;
    bool is_counted = false;  // the call itself is not known, only its number
  };
  explicit Furthest(const Job& job) : job_(job), of_(job.groups.size()) {}
  const Completed& of(std::uint32_t group) const { return of_[group]; }
  void take(const CollectiveId& completed, int rank, bool is_counted);
  /// Takes what "pg_status" counts as completed.
  void take_counts();
  /// Takes the completed calls of which this is true.
  template <typename Tells>
  void take_calls(const Tells& tells) {
    for (const JobCall call : job_.calls())
      if (call.is_completed() && tells(call)) take(call.id(), call.rank(), false);
  }

 private:
  const Job& job_;
  std::vector<Completed> of_;  // by group
};

/// What is known of every rank's calls.
class Progresses {
 public:
  explicit Progresses(const Job& job);
  const PendingCalls& of(std::size_t dump) const { return pending_[dump]; }
  /// The pending calls of all dumps.
  auto pending() const { return pending_ | std::views::transform(&PendingCalls::calls) | std::views::join; }
  const MessageCounts& messages() const { return messages_; }
  /// Whether the rank of a dump has issued a collective.
  bool has_issued(std::size_t dump, const CollectiveId& id) const;
  bool has_completed(std::size_t dump, const CollectiveId& id) const;
  /// The last collective of a group that a rank has issued; 0 where it has issued none.
  std::int64_t last_issued(std::size_t dump, std::uint32_t group) const;
  /// The number of the last collective, or message, of a group that a rank has issued; -1 where its dump does
  /// not tell, because it leaves out what has completed, or because its ring has lost all of them.
  std::int64_t last_number(std::size_t dump, std::uint32_t group, bool of_messages) const;
  /// Whether the rank has a pending call of this collective.
  bool is_pending(std::size_t dump, const CollectiveId& id) const;
  /// Whether the dumps have completed calls, and not active ones alone.
  bool has_completed_calls() const { return has_completed_calls_; }
  /// Whether a rank has a whole dump, and no pending call.
  bool is_idle(std::size_t dump) const {
    return !job_.recordings[dump].is_truncated && !pending_[dump].any();
  }
  /// Whether the ring of a dump may have lost a call that is pending: "pg_status" knows one, or the ring has
  /// overwritten earlier calls, and the first that it still has is pending. It has not where "pg_status"
  /// counts the calls of all groups of the rank, and knows at most one that is lost: that one holds the rank.
  bool may_have_lost(std::size_t dump) const { return may_have_lost_[dump]; }

 private:
  void find_cut_rings();

  const Job& job_;
  MessageCounts messages_;
  bool has_completed_calls_ = false;
  std::vector<PendingCalls> pending_;
  std::vector<std::vector<CollectiveId>> collectives_;  // that are pending, by dump, sorted
  std::vector<bool> may_have_lost_;                     // by dump
};

}  // namespace verify
