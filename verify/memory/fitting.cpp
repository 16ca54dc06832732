#include "verify/memory/fitting.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/memory/scenario_memory.h"

namespace verify {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kPipeline = "pipeline-model-parallel-size";
constexpr const char* kTensor = "tensor-model-parallel-size";
constexpr const char* kExpert = "expert-model-parallel-size";
constexpr const char* kNoDistributed = "no-distributed-optimizer";

std::int64_t number(const Settings& settings, const char* option) {
  return settings.number(option).value_or(1);
}

std::string twice(const Settings& settings, const char* option) {
  return fmt::format("{}", 2 * number(settings, option));
}

/// The changes that the run does not have already. Experts train with tp above 1 under sequence parallelism
/// alone.
std::vector<Changes> candidates(const Settings& settings) {
  std::vector<Changes> all;
  const bool is_split = number(settings, kTensor) > 1;
  if (is_split && !settings.flag("sequence-parallel")) all.push_back({{"sequence-parallel", "true"}});
  const std::string granularity = settings.text("recompute-granularity", "");
  if (granularity.empty()) all.push_back({{"recompute-granularity", "selective"}});
  if (granularity != "full") {
    all.push_back(
        {{"recompute-granularity", "full"}, {"recompute-method", "uniform"}, {"recompute-num-layers", "1"}});
  }
  if (settings.flag(kNoDistributed)) all.push_back({{kNoDistributed, "false"}});
  all.push_back({{kPipeline, twice(settings, kPipeline)}});
  all.push_back({{kTensor, twice(settings, kTensor)}});
  if (number(settings, "num-experts") > 1) {
    if (!is_split) all.back().push_back({"sequence-parallel", "true"});
    all.push_back({{kExpert, twice(settings, kExpert)}});
  }
  const std::int64_t micro = number(settings, "micro-batch-size");
  if (micro % 2 == 0) all.push_back({{"micro-batch-size", fmt::format("{}", micro / 2)}});
  return all;
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

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report) {
  std::vector<Remedy> found;
  const std::int64_t now = report.stages[report.fullest()].peak_bytes();
  for (const Changes& changes : candidates(scenario.settings)) {
    Settings settings = scenario.settings;
    for (const auto& [option, value] : changes) {
      settings.remove(option);
      settings.append(option, {value});
    }
    try {
      const ScenarioRequest request = scenario_request(with_settings(scenario, settings));
      if (!why_no_memory(request).empty()) continue;
      const MemoryReport then = scenario_memory(request);
      const std::int64_t peak = then.stages[then.fullest()].peak_bytes();
      if (peak >= now) continue;
      found.push_back({.options = text_of(changes, scenario.run != nullptr),
                       .peak_bytes = peak,
                       .stage = then.fullest(),
                       .fits = then.fits().value_or(false)});
    } catch (const sim::Error&) {
      continue;  // this layout, or this model, cannot have the change
    }
  }
  std::ranges::stable_sort(found, {}, &Remedy::peak_bytes);
  return found;
}

}  // namespace verify
