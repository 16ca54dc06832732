#pragma once

/// What every backend of processes is told of a world, and what it reports of the rank that this process is.
///
/// Errors  backend_world: the layout has not as many ranks as there are processes.

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/comm/process_group.h"
#include "sim/comm/rank_report.h"
#include "sim/comm/reduction_order.h"
#include "sim/launch/launch.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace sim {

/// The world of one program; the fields are those of WorldSpec.
struct ClusterWorld {
  Layout layout;
  NodePlacement nodes = {};
  ReductionOrder reduction_order = {};
  std::int64_t eager_bytes = 0;
  std::uint64_t seed = 0;
  std::int64_t call_limit = 1'000'000;
};

struct ProcessReport {
  RankReport rank;
  std::vector<std::shared_ptr<const ProcessGroup>> kept;  // what the call records point to
};

/// Refuses a layout that has not a rank for each process.
void check_processes(const Layout& layout, const Launch& launch);

}  // namespace sim
