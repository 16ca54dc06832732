#pragma once

/// One rank's run on two backends: are its published tensors and its call records the same?
///
/// Exact   tensors bit for bit; of a call everything that its record has: group, members, site, sequence,
///         count, bytes, root or peer, operation, dtype, reduction. The first difference names the tensor and
///         the element, or the call.

#include <cstdint>
#include <string>

#include "sim/comm/rank_report.h"

namespace verify {

struct RankComparison {
  std::int64_t tensors = 0;  // compared
  std::int64_t bytes = 0;    // of them
  std::int64_t calls = 0;
  std::string difference = {};  // the first; empty: none
  bool is_equal() const { return difference.empty(); }
};

enum class Compared { bits, shapes };

/// `name` is that of the other backend: "mpi". With `shapes` the values of tensors may differ.
RankComparison compare_ranks(const sim::RankReport& simulated, const sim::RankReport& other,
                             const std::string& name, Compared compared = Compared::bits);

}  // namespace verify
