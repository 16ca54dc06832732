#pragma once

/// Calls about which the members of a group disagree: they make different operations, with different dtypes
/// or numbers of elements, under the same collective_seq_id.
///
/// Exact   Elements are compared where every member has as many: those that go into an all_reduce, broadcast,
///         reduce or reduce_scatter, and those that come out of an all_gather. The halves of a message are
///         compared where both are pending. Only calls that are in the dumps of several members can be.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verify/recorded_job/job.h"
#include "verify/recorded_job/pending_calls.h"

namespace verify {

inline constexpr std::size_t kMostDisagreements = 1000;

/// Something in the dumps that is not as it should be.
struct InspectionFinding {
  /// waiting, circle, stuck, operation, dtype, size, parts, groups, message, members, rank, world, version,
  /// layout, truncated, absent, lost
  std::string what;
  std::string text;        // a sentence
  std::vector<int> ranks;  // ascending
};

struct Disagreement {
  /// Members that make the same call.
  struct Party {
    std::string call;  // "all_reduce of 16 x Float"
    std::vector<int> ranks;
  };
  std::uint32_t group = 0;
  std::int64_t sequence = 0;
  std::string what;            // "operation", "dtype" or "size"
  std::vector<Party> parties;  // the largest first
  bool holds_ranks = false;    // the call is pending on a member
  bool is_message = false;
  /// Whether one party is larger than each other one.
  bool has_majority() const {
    return parties.size() > 1 && parties[0].ranks.size() > parties[1].ranks.size();
  }
  /// Returns the ranks to look at: the smaller parties, or all ranks where two parties are the largest.
  std::vector<int> odd_ranks() const;
};

/// Returns a sentence: "Call 3 of the tp group of ranks 0 and 1 differs in size: rank 0 makes ...".
std::string disagreement_words(const Job& job, const Disagreement& one);

/// Returns the part of a call's dtypes that every member has: those of its inputs.
std::string_view input_dtypes(std::string_view dtypes);

/// Returns the disagreements, by group and sequence: the first kMostDisagreements, or the first of each
/// group.
std::vector<Disagreement> disagreements_of(const Job& job, const Progresses& progresses, bool all);

// group_order.cpp: ranks that have made their groups in another order than the other members of these groups.
//
// PyTorch names a group by a number, which each rank counts up with every group that it makes or passes
// over. So the members of a group have one name of it, unless they make their groups in different orders.
// The communicator of such a group is never formed, and whoever calls in it waits.
//
// Exact   A rank is named that has another name of groups than most of their members; of groups without a
//         majority the one that is in most of them, and of several such ranks those that number two kinds of
//         groups in another order than most ranks do. Where more than two ranks, and more than an eighth of
//         them, are named so, or names are no numbers, nothing is said, and nothing of a group in which a
//         call has completed: some groups are made by their members alone, or as parts of a larger one, and
//         counted by these alone.
// Source  PyTorch, torch/distributed/distributed_c10d.py, _process_group_name.

/// Returns the ranks that do; none where no rank is known to make its groups in another order.
InspectionFinding odd_group_order_of(const Job& job);

}  // namespace verify
