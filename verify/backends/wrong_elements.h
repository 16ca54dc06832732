#pragma once

/// What a rank tells rank 0 of its measured rows (bandwidth_round.h): how many elements of each are wrong, as
/// a short text.
///
/// Shapes  a JSON array [row, wrong, row, wrong, ...], rows ascending, those without a wrong element left
///         out: "[]" where all is right.
/// Exact   up to `most_bytes`. Where that is too short, the last row that has room stands for itself and all
///         rows after it, so that the sum is right even so.

#include <cstddef>
#include <string>

#include "verify/backends/bandwidth_round.h"

namespace verify {

inline constexpr std::size_t kMostWrongText = 1000;

/// `most_bytes`: room for one pair at least.
std::string wrong_elements_text(const BandwidthRows& rows, std::size_t most_bytes = kMostWrongText);

/// False, and nothing added, where the text is no such one, or of other rows.
[[nodiscard]] bool add_wrong_elements(BandwidthRows& rows, const std::string& text);

}  // namespace verify
