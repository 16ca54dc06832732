#pragma once

/// A replay as a file in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
/// open. It shows the activity of the virtual ranks of each scenario in the logical time of
/// sim/world/run_timeline.h. Viewers show a unit of this time as a microsecond.
///
/// Shapes  each pipeline stage of a scenario is a process. In it each rank is a thread, with further threads
///         for the calls that the rank started and that run beside it. Slices ("X") are compute, calls and
///         waits; those of calls and waits have the data of the call record, and those inside of a training
///         step have their layer, microbatch, chunk and pass. An arrow ("s", "f") goes from
///         each send to its recv. A file has up to kMostTracedSlices slices, about 40 MB. If the runs have
///         more, each run shows the ranks that fit into its share, whole pipelines first. "otherData" says
///         how many ranks are shown, and what the units cost.
/// Exact   the same reports give the same bytes. The file is valid JSON for any text of a scenario.
/// Source  Trace Event Format, the JSON object format.

#include <cstddef>
#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

inline constexpr std::size_t kMostTracedSlices = 150'000;

std::string trace_json(const std::vector<ScenarioReport>& reports);

}  // namespace verify
