#pragma once

/// An inspection as text, the answer first, and as JSON.
///
/// Shapes  The JSON has the members "verdict", "suspects" ({"rank", "reason", "kind"}), "layout" (null where it
///         is not known), "groups", "findings" ({"finding", "text", "ranks"}) and "cannot_tell".
/// Exact   Long lists are cut in the text unless all are asked for, and the text says so. The JSON is not cut.

#include <string>

#include "verify/inspect/inspection.h"
#include "verify/output/json.h"

namespace verify {

std::string inspection_text(const Inspection& inspection, int columns);
Json inspection_json(const Inspection& inspection);

}  // namespace verify
