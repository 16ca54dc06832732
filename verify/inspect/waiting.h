#pragma once

/// Who waits for whom: a graph of ranks and of the calls that hold them, and the ranks at its end.
///
/// A rank that a collective holds waits for every member that has not come to the call: it has not issued it,
/// or an earlier call holds its device. A rank that a message holds waits for its peer, until the peer is at
/// the other half. From there on:
///
///   device  A rank is behind on its device if a collective is pending on it that another member has completed:
///           its own device has taken part in it, so nothing that it waits for explains this.
///   host    A rank is behind on its host if another member has issued more calls of a group, although the same
///           calls are pending on both: what holds this rank has not kept the other's host from going on.
///   roots   Ranks of these two kinds, and ranks without a pending call for which somebody waits, wait for
///           nobody. So does a rank without a dump; it is a root only where no rank with a dump explains a call.
///   circle  Ranks of which each waits for the next one. If most of them are in one call, the few that are not
///           made their calls in another order.
///   stuck   A call to which every member has come, and which none has completed.
///
/// Exact   The shortest explanation comes first: circles and calls that are stuck are named where there is no
///         root that explains them. Nothing depends on the order of the files.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

enum class SuspectKind : std::uint8_t { host, device, order, absent, unknown };
/// Returns "host", "device", "order", "absent" or "unknown".
const char* suspect_kind_name(SuspectKind kind);

struct Suspect {
  int rank = 0;
  SuspectKind kind = SuspectKind::unknown;
  std::string reason;  // a sentence
};

/// A call that holds ranks.
struct HoldingCall {
  std::uint32_t group = 0;
  std::int64_t sequence = 0;  // of a collective; of a message its p2p_seq_id on the rank that waits
  bool is_message = false;
  std::size_t dump = 0;    // of a rank that waits in it
  std::int64_t call = -1;  // index into its calls; -1: only "pg_status" knows the call
  std::vector<int> waiting;
  std::vector<int> awaited;
  std::vector<int> absent;  // members without a dump
  int distance = -1;        // from a suspect: 1 if the call waits for one; -1: it waits for none
};

struct Waiting {
  std::vector<HoldingCall> calls;    // nearest to a suspect first
  std::vector<Suspect> suspects;     // ascending by rank
  std::vector<int> circle;           // the shortest circle among the suspects' calls; empty without one
  std::vector<std::string> through;  // kinds or descriptions of the groups by which the wait spreads
  std::int64_t waiting_ranks = 0;    // that wait for a suspect, by other ranks or directly
  bool is_stuck = false;             // the suspects are all members of calls that do not end
};

Waiting waiting_of(const Job& job, const Progresses& progresses);

/// Returns a call in words: "nccl:all_reduce, call 12 of the tp group of ranks 0 and 1".
std::string call_words(const Job& job, const HoldingCall& call);

/// Returns a group in words: "the tp group of ranks 0 and 1".
std::string group_words(const JobGroup& group);

}  // namespace verify
