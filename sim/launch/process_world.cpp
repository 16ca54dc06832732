#include "sim/launch/process_world.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

void require_processes(const Layout& layout, const Launch& launch) {
  if (layout.grid_size == launch.world_size && layout.first_rank == 0) return;
  refuse({.code = "backend_world",
          .option = "--world-size",
          .numbers = fmt::format("the layout has {} ranks from rank {} on, and there are {} {} ({})",
                                 layout.grid_size, layout.first_rank, launch.world_size,
                                 launch.world_size == 1 ? "process" : "processes", launch.launcher),
          .rule = "there is one process for each rank of the layout",
          .hint = layout.first_rank == 0 ? fmt::format("mpirun -n {}", layout.grid_size)
                                         : "a layout without --rank-offset"});
}

}  // namespace sim
