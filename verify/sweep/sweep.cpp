#include "verify/sweep/sweep.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <set>
#include <system_error>
#include <tuple>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/full_size/step_totals.h"
#include "verify/memory/fitting.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"
#include "verify/sweep/step_time.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

// ---- what is tried

constexpr std::int64_t kMostContextRanks = 16;

/// One thing that varies: its name in --sweep-values, and the option that it is.
struct SweepAxis {
  const char* name;
  const char* option;
  std::int64_t SweepPoint::*value;
  std::vector<std::int64_t> SweepSpace::*values;
};
constexpr const char* kChunksOption = "num-virtual-stages-per-pipeline-rank";
constexpr const char* kStagesOption = "pipeline-model-parallel-layout";
constexpr SweepAxis kAxes[] = {
    {"tp", "tensor-model-parallel-size", &SweepPoint::tp, &SweepSpace::tp},
    {"pp", "pipeline-model-parallel-size", &SweepPoint::pp, &SweepSpace::pp},
    {"chunks", kChunksOption, &SweepPoint::chunks, &SweepSpace::chunks},
    {"cp", "context-parallel-size", &SweepPoint::cp, &SweepSpace::cp},
    {"ep", "expert-model-parallel-size", &SweepPoint::ep, &SweepSpace::ep},
    {"micro-batch-size", "micro-batch-size", &SweepPoint::micro_batch_size, &SweepSpace::micro_batch_size}};
constexpr const char* kRecompute = "recompute";

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

void add_value(std::vector<std::int64_t>& values, std::int64_t value) {
  const auto place = std::ranges::lower_bound(values, value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<std::int64_t> numbers_of(const std::string& given, const std::vector<std::string>& words) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    constexpr std::int64_t kMost = 1 << 20;
    if (error != std::errc() || end != word.data() + word.size() || number < 1 || number > kMost)
      refuse_by("sweep_values/size", "--sweep-values", given);
    add_value(numbers, number);
  }
  return numbers;
}

std::vector<int> recomputations_of(const std::string& given, const std::vector<std::string>& words) {
  std::set<int> found;
  for (const std::string& word : words) {
    const auto known = std::ranges::find(kRecomputations, word);
    if (known == std::end(kRecomputations)) refuse_by("sweep_values/recompute", "--sweep-values", given);
    found.insert(static_cast<int>(known - std::begin(kRecomputations)));
  }
  return {found.begin(), found.end()};
}

/// Reads one value of the option into the space. `names` are those that were there already.
void read_values(const std::string& given, std::set<std::string>& names, SweepSpace& space) {
  const std::size_t equals = given.find('=');
  const std::string name = given.substr(0, equals);
  if (equals == std::string::npos) refuse_by("sweep_values/form", "--sweep-values", given);
  if (!names.insert(name).second) refuse_by("sweep_values/twice", "--sweep-values", given);
  const std::vector<std::string> words = words_of(given.substr(equals + 1));
  if (name == kRecompute) {
    space.recompute = recomputations_of(given, words);
    return;
  }
  const auto axis = std::ranges::find_if(kAxes, [&](const SweepAxis& one) { return name == one.name; });
  if (axis == std::end(kAxes)) refuse_by("sweep_values/name", "--sweep-values", given);
  space.*(axis->values) = numbers_of(given, words);
}

std::int64_t required(const Settings& settings, const char* option) {
  const auto number = settings.number(option);
  if (number) return *number;
  refuse_by("missing_option/sweep", fmt::format("--{}", option));
}

/// The values that are tried where none are given.
SweepSpace default_space(const Settings& settings, std::int64_t world) {
  const std::int64_t layers = settings.number("num-layers").value_or(1), accounted = 2;
  const std::int64_t parts = std::max<std::int64_t>(1, settings.number("seq-length").value_or(1) / kLongPart);
  SweepSpace space{.tp = divisors(world, node_placement(settings).gpus_per_node),
                   .pp = divisors(world, layers + accounted),
                   .chunks = {1, 2, 4},
                   .cp = divisors(world, std::min(kMostContextRanks, parts)),
                   .ep = {1},
                   .micro_batch_size = {1, 2, 4},
                   .recompute = {0, 1, 2}};
  if (const auto experts = settings.number("num-experts")) {
    space.ep = divisors(*experts, *experts);
    std::erase_if(space.ep, [&](std::int64_t ep) { return world % ep != 0; });
  }
  const SweepPoint own = own_point(settings);
  if (settings.has(kStagesOption)) space.chunks.clear();
  for (const SweepAxis& axis : kAxes) add_value(space.*(axis.values), own.*(axis.value));
  return space;
}

}  // namespace

SweepPoint own_point(const Settings& settings) {
  SweepPoint point;
  for (const SweepAxis& axis : kAxes) point.*(axis.value) = settings.number(axis.option).value_or(1);
  point.chunks = virtual_pipeline_size(settings).value_or(1);
  const std::string granularity = settings.text("recompute-granularity", "none");
  const auto known = std::ranges::find(kRecomputations, granularity);
  if (known != std::end(kRecomputations)) point.recompute = static_cast<int>(known - kRecomputations);
  return point;
}

SweepSpace sweep_space(const Settings& settings) {
  std::int64_t world = 1;
  SweepSpace given;
  std::set<std::string> names;
  sim::Refusals refusals;
  refusals.keep([&] { world = required(settings, "world-size"); });
  refusals.keep([&] { required(settings, "global-batch-size"); });
  for (const std::string& values : settings.given("sweep-values"))
    refusals.keep([&] { read_values(values, names, given); });
  refusals.throw_if_any();
  SweepSpace space = default_space(settings, world);
  for (const SweepAxis& axis : kAxes)
    if (!(given.*(axis.values)).empty()) space.*(axis.values) = given.*(axis.values);
  if (!given.recompute.empty()) space.recompute = given.recompute;
  return space;
}

std::vector<std::int64_t> SweepSpace::chunks_of(std::int64_t pipeline_ranks) const {
  return pipeline_ranks == 1 ? std::vector<std::int64_t>{1} : chunks;
}

std::vector<SweepPoint> SweepSpace::points(std::int64_t world_size) const {
  std::vector<SweepPoint> all;
  for (const std::int64_t t : tp) {
    for (const std::int64_t p : pp) {
      for (const std::int64_t c : cp) {
        if (world_size % (t * p) != 0 || world_size / (t * p) % c != 0) continue;
        for (const std::int64_t v : chunks_of(p))
          for (const std::int64_t e : ep)
            for (const std::int64_t m : micro_batch_size)
              for (const int r : recompute) all.push_back({t, p, v, c, e, m, r});
      }
    }
  }
  return all;
}

Scenario at_point(const Scenario& scenario, const SweepPoint& point) {
  Settings settings = scenario.settings;
  const auto set = [&](const char* option, const std::string& value) {
    settings.remove(option);
    if (!value.empty()) settings.append(option, {value});
  };
  const SweepPoint own = own_point(scenario.settings);
  for (const SweepAxis& axis : kAxes)
    if (axis.value != &SweepPoint::chunks) set(axis.option, fmt::format("{}", point.*(axis.value)));
  if (point.chunks != own.chunks || point.pp != own.pp) {
    for (const char* option :
         {"virtual-pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage"})
      set(option, "");
    set(kChunksOption, point.chunks == 1 ? "" : fmt::format("{}", point.chunks));
  }
  set("num-microbatches", "");  // follows from the global batch
  if (own.recompute == point.recompute) return with_settings(scenario, settings);
  const bool is_full = point.recompute == 2;
  set("recompute-granularity", point.recompute == 0 ? "" : kRecomputations[point.recompute]);
  set("recompute-method", is_full ? "uniform" : "");
  set("recompute-num-layers", is_full ? "1" : "");
  if (point.recompute != 1) set("recompute-modules", "");
  return with_settings(scenario, settings);
}

namespace {

// ---- the sweep

/// What comes first is smaller.
auto order_of(const SweptLayout& layout) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  return std::tuple(fit_of(layout), layout.seconds.value_or(kUnknown),
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
  if (!layout.fits) return;
  const std::int64_t left = *memory.gpu_memory - fullest.peak_bytes();
  layout.fits_only_just = *layout.fits && left < kTight;
  const auto doubtful = doubtful_arguments(request.uncounted, fullest, left);
  if (doubtful.empty()) return;
  layout.doubt = "--" + doubtful.front().name;
  layout.fits.reset();
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
  if (report.tried == 0) refuse_by("sweep_without_result/empty", "--sweep");
  std::string rules;
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(kShown, report.refusals.size()); ++i) {
    const SweepRefusal& rule = report.refusals[i];
    rules += fmt::format("{}{} ({}) refuses {}", i == 0 ? ": " : ", ", rule.code, rule.option, rule.layouts);
  }
  const SweepRefusal& first = report.refusals.front();
  refuse_by("sweep_without_result/refused", "--sweep", report.tried, rules, first.rule, first.hint);
}

}  // namespace

Fit fit_of(const SweptLayout& layout) {
  if (!layout.fits) return Fit::unknown;
  return !*layout.fits ? Fit::no : layout.fits_only_just ? Fit::just : Fit::yes;
}

const char* fit_word(const SweptLayout& layout) {
  constexpr const char* kWords[] = {"yes", "just", "-", "no"};
  return kWords[static_cast<std::size_t>(fit_of(layout))];
}

std::optional<std::size_t> SweepReport::place_of_own() const {
  const auto own = std::ranges::find_if(layouts, &SweptLayout::is_own);
  if (own == layouts.end()) return std::nullopt;
  return static_cast<std::size_t>(own - layouts.begin());
}

bool SweepReport::is_known_not_to_fit() const {
  return gpu_memory && std::ranges::all_of(layouts, [](const SweptLayout& one) { return one.fits == false; });
}

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
