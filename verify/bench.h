#pragma once

/// Where cases run, one after the other: worlds of virtual ranks that share what is costly to make for each of them: stacks,
/// layouts, and the tables of the field's functions.
///
/// Calls   by one thread.
/// Exact   what ran before changes nothing.

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "sim/tensor/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/case.h"

namespace verify {

class Bench {
 public:
  /// The device of the worlds with this seed.
  using MakeDevice = std::function<std::shared_ptr<sim::CpuDevice>(std::uint64_t seed)>;
  explicit Bench(MakeDevice make_device =
                     [](std::uint64_t seed) { return std::make_shared<sim::CpuDevice>(seed); })
      : make_device_(std::move(make_device)) {}

  /// tp * replicas ranks, the ranks of one replica next to each other.
  sim::WorldSpec world_of(const CaseSetting& setting);
  /// Of the run before, where that was the same: several properties judge one run.
  std::shared_ptr<const sim::RunReport> run(const Case& the_case, const CaseSetting& setting);
  sim::RunReport run(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec);
  /// The functions that the field has on the ranks of this seed's worlds.
  const sim::FieldTower& tower(std::uint64_t seed) { return device(seed).tower(); }

 private:
  sim::CpuDevice& device(std::uint64_t seed);

  MakeDevice make_device_;
  std::map<std::pair<int, int>, sim::Layout> layouts_;  // by tp and replicas
  std::shared_ptr<sim::StackPool> stacks_;
  std::uint64_t seed_ = 0;
  std::shared_ptr<sim::CpuDevice> device_;  // of seed_
  const Case* last_case_ = nullptr;
  CaseSetting last_setting_;
  std::shared_ptr<const sim::RunReport> last_report_;  // of these two
};

}  // namespace verify
