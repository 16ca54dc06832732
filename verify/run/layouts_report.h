#pragma once

/// What is said of runs that are compared: the verdict first, a row for each layout, what is wrong with each
/// that does not hold, and what was compared.

#include <string>

#include "verify/output/json.h"
#include "verify/run/layouts_run.h"

namespace verify {

std::string layouts_text(const LayoutsRequest& request, const LayoutsRun& run);
/// verdict ("verified", "falsified", "broken" or "nothing compared"); program; reference, its words; steps;
/// left_out; unmatched, patterns of --watch; layouts, each with name, ranks, verdict ("holds", "falsified",
/// "broken" or "incomparable"), values, worst_slack, incomparable, wrong (step, name, value, ranks, elements,
/// what), watched (watched_report.h) and findings; findings of the reference; reproduce.
Json layouts_json(const LayoutsRequest& request, const LayoutsRun& run);

}  // namespace verify
