#pragma once

/// The schedules there are, each one function that writes down what one rank does. A new one is such a
/// function, and a row of all_schedules().
///
/// Calls   none: no_pipelining, one microbatch at a time through all stages; on one rank Megatron's
///         forward_backward_no_pipelining. gpipe: all forward, then all backward, in the same order.
///         1f1b: warm-up of min(p - rank - 1, m) forward steps, then one forward and one backward in turn,
///         then the rest backward. What a rank sends one way in the steady part and what it then waits for
///         from there are one batch, so that sends that wait for their recv do not wait for each other.
///         interleaved: warm-up of 2 (p - rank - 1) + (v - 1) N of the v m forward steps, which take N
///         microbatches through all chunks before the next N; backward steps the chunks in reverse. One batch
///         after each step of warm-up and cool-down, and after each pair of the steady part. Rank 0 receives
///         from rank p - 1 with a lag of p - 1 steps; so, backward, does rank p - 1 from rank 0.
///         forward_only: the same without backward; interleaved, all of it is warm-up.
/// Shapes  peak_live: 1, m, min(warmup + 1, m) and min(warmup + 1, v m); forward_only: all.
/// Errors  not_interleaved: chunks given to another schedule; needs_chunks: no chunks given to interleaved.
/// Exact   where every step takes as long, bubble / work is p - 1, (p - 1)/m, (p - 1)/m and (p - 1)/(v m):
///         see timeline.h.
/// Source  Huang et al. 2019 (GPipe); Narayanan et al. 2021; Megatron-LM schedules.py, without
///         overlap_p2p_comm.

#include <span>

#include "sim/pipeline/schedule.h"

namespace sim {

RankSchedule no_pipelining(const PipelineShape& shape, int rank);
RankSchedule gpipe(const PipelineShape& shape, int rank);
RankSchedule one_forward_one_backward(const PipelineShape& shape, int rank);
RankSchedule interleaved(const PipelineShape& shape, int rank);

struct NamedSchedule {
  const char* name;
  ScheduleFunction function;
  bool is_interleaved;  // takes chunks
};

std::span<const NamedSchedule> all_schedules();

/// Refuses chunks, for a schedule that has none.
void check_not_interleaved(const PipelineShape& shape, int rank, const char* name);

}  // namespace sim
