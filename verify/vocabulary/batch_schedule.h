#pragma once

/// The sizes that a global batch takes one after another, as --step-batch-size-schedule says: "0:16 1B:32",
/// with blanks or commas between the entries.
///
/// Shapes  A threshold is in tokens, and becomes samples by the sequence length. K, M, B and T stand for
///         10^3, 10^6, 10^9 and 10^12.
/// Exact   Steps are sorted by their thresholds, as Megatron sorts them. The first one counts at the start.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

struct BatchStep {
  std::int64_t samples = 0;  // from which this size counts
  std::int64_t size = 0;
};

struct BatchSchedule {
  std::vector<BatchStep> steps;
  std::string unreadable;  // the first entry that is no threshold and size; "" where all are
};

/// Thresholds stay in tokens where the sequence length is not known.
BatchSchedule parse_batch_schedule(std::string text, std::optional<std::int64_t> seq_length);

/// Returns the text as a decimal number, as in "0.1"; nothing where it is none.
std::optional<double> decimal_number(std::string_view text);

}  // namespace verify
