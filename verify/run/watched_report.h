#pragma once

/// What is said of what modules take and give: how the first value differs, rows of all values if they are
/// few, or else of the first ones that differ, with the reasons why others are not compared; and the
/// patterns that no module has.

#include <string>
#include <vector>

#include "verify/output/json.h"
#include "verify/run/watched_values.h"

namespace verify {

/// Returns the lines of a layout; "" if nothing was watched.
std::string watch_text(const std::string& layout, const ComparedWatch& watch);
/// Returns the lines that name patterns of no module; "" if there are none.
std::string unmatched_text(const WatchedValues& reference);
/// factor, of gradients; values (step, module, value, state, microbatches, what).
Json watch_json(const ComparedWatch& watch);
/// Returns a list of pattern and nearest.
Json unmatched_json(const WatchedValues& reference);

}  // namespace verify
