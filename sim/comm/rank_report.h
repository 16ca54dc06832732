#pragma once

/// What one rank did, available when its program is over. Virtual ranks and real ones give the same report.

#include <cstdint>
#include <vector>

#include "sim/comm/recorder.h"

namespace sim {

struct RankReport {
  int rank = 0;
  std::vector<Published> published;
  FoldedCalls folded = {};  // the calls before those of `calls`, where the world keeps the latest ones alone
  CallLog calls;
  /// Indices into `published`, sorted by name and then by index, for the search by name.
  std::vector<std::uint32_t> by_name = {};
  std::vector<Moment> moments = {};  // empty if the device counts no work
  std::int64_t work = 0;             // work of the whole program
};

}  // namespace sim
