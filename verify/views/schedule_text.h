#pragma once

/// A pipeline schedule for eyes: a table of what each rank does, and a Gantt chart in letters: a row a rank,
/// a column a unit of time. F is forward, B backward, with the number of the microbatch and, where ranks have
/// chunks, a letter for the chunk.
///
/// Shapes  at most `columns` characters wide and kMostRows ranks high: what is cut is said.

#include <string>

#include "sim/pipeline/timeline.h"

namespace verify {

inline constexpr int kMostRows = 64;

std::string schedule_table(const sim::PipelineSchedule& schedule);
std::string schedule_gantt(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline, int columns,
                           bool colour);

/// "a" for chunk 0; a number beyond "z".
std::string chunk_name(int chunk);

/// The bubble as a share of the work, in lowest terms: "3/8".
std::string bubble_share(const sim::Timeline& timeline);

}  // namespace verify
