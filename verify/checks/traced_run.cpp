#include "verify/checks/traced_run.h"

#include <utility>

namespace verify {

TracedRun traced_run(std::string what, const sim::WorldSpec& spec, sim::RunReport run) {
  for (sim::RankReport& rank : run.ranks) rank.published.clear();
  TracedRun traced{.what = std::move(what),
                   .layout = spec.layout,
                   .run = std::move(run),
                   .cost = {.eager_bytes = spec.eager_bytes},
                   .timeline = {}};
  traced.timeline = sim::run_timeline(traced.run, traced.cost);
  return traced;
}

}  // namespace verify
