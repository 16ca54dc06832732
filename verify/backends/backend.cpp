#include "verify/backends/backend.h"

#include <exception>
#include <fmt/format.h>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/output/output.h"

namespace verify {

sim::ClusterWorld cluster_world(const sim::WorldSpec& world, const Backend& backend) {
  return {.layout = world.layout,
          .nodes = world.nodes,
          .reduction_order = world.reduction_order,
          .eager_bytes = world.eager_bytes,
          .seed = world.seed,
          .call_limit = world.call_limit,
          .on_broken_run = backend.on_broken_run};
}

void run_or_end_all(Backend& backend, const std::function<void()>& work) {
  try {
    work();
  } catch (const sim::Error& error) {
    if (!backend.ranks_are_processes()) throw;
    backend.end_all(sim::text_of(error.refusal()), kRefused);
  } catch (const std::exception& error) {
    if (!backend.ranks_are_processes()) throw;
    backend.end_all(fmt::format("stopped by the system: {}\n", sim::printable_text(error.what())), kRefused);
  }
}

void let_rank_0_speak() {
  constexpr std::chrono::seconds kForRank0{2};
  std::this_thread::sleep_for(kForRank0);
}

}  // namespace verify
