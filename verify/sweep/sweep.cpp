#include "verify/sweep/sweep.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <tuple>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/full_size/step_totals.h"
#include "verify/memory/scenario_memory.h"
#include "verify/requests/schedule_request.h"
#include "verify/sweep/step_time.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

/// What comes first is smaller.
auto order_of(const SweptLayout& layout) {
  const int judgement = !layout.fits ? 1 : *layout.fits ? 0 : 2;
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  return std::tuple(judgement, layout.seconds.value_or(kUnknown),
                    layout.bytes_across.value_or(std::numeric_limits<std::int64_t>::max()),
                    layout.point.recompute, layout.bubble, layout.point);
}

void add_memory(const ScenarioRequest& request, SweptLayout& layout) {
  const MemoryReport memory = scenario_memory(request);
  layout.stage = memory.fullest();
  const StageMemory& fullest = memory.stages[layout.stage];
  layout.static_bytes = fullest.static_bytes();
  if (memory.has_activations) layout.peak_bytes = fullest.peak_bytes();
  layout.fits = memory.fits();
}

/// The groups of one grid, which layouts that differ in nothing else share.
class GridTraffic {
 public:
  KindTraffic& of(const ScenarioRequest& request, SweepPoint point) {
    point.micro_batch_size = 1;
    point.recompute = 0;
    if (!traffic_ || point != point_) traffic_.emplace(request.layout, request.nodes);
    point_ = point;
    return *traffic_;
  }

 private:
  SweepPoint point_;
  std::optional<KindTraffic> traffic_;
};

void add_step(const ScenarioRequest& request, const std::optional<Machine>& machine, GridTraffic& grids,
              SweptLayout& layout) {
  layout.unknown = why_no_step_work(request);
  if (!layout.unknown.empty()) return;
  KindTraffic& traffic = grids.of(request, layout.point);
  const std::vector<RankWork> work = step_work(request);
  layout.bytes_inside = layout.bytes_across = 0;
  for (const auto& [kind, bytes] : step_bytes(request, work, traffic)) {
    *layout.bytes_inside += bytes.inside;
    *layout.bytes_across += bytes.across;
  }
  if (machine) layout.seconds = least_step_seconds(step_seconds(request, work, traffic, *machine));
}

SweptLayout swept(const Scenario& scenario, const SweepPoint& point, const std::optional<Machine>& machine,
                  GridTraffic& grids) {
  const Scenario changed = at_point(scenario, point);
  const ScenarioRequest request = scenario_request(changed);
  require_memory(changed, request);
  SweptLayout layout{.point = point,
                     .dp = request.layout.dp,
                     .microbatches = microbatches_of_batch(request.batch, request.layout.dp)};
  const std::int64_t chunks = request.schedule ? request.schedule->shape.chunks() : 1;
  layout.bubble =
      static_cast<double>(request.layout.pp - 1) / static_cast<double>(chunks * layout.microbatches);
  add_memory(request, layout);
  add_step(request, machine, grids, layout);
  return layout;
}

/// Counts what refused layouts, rule by rule.
class RefusalCount {
 public:
  void add(const sim::Error& error) {
    add(error.refusal());
    for (const sim::Refusal& refusal : sim::further_refusals(error)) add(refusal);
  }
  std::vector<SweepRefusal> sorted() {
    std::ranges::stable_sort(rules_, std::greater(), &SweepRefusal::layouts);
    return std::move(rules_);
  }

 private:
  void add(const sim::Refusal& refusal) {
    const auto known = std::ranges::find_if(rules_, [&](const SweepRefusal& rule) {
      return rule.code == refusal.code && rule.option == refusal.option;
    });
    if (known != rules_.end()) {
      ++known->layouts;
    } else {
      rules_.push_back({refusal.code, refusal.option, refusal.rule, refusal.numbers, refusal.hint, 1});
    }
  }
  std::vector<SweepRefusal> rules_;  // there are few
};

[[noreturn]] void refuse_without_result(const SweepReport& report) {
  std::string rules;
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(kShown, report.refusals.size()); ++i) {
    const SweepRefusal& rule = report.refusals[i];
    rules += fmt::format("{}{} ({}) refuses {}", i == 0 ? ": " : ", ", rule.code, rule.option, rule.layouts);
  }
  const bool is_empty = report.tried == 0;
  sim::refuse(
      {.code = "sweep_without_result",
       .option = "--sweep",
       .numbers = is_empty ? "no sizes divide the world"
                           : fmt::format("none of {} layouts is accepted{}", report.tried, rules),
       .rule = is_empty ? "tp * pp * cp divides the world"
                        : "a sweep shows the layouts that Megatron accepts: " + report.refusals.front().rule,
       .hint = is_empty ? "--sweep-values tp=1" : report.refusals.front().hint});
}

}  // namespace

std::int64_t SweepReport::fitting() const {
  return std::ranges::count_if(layouts,
                               [](const SweptLayout& layout) { return layout.fits.value_or(false); });
}

SweepReport sweep(const Scenario& scenario, const SweepSpace& space, const std::optional<Machine>& machine) {
  const Settings& settings = scenario.settings;
  SweepReport report{.world_size = settings.number("world-size").value_or(1),
                     .global_batch_size = settings.number("global-batch-size").value_or(1),
                     .gpu_memory = memory_options(settings).gpu_memory,
                     .machine = machine};
  const SweepPoint own = own_point(settings);
  RefusalCount refusals;
  GridTraffic grids;
  for (const SweepPoint& point : space.points(report.world_size)) {
    ++report.tried;
    try {
      report.layouts.push_back(swept(scenario, point, machine, grids));
      report.layouts.back().is_own = point == own;
    } catch (const sim::Error& error) {
      refusals.add(error);
    }
  }
  report.refusals = refusals.sorted();
  if (report.layouts.empty()) refuse_without_result(report);
  std::ranges::sort(report.layouts, [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
  return report;
}

}  // namespace verify
