#include "verify/properties/bench.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "sim/base/check.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_rules.h"
#include "verify/faults/faulty_calls.h"
#include "verify/faults/faulty_device.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

/// The number of stacks that stay mapped. Most cases have at most this many ranks.
constexpr std::size_t kStacks = 16;

std::string text_of_work(const char* part, const Case& the_case, const CaseSetting& setting) {
  return fmt::format("{}{} at {}", part, the_case.name(), text_of(setting));
}

}  // namespace

KnownReferences::Known& KnownReferences::known(const Case& the_case, const CaseSetting& setting) {
  if (case_ != &the_case) all_.clear();
  case_ = &the_case;
  const auto found = std::ranges::find(all_, setting, &Known::setting);
  if (found != all_.end()) return *found;
  if (all_.size() >= most_) all_.clear();
  return all_.emplace_back(Known{.setting = setting});
}

std::shared_ptr<const Wholes<sim::Field>> KnownReferences::in_field(const Case& the_case,
                                                                    const CaseSetting& setting,
                                                                    const sim::FieldTower& tower) {
  const auto computed = [&] {
    const std::string name = text_of_work("the reference of ", the_case, setting);
    const sim::NamedWork work(name.c_str());
    const reference::Number<sim::Field> number(tower);
    return std::make_shared<const Wholes<sim::Field>>(
        the_case.serial(Inputs<sim::Field>(setting, number), setting));
  };
  if (most_ == 0) return computed();
  Known& one = known(the_case, setting);
  if (one.in_field == nullptr) one.in_field = computed();
  return one.in_field;
}

std::shared_ptr<const Wholes<reference::Bounded>> KnownReferences::in_floats(const Case& the_case,
                                                                             const CaseSetting& setting) {
  const auto computed = [&] {
    const std::string name = text_of_work("the reference of ", the_case, setting);
    const sim::NamedWork work(name.c_str());
    return std::make_shared<const Wholes<reference::Bounded>>(bounded_reference(the_case, setting));
  };
  if (most_ == 0) return computed();
  Known& one = known(the_case, setting);
  if (one.in_floats == nullptr) one.in_floats = computed();
  return one.in_floats;
}

ExpectedOfRank KnownReferences::calls(const Case& the_case, const CaseSetting& setting) {
  if (most_ == 0) return expected_runs(the_case, setting);
  Known& one = known(the_case, setting);
  if (one.calls == nullptr) {
    one.calls = [expected = expected_runs(the_case, setting),
                 kept = std::make_shared<std::map<int, ExpectedRun>>()](int rank) {
      const auto found = kept->find(rank);
      return found == kept->end() ? kept->emplace(rank, expected(rank)).first->second : found->second;
    };
  }
  return one.calls;
}

void Bench::plant(std::vector<Fault> faults) {
  const auto has_kernels = [](const std::vector<Fault>& all) {
    return std::ranges::any_of(all, [](const Fault& one) { return one.is_of_kernels(); });
  };
  if (has_kernels(faults)) {
    SIM_CHECK(takes_faults_of_kernels());
    device_ = std::make_shared<FaultyDevice>(faults);
  } else if (has_kernels(faults_)) {
    device_ = std::make_shared<sim::CpuDevice>();
  }
  faults_ = std::move(faults);
  last_case_ = nullptr;
  last_report_ = nullptr;
}

const sim::WorldSpec& Bench::world_of(const Case& the_case, const CaseSetting& setting) {
  static_cast<void>(outputs_of(the_case, setting));
  const sim::ParallelSizes sizes = the_case.sizes(setting);
  auto known = worlds_.find(sizes);
  if (known == worlds_.end()) {
    sim::WorldSpec spec{.layout = sim::make_layout(sizes, sim::RuleBook::megatron)};
    if (stacks_ == nullptr) stacks_ = std::make_shared<sim::StackPool>(spec.stack_bytes, true, kStacks);
    spec.stacks = stacks_;
    known = worlds_.emplace(sizes, std::move(spec)).first;
  }
  known->second.seed = setting.seed;
  return known->second;
}

std::shared_ptr<const std::vector<CaseOutput>> Bench::outputs_of(const Case& the_case,
                                                                 const CaseSetting& setting) {
  if (declared_case_ == &the_case && declared_setting_ == setting) return outputs_;
  declared_case_ = nullptr;
  outputs_ = std::make_shared<const std::vector<CaseOutput>>(require_declaration(the_case, setting));
  declared_setting_ = setting;
  declared_case_ = &the_case;
  return outputs_;
}

std::shared_ptr<const sim::RunReport> Bench::run(const Case& the_case, const CaseSetting& setting) {
  if (last_case_ == &the_case && last_setting_ == setting) return last_report_;
  last_report_ = std::make_shared<const sim::RunReport>(run(the_case, setting, world_of(the_case, setting)));
  last_case_ = &the_case;
  last_setting_ = setting;
  return last_report_;
}

sim::RunReport Bench::run(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec) {
  device_->set_field_seed(setting.seed, the_case.field_functions());
  const sim::RankProgram program = [&](sim::Rank& rank) { the_case.run(rank, setting); };
  const std::vector<Fault> faults = with_calls_before(faults_, spec, *device_, program);
  const std::string name = text_of_work("", the_case, setting);
  const sim::NamedWork work(name.c_str());
  sim::RunReport report = sim::simulate(spec, *device_, with_faults(program, faults));
  plant_in_tensors(report, faults_, *device_);
  return report;
}

void Bench::run_watched(const Case& the_case, const CaseSetting& setting, WatchedSide side,
                        const CallWatch& watch) {
  const sim::WorldSpec& spec = world_of(the_case, setting);
  device_->set_field_seed(setting.seed, the_case.field_functions());
  const sim::RankProgram program = [&](sim::Rank& rank) { the_case.run(rank, setting); };
  const std::vector<Fault> faults = with_calls_before(faults_, spec, *device_, program);
  static_cast<void>(sim::simulate(spec, *device_,
                                  side == WatchedSide::program
                                      ? with_faults(with_watch(program, watch), faults)
                                      : with_watch(with_faults(program, faults), watch)));
}

}  // namespace verify
