#pragma once

/// A pipeline schedule as text for people: a table of the steps of each rank, and a Gantt chart in letters
/// that has a row for each rank and a column for each unit of time. F is a forward step and B a backward
/// step, with the number of the microbatch and, if ranks have several chunks, a letter for the chunk.
///
/// Shapes  the chart has at most `columns` characters in a line and kMostRows ranks; the text says what was
///         left out.

#include <string>

#include "sim/pipeline/timeline.h"

namespace verify {

inline constexpr int kMostRows = 64;

std::string schedule_table(const sim::PipelineSchedule& schedule);
std::string schedule_gantt(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline, int columns,
                           bool colour);

/// Returns the letter of a chunk, "a" for chunk 0, or its number if there are not enough letters.
std::string chunk_name(int chunk);

/// Returns the bubble as a share of the work, as a fraction in lowest terms: "3/8".
std::string bubble_share(const sim::Timeline& timeline);

}  // namespace verify
