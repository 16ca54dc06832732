#pragma once

/// Where cases run, one after the other: worlds of virtual ranks that share what is costly to make for each
/// of them: stacks, layouts, and the tables of the field's functions.
///
/// Calls   by one thread. Cases outlive it.
/// Exact   what ran before changes nothing.

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/cases/case.h"

namespace verify {

class Bench {
 public:
  explicit Bench(std::shared_ptr<sim::CpuDevice> device = std::make_shared<sim::CpuDevice>())
      : device_(std::move(device)) {}

  /// Of the case's sizes, the ranks of one replica next to each other. Good until the next call.
  const sim::WorldSpec& world_of(const Case& the_case, const CaseSetting& setting);
  /// Of the run before, where that was the same: several properties judge one run.
  std::shared_ptr<const sim::RunReport> run(const Case& the_case, const CaseSetting& setting);
  sim::RunReport run(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec);
  /// The functions that the field has on the ranks of this setting's worlds.
  const sim::FieldTower& tower(const Case& the_case, const CaseSetting& setting) {
    device_->set_field_seed(setting.seed, the_case.field_functions());
    return device_->tower();
  }

 private:
  std::shared_ptr<sim::CpuDevice> device_;
  std::map<std::pair<std::array<std::int64_t, 6>, std::string>, sim::WorldSpec>
      worlds_;  // by the sizes that cases differ in
  std::shared_ptr<sim::StackPool> stacks_;
  const Case* last_case_ = nullptr;
  CaseSetting last_setting_;
  std::shared_ptr<const sim::RunReport> last_report_;  // of these two
};

}  // namespace verify
