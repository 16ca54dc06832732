#include "verify/memory/fitting.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/memory/scenario_memory.h"
#include "verify/options/context_options.h"
#include "verify/options/memory_options.h"
#include "verify/options/run_of_file.h"

namespace verify {

namespace {

/// A change of an option: the value that it gets, or that it is left out.
struct Change {
  const char* option;
  std::optional<std::string> value;
};
using Changes = std::vector<Change>;
/// Changes of one kind, of which each goes further than the one before it.
using Steps = std::vector<Changes>;

constexpr const char* kPipeline = "pipeline-model-parallel-size";
constexpr const char* kTensor = "tensor-model-parallel-size";
constexpr const char* kContext = "context-parallel-size";
constexpr const char* kExpert = "expert-model-parallel-size";
constexpr const char* kNoDistributed = "no-distributed-optimizer";
constexpr const char* kNoMask = "no-create-attention-mask-in-dataloader";
constexpr const char* kGranularity = "recompute-granularity";
constexpr const char* kMethod = "recompute-method";
constexpr const char* kLayers = "recompute-num-layers";
constexpr const char* kModules = "recompute-modules";

constexpr std::int64_t kWorthIt = 100;  // a hundredth of the largest moment

std::int64_t number(const Settings& settings, const char* option) {
  return settings.number(option).value_or(1);
}

bool has_experts(const Settings& settings) { return number(settings, "num-experts") > 1; }

/// Whether Megatron takes the distributed optimizer of Adam for this run.
bool takes_distributed_optimizer(const Scenario& scenario) {
  if (scenario.run == nullptr) return true;
  const RunValues& run = scenario.run->judged;
  return !run.flag("use-torch-fsdp2") && !run.flag("use-megatron-fsdp") &&
         run.text("optimizer", "adam") == "adam";
}

/// Whether the mask of the data loader keeps documents apart, so that a run without it is another one.
bool divides_documents(const Scenario& scenario) {
  return scenario.run != nullptr && scenario.run->judged.flag("reset-attention-mask");
}

/// Selective recomputation, and then further modules beside those that it computes again already.
Steps more_modules(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  const std::string granularity = settings.text(kGranularity, "");
  if (granularity == "full") return {};
  Steps steps;
  if (granularity.empty()) steps.push_back({{kGranularity, "selective"}});
  const MemoryOptions options = memory_options(settings);
  std::vector<std::string> modules;
  if (granularity == "selective") modules = options.modules;
  if (granularity.empty() && options.keeps_scores) modules.emplace_back("core_attn");
  std::vector<std::string> further;
  if (settings.flag("multi-latent-attention")) further.emplace_back("mla_up_proj");
  for (const char* module : {"moe_act", "moe"})
    if (has_experts(settings)) further.emplace_back(module);
  if (!has_experts(settings)) further.emplace_back("mlp");
  for (const std::string& module : further) {
    if (std::ranges::find(modules, module) != modules.end()) continue;
    if (module == "moe") std::erase(modules, "moe_act");  // the experts have it
    modules.push_back(module);
    const char* between = scenario.run == nullptr ? "," : " ";
    steps.push_back(
        {{kGranularity, "selective"}, {kModules, fmt::format("{}", fmt::join(modules, between))}});
  }
  return steps;
}

/// The first layers of each stage, and then all of them, which keeps least one by one.
std::vector<Steps> full_recomputation(const Settings& settings) {
  const bool is_full = settings.text(kGranularity, "") == "full";
  const bool is_finest = is_full && settings.text(kMethod, "") == "uniform" && number(settings, kLayers) == 1;
  std::vector<Steps> all;
  if (!is_full) {
    Steps of_blocks;
    const std::int64_t of_stage =
        number(settings, "num-layers") / std::max<std::int64_t>(1, number(settings, kPipeline));
    for (std::int64_t layers = 1; layers < of_stage; layers *= 2)
      of_blocks.push_back({{kGranularity, "full"}, {kMethod, "block"}, {kLayers, fmt::format("{}", layers)}});
    all.push_back(std::move(of_blocks));
  }
  if (!is_finest) all.push_back({{{kGranularity, "full"}, {kMethod, "uniform"}, {kLayers, "1"}}});
  return all;
}

/// Twice, four and eight times as many ranks. Experts train with tp above 1 under sequence parallelism alone.
Steps more_ranks(const Settings& settings, const char* option) {
  Steps steps;
  for (const std::int64_t factor : {2, 4, 8}) {
    steps.push_back({{option, fmt::format("{}", factor * number(settings, option))}});
    if (option == kTensor && has_experts(settings) && !settings.flag("sequence-parallel"))
      steps.back().push_back({"sequence-parallel", "true"});
  }
  return steps;
}

/// The changes that the run does not have already. What costs little time comes first.
std::vector<Steps> candidates(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  std::vector<Steps> all;
  if (number(settings, kTensor) > 1 && !settings.flag("sequence-parallel"))
    all.push_back({{{"sequence-parallel", "true"}}});
  if (!settings.flag(kNoMask) && !divides_documents(scenario)) all.push_back({{{kNoMask, "true"}}});
  if (settings.flag(kNoDistributed) && takes_distributed_optimizer(scenario))
    all.push_back({{{kNoDistributed, "false"}}});
  all.push_back(more_modules(scenario));
  std::ranges::move(full_recomputation(settings), std::back_inserter(all));
  for (const char* chunks : {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"})
    if (settings.has(chunks)) all.push_back({{{chunks, std::nullopt}}});
  const std::int64_t micro = number(settings, "micro-batch-size");
  if (micro > 1) all.push_back({{{"micro-batch-size", fmt::format("{}", micro % 2 == 0 ? micro / 2 : 1)}}});
  for (const char* ranks : {kPipeline, kContext, kTensor}) all.push_back(more_ranks(settings, ranks));
  if (has_experts(settings)) all.push_back(more_ranks(settings, kExpert));
  return all;
}

/// In the words of the command line, or in those of a run's own arguments, where Megatron has others.
std::string text_of(const Change& change, bool is_run) {
  if (is_run && change.option == kNoDistributed) return "--use-distributed-optimizer";
  if (!change.value) return fmt::format("no --{}", change.option);
  if (*change.value == "true") return fmt::format("--{}", change.option);
  return fmt::format("--{}{}{}", change.option, *change.value == "false" ? "=" : " ", *change.value);
}

std::string text_of(const Changes& changes, bool is_run) {
  std::string text;
  for (const Change& change : changes) text += (text.empty() ? "" : " ") + text_of(change, is_run);
  return text;
}

Settings with_changes(const Scenario& scenario, const Changes& changes) {
  Settings settings = scenario.settings;
  for (const Change& change : changes) {
    settings.remove(change.option);
    if (change.value) settings.append(change.option, {*change.value});
  }
  return settings;
}

/// A run of --from that gives no batch has one microbatch on each replica, and so another batch on another
/// layout or with another microbatch.
Settings with_batch_that_follows(const Scenario& scenario, Settings settings) {
  constexpr const char* kBatch = "global-batch-size";
  if (scenario.run == nullptr) return settings;
  const RunValues& given = scenario.run->judged;
  if (given.has(kBatch) || given.has("step-batch-size-schedule")) return settings;
  const RunOfFile changed = with_options(*scenario.run, settings);
  settings.remove(kBatch);
  if (changed.settings.has(kBatch)) settings.append(kBatch, changed.settings.given(kBatch));
  return settings;
}

/// Returns what the changed run needs; none where it cannot have the changes, or its memory is not counted.
std::optional<Remedy> remedy_of(const Scenario& scenario, const Changes& changes) {
  try {
    const Settings settings = with_batch_that_follows(scenario, with_changes(scenario, changes));
    if (context_warnings(settings).size() > context_warnings(scenario.settings).size()) return std::nullopt;
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

/// Returns the smallest change of a kind that fits; where none does, the smallest one that is worth it.
std::optional<Remedy> remedy_among(const Scenario& scenario, const Steps& steps, std::int64_t worth) {
  std::optional<Remedy> found;
  for (const Changes& changes : steps) {
    const std::optional<Remedy> remedy = remedy_of(scenario, changes);
    if (!remedy) continue;
    if (remedy->fits) return remedy;
    if (!found && remedy->peak_bytes <= worth) found = remedy;
  }
  return found;
}

bool share_an_option(const Changes& a, const Changes& b) {
  return std::ranges::any_of(a, [&](const Change& one) {
    return std::ranges::any_of(b, [&](const Change& other) {
      return std::string_view(one.option) == other.option && one.value != other.value;
    });
  });
}

/// Returns two changes at once that fit, of each two kinds the smallest ones.
std::vector<Remedy> pairs_that_fit(const Scenario& scenario, const std::vector<Steps>& all) {
  constexpr std::size_t kMost = 3;
  std::vector<Remedy> found;
  for (std::size_t second = 1; second < all.size(); ++second) {
    for (std::size_t first = 0; first < second && found.size() < kMost; ++first) {
      Steps both;
      for (const Changes& b : all[second]) {
        for (const Changes& a : all[first]) {
          if (share_an_option(a, b)) continue;
          both.push_back(a);
          both.back().insert(both.back().end(), b.begin(), b.end());
        }
      }
      const std::optional<Remedy> remedy = remedy_among(scenario, both, 0);
      if (remedy && remedy->fits) found.push_back(*remedy);
    }
  }
  return found;
}

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report) {
  const std::int64_t now = report.stages[report.fullest()].peak_bytes();
  const std::vector<Steps> all = candidates(scenario);
  std::vector<Remedy> found, others;
  for (const Steps& steps : all) {
    const std::optional<Remedy> remedy = remedy_among(scenario, steps, now - now / kWorthIt);
    if (remedy) (remedy->fits ? found : others).push_back(*remedy);
  }
  if (found.empty()) found = pairs_that_fit(scenario, all);
  std::ranges::stable_sort(others, {}, &Remedy::peak_bytes);
  std::ranges::move(others, std::back_inserter(found));
  return found;
}

}  // namespace verify
