#pragma once

/// What goes wrong in a played NCCL.

#include <functional>
#include <vector>

#include "gpu/nccl/nccl_library.h"

namespace test {

struct PlayedFaults {
  std::function<void(int rank, std::vector<gpu::NcclRequest>&)> requests =
      {};                      // may change the requests that a rank puts in
  bool folds_by_rank = false;  // the ring starts at place 0 for every element
  int never_comes = -1;        // a rank whose requests are never seen
};

}  // namespace test
