#pragma once

/// A replay in the forms in which it is shown and kept: as text, JSON, a page, JUnit XML and a trace.
///
/// Exact   The same reports give the same bytes; JUnit files of two runs differ in their seconds. JSON, HTML
///         and XML are well-formed for any text of a scenario, which is never read as markup.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/memory/model_memory.h"
#include "verify/output/json.h"
#include "verify/output/outcomes.h"
#include "verify/replay/scenario_report.h"

namespace verify {

/// Returns one row for each check, warning and refusal, then the tables and findings.
std::string replay_text(const ScenarioReport& report, bool colour);

/// Returns the last line, with the verdict of all scenarios.
std::string replay_summary_text(const std::vector<ScenarioReport>& reports, bool colour);

/// Returns the object whose keys verify/program/README.md lists. The name of a number has its unit.
Json replay_json(const ScenarioReport& report);

/// Returns a member for each stage: its bytes between steps and at the largest moment, and the parts of the
/// latter. Where activations are not counted, there is no largest moment: null.
Json memory_stages_json(const MemoryReport& memory);

/// Returns one self-contained HTML file, to be read, mailed or kept beside a build. It has a summary with
/// links, and then for each scenario its verdict, checks, ranks by node, pipeline schedule, ledger, memory,
/// losses, warnings, refusal and findings. A part that a scenario does not have is left out with its heading.
/// `command` is the one that has made the reports.
std::string report_html(const std::vector<ScenarioReport>& reports, std::string_view command = "replay");

/// All ranks of a world of up to this many are drawn; of a larger world the first nodes, and a sentence says
/// so.
inline constexpr int kMostDrawnRanks = 512;

/// Returns the part of the page with the ranks node by node: each with its coordinates on the dense grid, and
/// the colour of its tp group.
std::string rank_grid_html(const sim::Layout& layout, const sim::NodePlacement& nodes);

/// Returns the outcomes for build servers. Each scenario is a testsuite, and each check is a testcase. A
/// check that does not hold is a failure. A refusal is an error, and so are the findings of a scenario that
/// expects none. A testcase has the seconds that its check took, where the report has them
/// (ScenarioReport::seconds); a check that takes no time worth a measurement has 0.
std::vector<OutcomeSuite> suites_of(const std::vector<ScenarioReport>& reports);
/// Returns them as JUnit XML, as Jenkins and GitLab read it.
std::string report_junit(const std::vector<ScenarioReport>& reports, std::string_view command = "replay");

// The Chrome trace event format (JSON object format), which Perfetto (ui.perfetto.dev) and chrome://tracing
// open. It shows the activity of the virtual ranks of each scenario in the logical time of
// sim/world/run_timeline.h. Viewers show a unit of this time as a microsecond.
//
// Shapes  each pipeline stage of a scenario is a process. In it each rank is a thread, with further threads
//         for the calls that the rank started and that run beside it. Slices ("X") are compute, calls and
//         waits; those of calls and waits have the data of the call record, and those inside of a training
//         step have their layer, microbatch, chunk and pass. An arrow ("s", "f") goes from
//         each send to its recv. If the runs have more slices than a file may have, each run shows the ranks
//         that fit into its share, whole pipelines first. "otherData" says how many ranks are shown, and what
//         the units cost.

/// A file of this many slices has about 40 MB.
inline constexpr std::size_t kMostTracedSlices = 150'000;

std::string trace_json(const std::vector<ScenarioReport>& reports);

}  // namespace verify
