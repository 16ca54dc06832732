#pragma once

/// The input and the result of every backend that runs one rank in each process: the description of the
/// world, and the report of the rank that this process runs.
///
/// Errors  backend_world: the number of ranks of the layout differs from the number of processes, or the
///         first rank of the layout is not 0.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/comm/process_group.h"
#include "sim/comm/rank_report.h"
#include "sim/comm/reduction_order.h"
#include "sim/launch/launch.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace sim {

/// The world of one program. The fields have the same meaning as those of WorldSpec (world_spec.h).
struct ClusterWorld {
  Layout layout;
  NodePlacement nodes = {};
  ReductionOrder reduction_order = {};
  std::int64_t eager_bytes = 0;
  std::uint64_t seed = 0;
  std::int64_t call_limit = 1'000'000;
  /// Is called with the calls of the rank of this process if its program ends with an error, before all
  /// processes end. The groups that the records point to live until it returns.
  std::function<void(const RankReport&)> on_broken_run = {};
};

struct ProcessReport {
  RankReport rank;
  std::vector<std::shared_ptr<const ProcessGroup>> kept;  // the groups that the call records point to
};

/// Refuses a layout that does not have exactly one rank for each process.
void require_processes(const Layout& layout, const Launch& launch);

}  // namespace sim
