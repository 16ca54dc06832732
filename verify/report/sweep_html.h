#pragma once

/// The page of a sweep: its layouts as a table that sorts, and a picture of what a rank holds against the
/// estimated time of a step, or without a machine against the bytes that it sends across nodes.
///
/// Shapes  the picture has a dot for each of the first kMostDots layouts whose numbers are known; those that
///         fit have another colour, and the scenario's own layout is a larger
///         dot. The table has kMostSweptRows rows.
/// Exact   the same report gives the same bytes. A time is called an estimate wherever it stands.

#include <string>

#include "verify/sweep/sweep.h"

namespace verify {

inline constexpr std::size_t kMostDots = 2000;
inline constexpr std::size_t kMostSweptRows = 500;

/// Returns how many layouts were tried, accepted and fit, as a sentence.
std::string sweep_title(const SweepReport& report);
/// Returns the order of the layouts, and what their numbers are, in words.
std::string sweep_order(const SweepReport& report);

std::string sweep_html(const SweepReport& report);

}  // namespace verify
