#pragma once

/// Turns a run into what PyTorch's flight recorder would have kept of it, rank by rank: a run of virtual
/// ranks, or that of the ranks of one process.
///
///   groups  The world, and each group in which the rank made a call, because PyTorch adds a group when its
///           communicator is first used. A group's name is the number of its new_group call in a Megatron
///           job, and the rank's own number of it (pg_id) counts the groups of the rank in that order. Groups
///           that the program makes come after those of the layout; a process knows only those of its rank.
///   calls   Collectives and messages. split and new_group are not recorded, as PyTorch records neither.
///   state   A call that never completes is started if it is the first such call of its group (for a
///           message: from its sender to its receiver in the group), and scheduled after another one.
///
/// Shapes  sizes are flat: a tensor has one dimension, its elements. The output of all_to_all_uneven is
///         written with the size of its input, because the record of a call does not have it; over a group
///         both add up to the same. A barrier is an all_reduce of one element.
/// Exact   times are those of sim/world/run_timeline.h, one unit as one nanosecond, from 1 on. They are the
///         same for every schedule, number of threads and kind of context. No clock is read.
/// Source  PyTorch, ProcessGroupNCCL.cpp, with timing (TORCH_NCCL_ENABLE_TIMING).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "sim/layout/layout.h"
#include "sim/world/run_timeline.h"
#include "sim/world/simulate.h"
#include "verify/recordings/dump_writer.h"

namespace verify {

/// The most calls of a rank that a dump keeps, unless the user asks for another number. PyTorch has the same
/// default.
inline constexpr std::int64_t kDumpedCalls = 2000;

/// The place of a group in a dump, and of the rank in the group.
struct FlightPlace {
  std::size_t group = 0;
  int place = 0;
};

class RunDumpWriter {
 public:
  /// The arguments must outlive this object. A dump keeps the latest `most_calls` calls.
  RunDumpWriter(const sim::Layout& layout, const sim::RunReport& run, const sim::RunTimeline& timeline,
                std::int64_t most_calls = kDumpedCalls);
  std::size_t size() const { return run_.ranks.size(); }
  /// Returns the dump of a rank, given by its place in the report.
  RankDump dump_of(std::size_t index);

 private:
  using Places = std::map<const sim::ProcessGroup*, FlightPlace>;

  std::map<int, int> layout_groups_of(int rank) const;
  Places add_groups(const sim::RankReport& rank, RankDump& dump);

  const sim::Layout& layout_;
  const sim::RunReport& run_;
  const sim::RunTimeline& timeline_;
  std::int64_t most_calls_;
  /// The numbers of the names of groups that the program made, by kind and index.
  std::map<std::pair<std::string, int>, int> made_;
  std::map<int, std::string> ranks_texts_;  // of groups, by the numbers of their names
};

}  // namespace verify
