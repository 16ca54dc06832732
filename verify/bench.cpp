#include "verify/bench.h"

namespace verify {

namespace {

/// Stacks that are mapped at once: the ranks of a usual case.
constexpr std::size_t kStacks = 16;

}  // namespace

sim::WorldSpec Bench::world_of(const CaseSetting& setting) {
  const std::pair sizes(setting.tp, setting.replicas);
  auto known = layouts_.find(sizes);
  if (known == layouts_.end()) {
    const sim::Layout layout = sim::make_layout(
        {.world_size = setting.tp * setting.replicas, .tensor_model_parallel_size = setting.tp},
        sim::RuleBook::megatron);
    known = layouts_.emplace(sizes, layout).first;
  }
  sim::WorldSpec spec{.layout = known->second};
  if (stacks_ == nullptr) stacks_ = std::make_shared<sim::StackPool>(spec.stack_bytes, true, kStacks);
  spec.stacks = stacks_;
  spec.seed = setting.seed;
  return spec;
}

std::shared_ptr<const sim::RunReport> Bench::run(const Case& the_case, const CaseSetting& setting) {
  if (last_case_ == &the_case && last_setting_ == setting) return last_report_;
  last_report_ = std::make_shared<const sim::RunReport>(run(the_case, setting, world_of(setting)));
  last_case_ = &the_case;
  last_setting_ = setting;
  return last_report_;
}

sim::RunReport Bench::run(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec) {
  return sim::simulate(spec, device(setting.seed), [&](sim::Rank& rank) { the_case.run(rank, setting); });
}

sim::CpuDevice& Bench::device(std::uint64_t seed) {
  if (device_ == nullptr || seed_ != seed) {
    device_ = make_device_(seed);
    seed_ = seed;
  }
  return *device_;
}

}  // namespace verify
