#include "gpu/nccl/nccl_splits.h"

#include <cstddef>

#include "sim/base/check.h"

namespace gpu {

std::vector<NcclSplit> nccl_splits(const sim::Layout& layout) {
  SIM_CHECK(layout.first_rank == 0);
  const auto ranks = static_cast<std::size_t>(layout.grid_size);
  std::vector<NcclSplit> splits;
  for (const sim::GroupKind& kind : layout.kinds) {
    if (kind.size() == 1) continue;
    NcclSplit split{kind.name(), std::vector<int>(ranks, kNoColor), std::vector<int>(ranks, 0)};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto place = kind.place_of(static_cast<int>(rank));
      if (!place) continue;
      split.colors[rank] = place->group;
      split.keys[rank] = place->position;
    }
    splits.push_back(std::move(split));
  }
  return splits;
}

}  // namespace gpu
