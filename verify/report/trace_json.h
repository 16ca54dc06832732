#pragma once

/// A replay as a file in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
/// open: what the virtual ranks of each scenario did, in the logical time of sim/world/run_timeline.h.
/// Viewers show a unit of it as a microsecond.
///
/// Shapes  one process a scenario and pipeline stage; in it one thread a rank, and further ones for the calls
///         that it started and that run beside it. Slices ("X") are compute, calls and waits, each with what
///         the call record says of it; an arrow ("s", "f") goes from each send to its recv. A file has up to
///         kMostTracedSlices slices, about 40 MB; where the runs have more, of each the ranks that fit into
///         its share, whole pipelines first. "otherData" says how many, and what units cost.
/// Exact   the same reports give the same bytes; valid JSON for any text of a scenario.
/// Source  Trace Event Format, the JSON object format.

#include <cstddef>
#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

inline constexpr std::size_t kMostTracedSlices = 150'000;

std::string trace_json(const std::vector<ScenarioReport>& reports);

}  // namespace verify
