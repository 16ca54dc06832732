#pragma once

/// Compares the published tensors and the call records of one rank between the simulator and another backend.
///
/// Exact   tensors are compared bit for bit. Of a call everything in its record is compared: group, members,
///         site, sequence, count, bytes, root or peer, operation, dtype, reduction, and whether the call was
///         waited for. The first difference names the tensor and the element, or the call.

#include <cstdint>
#include <string>

#include "sim/comm/rank_report.h"

namespace verify {

struct RankComparison {
  std::int64_t tensors = 0;     // number of compared tensors
  std::int64_t bytes = 0;       // size of these tensors
  std::int64_t calls = 0;       // number of compared calls
  std::string difference = {};  // the first difference; empty if there is none
  bool is_equal() const { return difference.empty(); }
};

enum class Compared { bits, shapes };

/// `name` is the name of the other backend, such as "mpi". With Compared::shapes the values of tensors may
/// differ.
RankComparison compare_ranks(const sim::RankReport& simulated, const sim::RankReport& other,
                             const std::string& name, Compared compared = Compared::bits);

}  // namespace verify
