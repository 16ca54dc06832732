#include "verify/exam/exam_plan.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <set>

#include "sim/layout/kind_table.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/faults/faulty_device.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

/// The settings that a case is run in. A site that is reached in few of them has faults in these few.
constexpr int kSettings = 24;
/// The settings that a fault is planted in.
constexpr std::size_t kSettingsOfFault = 8;

/// What is known of the calls of a site.
struct SiteCalls {
  std::set<sim::Operation> operations;
  std::set<sim::ReduceOp> reductions;
  std::set<std::string> groups;        // the kinds that the calls go over
  std::set<std::string> other_groups;  // kinds of several ranks whose groups have other members
  std::vector<std::size_t> settings;
  bool has_more_than_two_places = false;
};

void add_groups(SiteCalls& site, const sim::Layout& layout, const std::string& kind) {
  constexpr std::array kKinds = {"tp", "cp", "dp", "pp", "ep"};
  const sim::GroupKind* own = layout.find(kind);
  for (const char* name : kKinds) {
    const sim::GroupKind* other = layout.find(name);
    if (other == nullptr || other->size() == 1 || name == kind) continue;
    if (own == nullptr || !own->same_groups(*other)) site.other_groups.insert(name);
  }
}

void add_calls(std::map<std::string, SiteCalls>& sites, const sim::RunReport& run, const sim::Layout& layout,
               std::size_t setting) {
  for (const sim::RankReport& rank : run.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (call.group->size() == 1) continue;
      SiteCalls& site = sites[call.site.name];
      site.operations.insert(call.operation);
      if (sim::has_reduce_op(call.operation)) site.reductions.insert(call.reduce_op);
      if (site.groups.insert(call.group->kind).second || site.settings.empty() ||
          site.settings.back() != setting)
        add_groups(site, layout, call.group->kind);
      if (site.settings.empty() || site.settings.back() != setting) site.settings.push_back(setting);
      site.has_more_than_two_places = site.has_more_than_two_places || call.group->size() > 2;
    }
  }
}

/// Returns the arguments that a fault is tried with at a site; "" for one without an argument.
std::vector<std::string> arguments_at(const SiteCalls& site, const FaultInfo& fault) {
  std::vector<std::string> arguments;
  switch (fault.argument) {
    case FaultArgument::none:
      return {""};
    case FaultArgument::group: {
      for (const std::string& kind : site.other_groups) arguments.push_back("=" + kind);
      const bool is_tp = site.groups.contains("tp");
      if (arguments.empty()) arguments.emplace_back(is_tp ? "=dp" : "=tp");  // a group of one rank
      return arguments;
    }
    case FaultArgument::reduce_op:
      for (const auto op : {sim::ReduceOp::sum, sim::ReduceOp::max, sim::ReduceOp::average}) {
        if (!site.reductions.contains(op)) arguments.push_back(fmt::format("={}", sim::name_of(op)));
      }
      return arguments;
    case FaultArgument::factor:
      for (const std::string& kind : site.groups) {
        if (sim::find_kind(kind) == nullptr) continue;  // a group that the program has made
        arguments.push_back("=" + kind);
        arguments.push_back("=1/" + kind);
      }
      arguments.emplace_back("=1+2^-10");
      return arguments;
    case FaultArgument::next:
      return {"=next"};
    case FaultArgument::next_or_previous:
      if (!site.has_more_than_two_places) return {};  // there is no other peer
      return {"=next", "=previous"};
    case FaultArgument::bf16:
      return {"=bf16"};
    case FaultArgument::count:
      return {"=1"};
  }
  return {};
}

/// Whether a fault is also planted at one place of each group.
bool is_tried_at_one_place(FaultKind kind, const std::string& argument) {
  return kind == FaultKind::skip || kind == FaultKind::own_term || kind == FaultKind::nan ||
         kind == FaultKind::stale || (kind == FaultKind::scale && argument == "=1+2^-10");
}

/// The work of a run, by which settings are ordered: its calls and published tensors.
std::int64_t work_of(const sim::RunReport& run) {
  std::int64_t work = 0;
  for (const sim::RankReport& rank : run.ranks) work += std::ssize(rank.calls) + std::ssize(rank.published);
  return work;
}

/// Returns the first settings in which a site is reached, those of the least work first.
std::vector<std::size_t> settings_of_fault(const ExamPlan& plan, std::vector<std::size_t> settings) {
  settings.resize(std::min(settings.size(), kSettingsOfFault));
  std::stable_sort(settings.begin(), settings.end(),
                   [&](std::size_t a, std::size_t b) { return plan.work[a] < plan.work[b]; });
  return settings;
}

void plan_faults_of_calls(ExamPlan& plan, const std::string& name, const SiteCalls& site) {
  const std::vector<std::size_t> settings = settings_of_fault(plan, site.settings);
  for (const FaultInfo& fault : fault_table()) {
    const bool applies = fault.applies != nullptr &&
                         std::any_of(site.operations.begin(), site.operations.end(), fault.applies);
    if (!applies) continue;
    for (const std::string& argument : arguments_at(site, fault)) {
      const std::string text = fmt::format("{}:{}{}", name, fault.name, argument);
      plan.faults.push_back({text, settings});
      if (is_tried_at_one_place(fault.kind, argument)) plan.faults.push_back({text + "@place=1", settings});
    }
  }
}

/// Returns the settings in which a case calls each kernel. One run of a setting tells it of all kernels: each
/// has a fault that is met and shifts by no element.
std::vector<std::vector<std::size_t>> settings_by_kernel(const ExamPlan& plan, Bench& bench) {
  std::vector<std::vector<std::size_t>> settings(kernel_names().size());
  for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
    std::vector<Fault> faults;
    for (const std::string& kernel : kernel_names()) {
      faults.push_back(parsed_fault(kernel + ":offset=1"));
      faults.back().elements = 0;
    }
    bench.plant(faults);
    bench.run(*plan.the_case, plan.settings[setting]);
    for (std::size_t kernel = 0; kernel < faults.size(); ++kernel) {
      if (*faults[kernel].met > 0) settings[kernel].push_back(setting);
    }
  }
  bench.plant({});
  return settings;
}

void plan_faults_of_kernels(ExamPlan& plan, Bench& bench) {
  const std::vector<std::vector<std::size_t>> by_kernel = settings_by_kernel(plan, bench);
  for (std::size_t kernel = 0; kernel < by_kernel.size(); ++kernel) {
    if (by_kernel[kernel].empty()) continue;
    const std::vector<std::size_t> settings = settings_of_fault(plan, by_kernel[kernel]);
    for (const char* fault : {"zero", "zero@rank=1", "offset=1", "transpose", "drop-accumulate"})
      plan.faults.push_back({fmt::format("{}:{}", kernel_names()[kernel], fault), settings});
  }
}

/// Judges a run without faults, as the runs with faults are judged.
void judge_clean(ExamPlan& plan, const CaseSetting& setting, Bench& bench) {
  for (const Property& property : all_properties()) {
    if (!property.judges(*plan.the_case, setting.dtype)) continue;
    const Judgement judgement = property.judge(bench, *plan.the_case, setting);
    if (!judgement.holds)
      plan.false_alarms.push_back(
          fmt::format("{} {}: {}", plan.the_case->name(), property.name, judgement.detail));
  }
}

}  // namespace

ExamPlan exam_plan(const Case& the_case, std::uint64_t seed, int max_world, Bench& bench) {
  ExamPlan plan{
      .the_case = &the_case, .settings = {}, .hashes = {}, .work = {}, .faults = {}, .false_alarms = {}};
  std::map<std::string, SiteCalls> sites;
  DrawnSettings drawn(the_case, "exam", {sim::DType::field}, seed, max_world);
  bench.plant({});
  while (plan.settings.size() < kSettings) {
    const CaseSetting setting = drawn.next();
    if (setting.group_size * setting.replicas == 1) continue;  // no call has a fault
    const sim::Layout& layout = bench.world_of(the_case, setting).layout;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
    add_calls(sites, *run, layout, plan.settings.size());
    plan.settings.push_back(setting);
    plan.hashes.push_back(run->run_hash);
    plan.work.push_back(work_of(*run));
    judge_clean(plan, setting, bench);
  }
  for (const auto& [name, site] : sites) plan_faults_of_calls(plan, name, site);
  plan_faults_of_kernels(plan, bench);
  return plan;
}

}  // namespace verify
