#pragma once

/// Runs cases one after another in worlds of virtual ranks. The worlds share what is costly to make for each
/// of them: stacks, layouts, the tables of the field's functions, and the watch for ranks that end the
/// process.
///
/// Calls   one thread uses a bench. The cases must outlive it.
/// Errors  those of case_rules.h.
/// Exact   earlier runs do not change the result of a run.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/process_end.h"
#include "sim/world/simulate.h"
#include "verify/cases/case.h"
#include "verify/faults/decorated_groups.h"
#include "verify/faults/fault.h"

namespace verify {

// What is known of a case at a setting before it runs: its reference in the field and in floats, and the
// calls of its ranks. An exam judges many runs of one setting by them, each with another fault.
//
// Calls   one thread uses a store. Nothing is kept before keep(), and then settings of the latest case.
// Exact   what is returned is the same whether it was kept or not.

class KnownReferences {
 public:
  /// Keeps what is known of at most so many settings from now on.
  void keep(std::size_t settings) { most_ = settings; }

  std::shared_ptr<const Wholes<sim::Field>> in_field(const Case& the_case, const CaseSetting& setting,
                                                     const sim::FieldTower& tower);
  std::shared_ptr<const Wholes<reference::Bounded>> in_floats(const Case& the_case,
                                                              const CaseSetting& setting);
  /// Returns the same as expected_runs(), for use before the next call of this store.
  ExpectedOfRank calls(const Case& the_case, const CaseSetting& setting);

 private:
  struct Known {
    CaseSetting setting;
    std::shared_ptr<const Wholes<sim::Field>> in_field = nullptr;
    std::shared_ptr<const Wholes<reference::Bounded>> in_floats = nullptr;
    ExpectedOfRank calls = nullptr;
  };
  Known& known(const Case& the_case, const CaseSetting& setting);

  std::size_t most_ = 0;
  const Case* case_ = nullptr;
  std::vector<Known> all_;
};

/// Where a watch stands: between the program and the faults, where it sees what the program gives and gets,
/// or between the faults and the groups, where it sees what reaches the groups and comes from them.
enum class WatchedSide { program, group };

class Bench {
 public:
  Bench() : device_(std::make_shared<sim::CpuDevice>()) {}
  /// Runs cases on a device of the caller, in whose kernels no faults can be planted.
  explicit Bench(std::shared_ptr<sim::CpuDevice> device) : device_(std::move(device)), is_of_caller_(true) {}

  /// Plants faults in the calls and kernels of all runs from now on, in place of those planted before.
  void plant(std::vector<Fault> faults);
  const std::vector<Fault>& faults() const { return faults_; }
  bool takes_faults_of_kernels() const { return !is_of_caller_; }
  /// References and expected calls, which no fault changes.
  KnownReferences& known() { return known_; }
  /// Returns the world of the case's sizes, in which the ranks of a replica are next to each other. A
  /// declaration of the case that breaks a rule at this setting is refused. The reference is valid until the
  /// next call.
  const sim::WorldSpec& world_of(const Case& the_case, const CaseSetting& setting);
  /// Returns the outputs that the case declares at this setting. They are kept for the latest setting.
  std::shared_ptr<const std::vector<CaseOutput>> outputs_of(const Case& the_case, const CaseSetting& setting);
  /// Runs the case. If the run before had the same case and setting, its report is returned again, so that
  /// several properties can judge one run.
  std::shared_ptr<const sim::RunReport> run(const Case& the_case, const CaseSetting& setting);
  sim::RunReport run(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec);
  /// Runs the case, and lets the watch see its calls on one side of the faults that are planted in them.
  void run_watched(const Case& the_case, const CaseSetting& setting, WatchedSide side,
                   const CallWatch& watch);
  /// Returns the field's functions as the ranks of this setting's worlds have them.
  const sim::FieldTower& tower(const Case& the_case, const CaseSetting& setting) {
    device_->set_field_seed(setting.seed, the_case.field_functions());
    return device_->tower();
  }

 private:
  std::unique_ptr<sim::ProcessEndWatch> watch_ = std::make_unique<sim::ProcessEndWatch>();
  std::shared_ptr<sim::CpuDevice> device_;
  bool is_of_caller_ = false;  // the device
  std::vector<Fault> faults_;
  KnownReferences known_;
  // The keys are the sizes in which cases differ, and the order of the axes.
  std::map<sim::ParallelSizes, sim::WorldSpec> worlds_;
  std::shared_ptr<sim::StackPool> stacks_;
  const Case* declared_case_ = nullptr;
  CaseSetting declared_setting_;
  std::shared_ptr<const std::vector<CaseOutput>> outputs_;  // of declared_case_ at declared_setting_
  const Case* last_case_ = nullptr;
  CaseSetting last_setting_;
  std::shared_ptr<const sim::RunReport> last_report_;  // of last_case_ with last_setting_
};

// Divides pieces of work over benches, with a thread for each bench.
//
// Exact   which bench does a piece depends on the machine: a result must not.

/// Returns how many benches there should be: as many as are asked for, or as there are cores.
inline std::size_t benches_for(std::optional<std::int64_t> asked) {
  constexpr std::int64_t kMost = 256;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<std::size_t>(std::min(asked.value_or(cores), kMost));
}

/// Does a piece of work for each number below `count`. What a piece throws is thrown here.
inline void over_benches(std::size_t count, std::span<Bench> benches,
                         const std::function<void(Bench& bench, std::size_t piece)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&](Bench& bench) {
    for (std::size_t piece = next++; piece < count; piece = next++) work(bench, piece);
  };
  std::vector<std::future<void>> others;
  for (Bench& bench : benches.subspan(1))
    others.push_back(std::async(std::launch::async, [&] { take(bench); }));
  take(benches.front());
  for (std::future<void>& other : others) other.get();
}

}  // namespace verify
