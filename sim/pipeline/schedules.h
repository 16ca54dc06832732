#pragma once

/// The available schedules. Each is one function that writes the list of actions of one rank. To add a
/// schedule, write such a function and add a row to all_schedules().
///
/// Calls   none (no_pipelining): each microbatch runs forward and backward through all stages before the next
///         one starts. On one rank this is Megatron's forward_backward_no_pipelining.
///         gpipe: all microbatches forward, then all backward, in the same order.
///         1f1b: a warm-up of min(p - rank - 1, m) forward steps, then one forward and one backward step in
///         turn, then the remaining backward steps. In the steady phase, what a rank sends to a neighbour and
///         what it then waits for from that neighbour are one batch, so that sends that wait for their recv
///         do not wait for each other.
///         interleaved: a warm-up of 2 (p - rank - 1) + (v - 1) N of the v m forward steps. Forward steps
///         take N microbatches through all chunks before the next N; backward steps take the chunks in
///         reverse. One batch of messages follows each step of warm-up and cool-down, and each pair of the
///         steady phase. Rank 0 receives from rank p - 1 with a lag of p - 1 steps; in backward, rank p - 1
///         receives from rank 0 with the same lag.
///         forward_only: the same without backward; all steps of the interleaved schedule are then warm-up.
/// Shapes  peak_live, in this order: 1, m, min(warmup + 1, m) and min(warmup + 1, v m); with forward_only,
///         all forward steps.
/// Errors  not_interleaved: another schedule is given chunks; needs_chunks: interleaved is given none.
/// Exact   If all steps take equally long, bubble / work is p - 1, (p - 1)/m, (p - 1)/m and (p - 1)/(v m):
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
  bool is_interleaved;  // needs a shape with chunks
};

std::span<const NamedSchedule> all_schedules();

/// Refuses a shape with chunks. Schedules that are not interleaved call it; `name` is theirs, for the
/// message.
void require_not_interleaved(const PipelineShape& shape, int rank, const char* name);

}  // namespace sim
