#pragma once

/// What one rank did, when its program is over: on virtual ranks and on real ones the same.

#include <cstdint>
#include <vector>

#include "sim/comm/recorder.h"

namespace sim {

struct RankReport {
  int rank = 0;
  std::vector<Published> published;
  std::vector<CallRecord> calls;
  std::vector<std::uint32_t> by_name =
      {};                            // places in `published`, ascending by name, then by place: for find()
  std::vector<Moment> moments = {};  // none where the device counts no work
  std::int64_t work = 0;             // of the whole program
};

}  // namespace sim
