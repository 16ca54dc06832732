#include "verify/requests/world_options.h"

#include "verify/requests/requests.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

sim::SchedulePolicy schedule_policy(const std::string& word) {
  if (word == "uniform") return sim::SchedulePolicy::uniform;
  return word == "pct" ? sim::SchedulePolicy::pct : sim::SchedulePolicy::round_robin;
}

sim::ReductionOrderKind reduction_order(const std::string& word) {
  if (word == "nccl_ring") return sim::ReductionOrderKind::nccl_ring;
  return word == "shuffled" ? sim::ReductionOrderKind::shuffled : sim::ReductionOrderKind::rank_order;
}

}  // namespace

sim::WorldSpec requested_world(const Settings& settings, const sim::Layout& layout) {
  const auto seed = static_cast<std::uint64_t>(settings.number("schedule-seed").value_or(0));
  sim::WorldSpec spec{.layout = layout, .nodes = node_placement(settings)};
  spec.schedule = {
      .policy = schedule_policy(settings.choice_among("schedule", option_named("schedule").choices)),
      .seed = seed,
      .depth = static_cast<int>(settings.number("pct-depth").value_or(3))};
  spec.threads = static_cast<int>(settings.number("threads").value_or(1));
  spec.contexts =
      settings.choice("ranks-as") == "threads" ? sim::ContextKind::thread : sim::ContextKind::fiber;
  spec.reduction_order = {.kind = reduction_order(settings.choice("reduction-order")), .seed = seed};
  spec.eager_bytes = settings.number("eager-bytes").value_or(0);
  spec.stack_bytes = static_cast<std::size_t>(
      settings.number("stack-bytes").value_or(static_cast<std::int64_t>(sim::kDefaultStackBytes)));
  sim::check(spec);
  return spec;
}

}  // namespace verify
