#pragma once

/// Ranks that depart from the calls of the other ranks of their pipeline stage: all ranks of a stage make the
/// same calls, each in its own groups.
///
/// The calls are compared one after the other. At the first difference the ranks of a strict majority, of two
/// at least, go on, and the others depart; a rank counts that has groups of all kinds in which the calls were
/// made. Where no such majority is, nothing is said of the stage from there on.
///
/// Shapes  A call, in a group of several ranks, is the description of the group, its operation and its
///         collective_seq_id; a batch of messages is its sends and recvs with the distances of their peers.
/// Calls   Harmless differences exist in jobs that end, so this only tells apart ranks that are suspects.
/// Exact   Where the rings of a stage have lost calls, the comparison begins at the earliest collective that
///         all its dumps have. Left out are stages with a dump of active calls alone, and jobs with messages
///         whose pipeline groups are not known.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/recorded_job/job.h"

namespace verify {

struct OddProgram {
  int rank = 0;
  HoldingCall own;     // the first call that is another one
  HoldingCall others;  // what a rank of the majority made in its place
};

/// Whether the elements and dtypes of collectives are compared, too. Elements of an all_to_all never are.
enum class Elements : std::uint8_t { left_out, compared };

/// Returns the ranks that depart, in ascending order.
std::vector<OddProgram> odd_programs(const Job& job, Elements elements);

/// Returns whose calls so many odd ranks depart from: "the other ranks of its pipeline stage", or "the other
/// ranks" in a job without pipelines.
std::string words_of_others(const Job& job, std::size_t ranks);

}  // namespace verify
