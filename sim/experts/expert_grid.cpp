#include "sim/experts/expert_grid.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

namespace {

/// Whether the members of the ep group and of the etp group lie in tp-ep as the dispatchers read them.
bool is_etp_fastest(const ExpertGrid& grid) {
  if (grid.tp_ep.size() != grid.ep.size() * grid.etp.size()) return false;
  for (int j = 0; j < grid.ep.size(); ++j) {
    const int place = j * grid.etp.size() + grid.etp.rank();
    if (grid.tp_ep.group().rank_at(place) != grid.ep.group().rank_at(j)) return false;
  }
  for (int i = 0; i < grid.etp.size(); ++i) {
    const int place = grid.ep.rank() * grid.etp.size() + i;
    if (grid.tp_ep.group().rank_at(place) != grid.etp.group().rank_at(i)) return false;
  }
  return true;
}

}  // namespace

ExpertGrid expert_grid(Rank& rank, std::int64_t experts) {
  const ExpertGrid grid{rank.groups.get("ep"), rank.groups.get("etp"), rank.groups.get("tp-ep"), experts};
  if (experts < 1 || experts % grid.ep.size() != 0) {
    refuse({.code = "experts_ep",
            .option = "--num-experts",
            .numbers = fmt::format("{} experts over {} expert-parallel ranks", experts, grid.ep.size()),
            .rule = "there is at least one expert, and their number is a multiple of "
                    "expert-model-parallel-size",
            .hint = fmt::format("--num-experts {}",
                                (std::max<std::int64_t>(experts, 0) / grid.ep.size() + 1) * grid.ep.size())});
  }
  if (!is_etp_fastest(grid)) {
    refuse({.code = "expert_group_order",
            .option = "--order",
            .numbers = fmt::format("rank {} of a group tp-ep of {} ranks", rank.id, grid.tp_ep.size()),
            .rule = "in the tp-ep group the ranks of one expert-tensor-parallel group are adjacent",
            .hint = "an order in which tp stands before ep, such as tp-cp-ep-dp-pp"});
  }
  return grid;
}

}  // namespace sim
