#include "verify/memory/fitting.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "verify/memory/scenario_memory.h"
#include "verify/options/run_of_file.h"

namespace verify {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kPipeline = "pipeline-model-parallel-size";
constexpr const char* kTensor = "tensor-model-parallel-size";
constexpr const char* kContext = "context-parallel-size";
constexpr const char* kExpert = "expert-model-parallel-size";
constexpr const char* kNoDistributed = "no-distributed-optimizer";

constexpr std::int64_t kWorthIt = 100;  // a hundredth of the largest moment

std::int64_t number(const Settings& settings, const char* option) {
  return settings.number(option).value_or(1);
}

std::string times(const Settings& settings, const char* option, std::int64_t factor) {
  return fmt::format("{}", factor * number(settings, option));
}

/// Whether Megatron takes the distributed optimizer of Adam for this run.
bool takes_distributed_optimizer(const Scenario& scenario) {
  if (scenario.run == nullptr) return true;
  const RunValues& run = scenario.run->judged;
  return !run.flag("use-torch-fsdp2") && !run.flag("use-megatron-fsdp") &&
         run.text("optimizer", "adam") == "adam";
}

/// The recomputations that the run does not have. That of whole layers one by one keeps least.
void add_recomputation(const Settings& settings, std::vector<Changes>& all) {
  const std::string granularity = settings.text("recompute-granularity", "");
  if (granularity.empty()) all.push_back({{"recompute-granularity", "selective"}});
  if (granularity != "full" && number(settings, "num-experts") > 1)
    all.push_back({{"recompute-granularity", "selective"}, {"recompute-modules", "moe_act"}});
  const bool is_finest = granularity == "full" && settings.text("recompute-method", "") == "uniform" &&
                         number(settings, "recompute-num-layers") == 1;
  if (is_finest) return;
  all.push_back(
      {{"recompute-granularity", "full"}, {"recompute-method", "uniform"}, {"recompute-num-layers", "1"}});
}

/// Twice, four and eight times as many ranks.
std::vector<Changes> more_ranks(const Settings& settings, const char* option) {
  std::vector<Changes> all;
  for (const int factor : {2, 4, 8}) all.push_back({{option, times(settings, option, factor)}});
  return all;
}

/// The changes that the run does not have already, each with further ones for where it is not enough. Experts
/// train with tp above 1 under sequence parallelism alone.
std::vector<std::vector<Changes>> candidates(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  std::vector<Changes> all;
  const bool is_split = number(settings, kTensor) > 1;
  const bool has_experts = number(settings, "num-experts") > 1;
  if (is_split && !settings.flag("sequence-parallel")) all.push_back({{"sequence-parallel", "true"}});
  add_recomputation(settings, all);
  if (settings.flag(kNoDistributed) && takes_distributed_optimizer(scenario))
    all.push_back({{kNoDistributed, "false"}});
  all.push_back({{kTensor, times(settings, kTensor, 2)}});
  if (has_experts && !is_split) all.back().push_back({"sequence-parallel", "true"});
  const std::int64_t micro = number(settings, "micro-batch-size");
  if (micro > 1) all.push_back({{"micro-batch-size", fmt::format("{}", micro % 2 == 0 ? micro / 2 : 1)}});
  std::vector<std::vector<Changes>> found;
  for (Changes& one : all) found.push_back({std::move(one)});
  found.push_back(more_ranks(settings, kPipeline));
  found.push_back(more_ranks(settings, kContext));
  if (has_experts) found.push_back(more_ranks(settings, kExpert));
  return found;
}

/// In the words of the command line, or in those of a run's own arguments, where Megatron has others.
std::string text_of(const Changes& changes, bool is_run) {
  if (is_run && changes.front().first == kNoDistributed) return "--use-distributed-optimizer";
  std::string text;
  for (const auto& [option, value] : changes) {
    text += fmt::format("{}--{}", text.empty() ? "" : " ", option);
    if (value == "false") text += "=false";
    if (value != "false" && value != "true") text += " " + value;
  }
  return text;
}

/// Returns what the changed run needs; none where it cannot have the changes, or its memory is not counted.
std::optional<Remedy> remedy_of(const Scenario& scenario, const Changes& changes) {
  Settings settings = scenario.settings;
  for (const auto& [option, value] : changes) {
    settings.remove(option);
    settings.append(option, {value});
  }
  try {
    const ScenarioRequest request = scenario_request(with_settings(scenario, settings));
    if (!why_no_memory(request).empty()) return std::nullopt;
    const MemoryReport report = scenario_memory(request);
    return Remedy{.options = text_of(changes, scenario.run != nullptr),
                  .peak_bytes = report.stages[report.fullest()].peak_bytes(),
                  .stage = report.fullest(),
                  .fits = report.fits().value_or(false)};
  } catch (const sim::Error&) {
    return std::nullopt;  // this layout, or this model, cannot have the change
  }
}

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report) {
  std::vector<Remedy> found;
  const std::int64_t now = report.stages[report.fullest()].peak_bytes();
  for (const std::vector<Changes>& steps : candidates(scenario)) {
    std::optional<Remedy> first;  // that of the smallest change, unless a larger one fits
    for (const Changes& changes : steps) {
      const std::optional<Remedy> remedy = remedy_of(scenario, changes);
      if (!remedy) continue;
      if (!first || remedy->fits) first = remedy;
      if (remedy->fits) break;
    }
    if (first && (first->fits || first->peak_bytes <= now - now / kWorthIt)) found.push_back(*first);
  }
  std::ranges::stable_sort(found, {}, &Remedy::peak_bytes);
  return found;
}

}  // namespace verify
