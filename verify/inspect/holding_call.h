#pragma once

/// Calls that hold ranks, and groups, in words.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/recorded_job/call_meaning.h"
#include "verify/recorded_job/job.h"

namespace verify {

/// A call that holds ranks.
struct HoldingCall {
  std::uint32_t group = 0;
  std::int64_t sequence = 0;  // of a collective; of a message its p2p_seq_id on the rank that waits
  bool is_message = false;
  std::size_t dump = 0;    // of a rank that waits in it
  std::int64_t call = -1;  // index into its calls; -1: only "pg_status" knows the call
  std::vector<int> waiting;
  std::vector<int> awaited;
  std::vector<int> absent;     // members of whom no dump tells
  std::vector<int> completed;  // members that have completed a collective in which others wait
  int peer = -1;               // of a message: the rank to which it goes, or from which it comes
  int distance = -1;           // from a suspect: 1 if the call waits for one; -1: it waits for none

  CollectiveId id() const { return {group, sequence}; }
  /// Returns the call as a rank that waits in it has recorded it; nothing where only "pg_status" knows it.
  std::optional<JobCall> recorded_in(const Job& job) const {
    return call < 0 ? std::nullopt : std::optional(job.call_at(dump, call));
  }
  /// Returns the ranks for which the call waits: those with a dump, or without any of these the absent ones.
  const std::vector<int>& targets() const { return awaited.empty() ? absent : awaited; }
  bool awaits() const { return !targets().empty(); }
};

/// Returns a call as one in which its rank alone waits.
HoldingCall holding_call_of(const JobCall& call);

/// Returns a call in words: "nccl:all_reduce, call 12 of the tp group of ranks 0 and 1".
std::string call_words(const Job& job, const HoldingCall& call);
std::string call_words(const JobCall& call);

/// Returns the line of a call that holds ranks, of the first rank that has recorded it.
std::string line_of(const Job& job, const HoldingCall& call);

/// Says of a call for which nobody is awaited how far its members came: "Every member has come to
/// nccl:all_reduce, call 12 of ..., and none has completed it."
std::string stuck_words(const Job& job, const HoldingCall& call);

/// Returns a group in words: "the tp group of ranks 0 and 1".
std::string group_words(const JobGroup& group);

}  // namespace verify
