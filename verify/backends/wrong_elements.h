#pragma once

/// The short text in which a rank tells rank 0 how many elements of each of its measured rows
/// (bandwidth_round.h) are wrong.
///
/// Shapes  a JSON array [row, wrong, row, wrong, ...] with ascending rows. Rows without a wrong element are
///         left out, so that "[]" means that everything is right.
/// Exact   the text has at most `most_bytes`. If that is too short, the number of the last row that fits
///         includes the wrong elements of all rows after it, so that the sum is still right.

#include <cstddef>
#include <string>

#include "verify/backends/bandwidth_round.h"

namespace verify {

inline constexpr std::size_t kMostWrongText = 1000;

/// `most_bytes` must have room for at least one pair.
std::string wrong_elements_text(const BandwidthRows& rows, std::size_t most_bytes = kMostWrongText);

/// Adds the numbers of a text to the rows. Returns false and adds nothing if the text does not have this
/// form, or does not fit these rows.
[[nodiscard]] bool add_wrong_elements(BandwidthRows& rows, const std::string& text);

}  // namespace verify
