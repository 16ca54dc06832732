// Proves the law of the device of shapes: every case, run without elements, makes exactly the calls that it
// makes on the CPU device, and publishes tensors of the same shapes. What a float holds is never read.

#include <array>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/shapes/shapes_device.h"
#include "sim/world/simulate.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;

#ifdef SHARDPROOF_SANITIZED
constexpr std::uint64_t kDrawnSettings = 2;
#else
constexpr std::uint64_t kDrawnSettings = 24;
#endif

/// Draws a setting in which no call depends on a float: experts are chosen in turn, and no step is skipped.
CaseSetting balanced_setting(const Case& the_case, std::uint64_t seed) {
  const sim::KeyedRandom random = sim::KeyedRandom(seed).named(the_case.name());
  std::uint64_t drawn = 0;
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + random.below(drawn++, static_cast<std::uint32_t>(most - least + 1));
  };
  constexpr std::array kDTypes = {sim::DType::field, sim::DType::f32, sim::DType::bf16};
  CaseSetting setting{.group_size = static_cast<int>(draw(1, 8)),
                      .replicas = static_cast<int>(draw(1, 2)),
                      .ranks = the_case.ranks(),
                      .dtype = kDTypes[static_cast<std::size_t>(draw(0, 2))],
                      .seed = seed};
  if (setting.ranks != Ranks::tensor_parallel) setting.replicas = 1;
  for (const Dimension& dimension : the_case.dimensions())
    setting.dimensions[dimension.name] = draw(dimension.least, dimension.most);
  setting.dimensions["balanced"] = 1;
  if (setting.dtype != sim::DType::field && setting.dimensions.contains("steps"))
    setting.dimensions["scaled"] = 0;
  return setting;
}

sim::RunReport run_on(const Case& the_case, const CaseSetting& setting, sim::Device& device) {
  Bench bench;
  return sim::simulate(bench.world_of(the_case, setting), device,
                       [&](sim::Rank& rank) { the_case.run(rank, setting); });
}

std::string contents_of(const sim::CallRecord& call) {
  return fmt::format("{} {} {} x {} {} at {} call {} root or peer {} bytes {} {} waited {}",
                     sim::short_text_of(*call.group), sim::name_of(call.operation), call.count,
                     sim::name_of(call.dtype), sim::name_of(call.reduce_op), call.site.name, call.sequence,
                     call.root_or_peer, call.bytes_inside, call.bytes_across, call.waited);
}

/// Returns the first difference between what two runs called and published; "" if there is none.
std::string difference_of(const sim::RunReport& computed, const sim::RunReport& shapes) {
  for (std::size_t r = 0; r < computed.ranks.size(); ++r) {
    const sim::RankReport& a = computed.ranks[r];
    const sim::RankReport& b = shapes.ranks[r];
    for (std::size_t i = 0; i < std::max(a.calls.size(), b.calls.size()); ++i) {
      const std::string of_a = i < a.calls.size() ? contents_of(a.calls[i]) : "no call";
      const std::string of_b = i < b.calls.size() ? contents_of(b.calls[i]) : "no call";
      if (of_a != of_b) return fmt::format("rank {}, call {}: {}; without elements: {}", r, i, of_a, of_b);
    }
    if (a.published.size() != b.published.size()) return fmt::format("rank {} publishes other tensors", r);
    for (std::size_t i = 0; i < a.published.size(); ++i) {
      const sim::Published &x = a.published[i], &y = b.published[i];
      if (x.name != y.name || x.dtype != y.dtype || x.shape != y.shape)
        return fmt::format("rank {} publishes '{}' as {} and '{}' as {}", r, x.name, sim::text_of(x.shape),
                           y.name, sim::text_of(y.shape));
    }
  }
  return computed.ledger == shapes.ledger ? "" : "the ledgers differ";
}

class CasesOfShapes : public testing::TestWithParam<std::string> {};

TEST_P(CasesOfShapes, CallWhatTheyCallWithElements) {
  const Case& the_case = *find_case(GetParam());
  for (std::uint64_t seed = 0; seed < kDrawnSettings; ++seed) {
    const CaseSetting setting = balanced_setting(the_case, seed);
    sim::CpuDevice cpu(setting.seed);
    sim::ShapesDevice device;
    const sim::RunReport computed = run_on(the_case, setting, cpu);
    const sim::RunReport shapes = run_on(the_case, setting, device);
    ASSERT_TRUE(computed.ok()) << computed.failure() << text_of(setting);
    ASSERT_TRUE(shapes.ok()) << shapes.failure() << text_of(setting);
    ASSERT_EQ(difference_of(computed, shapes), "") << text_of(setting);
  }
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const auto& one : all_cases()) names.push_back(one->name());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, CasesOfShapes, testing::ValuesIn(names_of_cases()),
                         [](const auto& the_case) { return the_case.param; });

}  // namespace
