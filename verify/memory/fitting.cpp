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
#include "verify/options/requests.h"
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

struct Kind {
  Steps steps;
  bool has_further_kind = false;  // a later kind goes further: this one is told only if it fits
};

constexpr const char* kPipeline = "pipeline-model-parallel-size";
constexpr const char* kTensor = "tensor-model-parallel-size";
constexpr const char* kContext = "context-parallel-size";
constexpr const char* kExpert = "expert-model-parallel-size";
constexpr const char* kNoDistributed = "no-distributed-optimizer";
constexpr const char* kPrecisionAware = "use-precision-aware-optimizer";
constexpr const char* kNoMask = "no-create-attention-mask-in-dataloader";
constexpr const char* kFusedLoss = "cross-entropy-loss-fusion";
constexpr const char* kSequence = "sequence-parallel";
constexpr const char* kExpertTensor = "expert-tensor-parallel-size";
constexpr const char* kMoment = "exp-avg-dtype";
constexpr const char* kSecondMoment = "exp-avg-sq-dtype";
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

/// The layers of the largest chunk of a stage, if stages have as many.
std::int64_t layers_of_a_chunk(const Settings& settings) {
  if (const auto given = settings.number("num-layers-per-virtual-pipeline-stage")) return *given;
  const std::int64_t chunks =
      number(settings, kPipeline) * number(settings, "num-virtual-stages-per-pipeline-rank");
  return number(settings, "num-layers") / std::max<std::int64_t>(1, chunks);
}

/// The first layers of each stage, in eighths of them, and then all of them, which keeps least one by one.
std::vector<Kind> full_recomputation(const Settings& settings) {
  constexpr std::int64_t kParts = 8;
  const bool is_full = settings.text(kGranularity, "") == "full";
  const bool is_finest = is_full && settings.text(kMethod, "") == "uniform" && number(settings, kLayers) == 1;
  std::vector<Kind> all;
  if (!is_full) {
    Steps of_blocks;
    const std::int64_t most = layers_of_a_chunk(settings);
    std::int64_t before = 0;
    for (std::int64_t part = 1; part < kParts; ++part) {
      const std::int64_t layers = most * part / kParts;
      if (layers == before) continue;
      before = layers;
      of_blocks.push_back({{kGranularity, "full"}, {kMethod, "block"}, {kLayers, fmt::format("{}", layers)}});
    }
    all.push_back({.steps = std::move(of_blocks), .has_further_kind = true});
  }
  if (!is_finest) all.push_back({{{{kGranularity, "full"}, {kMethod, "uniform"}, {kLayers, "1"}}}});
  return all;
}

/// Twice, four and eight times as many ranks.
Steps more_ranks(const Settings& settings, const char* option) {
  Steps steps;
  for (const std::int64_t factor : {2, 4, 8})
    steps.push_back({{option, fmt::format("{}", factor * number(settings, option))}});
  return steps;
}

/// Tensor-parallel ranks are those of a node, and have sequence parallelism, without which experts do not
/// train. Where a rank has whole experts, it still has.
Steps more_tensor_ranks(const Settings& settings) {
  const std::int64_t tp = number(settings, kTensor), of_node = node_placement(settings).gpus_per_node;
  Steps steps;
  for (Changes& changes : more_ranks(settings, kTensor)) {
    if (tp * (std::int64_t{2} << steps.size()) > of_node) break;
    if (!settings.flag(kSequence) && (tp == 1 || has_experts(settings)))
      changes.push_back({kSequence, "true"});
    if (has_experts(settings) && tp == 1 && !settings.has(kExpertTensor))
      changes.push_back({kExpertTensor, "1"});
    steps.push_back(std::move(changes));
  }
  return steps;
}

/// The microbatches that divide the run's own, so that its batch stays.
Steps smaller_microbatches(const Settings& settings) {
  constexpr const char* kMicro = "micro-batch-size";
  const std::int64_t own = number(settings, kMicro);
  Steps steps;
  for (std::int64_t size = own / 2; size >= 1; --size)
    if (own % size == 0) steps.push_back({{kMicro, fmt::format("{}", size)}});
  return steps;
}

/// The states of the distributed optimizer: a main parameter of which the parameter itself has half of the
/// bits, and at last moments of 16 bits.
Steps narrower_states(const Scenario& scenario, bool has_narrow_moments) {
  const Settings& settings = scenario.settings;
  if (!takes_distributed_optimizer(scenario) || settings.flag(kNoDistributed)) return {};
  if (!has_narrow_moments)
    return settings.flag(kPrecisionAware) ? Steps() : Steps{{{kPrecisionAware, "true"}}};
  if (settings.has(kMoment) || settings.has(kSecondMoment)) return {};
  Changes moments = {{kMoment, "bf16"}, {kSecondMoment, "bf16"}};
  if (!settings.flag(kPrecisionAware)) moments.insert(moments.begin(), {kPrecisionAware, "true"});
  return {moments};
}

/// The changes that the run does not have already. What costs little time comes first.
std::vector<Kind> candidates(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  std::vector<Kind> all;
  if (number(settings, kTensor) > 1 && !settings.flag(kSequence)) all.push_back({{{{kSequence, "true"}}}});
  if (!settings.flag(kNoMask) && !divides_documents(scenario)) all.push_back({{{{kNoMask, "true"}}}});
  if (settings.flag(kNoDistributed) && takes_distributed_optimizer(scenario))
    all.push_back({{{{kNoDistributed, "false"}}}});
  all.push_back({.steps = narrower_states(scenario, false), .has_further_kind = true});
  if (settings.flag(kFusedLoss)) all.push_back({{{{kFusedLoss, std::nullopt}}}});
  all.push_back({smaller_microbatches(settings)});
  all.push_back({more_modules(scenario)});
  std::ranges::move(full_recomputation(settings), std::back_inserter(all));
  for (const char* chunks : {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"})
    if (settings.has(chunks)) all.push_back({{{{chunks, std::nullopt}}}});
  for (const char* ranks : {kPipeline, kContext}) all.push_back({more_ranks(settings, ranks)});
  all.push_back({more_tensor_ranks(settings)});
  if (has_experts(settings)) all.push_back({more_ranks(settings, kExpert)});
  all.push_back({narrower_states(scenario, true)});
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

/// Returns the changes as a sentence begins with them. What is left out comes first.
std::string words_of(const Changes& changes, bool is_run) {
  Changes without, with;
  for (const Change& change : changes) (change.value ? with : without).push_back(change);
  std::string words;
  for (const Change& change : without)
    words += fmt::format("{} --{}", words.empty() ? "Without" : " and", change.option);
  if (with.empty()) return words;
  return fmt::format("{} {}", words.empty() ? "With" : words + " and with", text_of(with, is_run));
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

/// Returns the arguments of a run that must be left out for the changes, because they say under another name
/// what an option of them says: with --recompute-activations, Megatron takes no other granularity.
Changes left_out_for(const Changes& changes, const Scenario& scenario, const Scenario& changed) {
  Changes left_out;
  if (scenario.run == nullptr) return left_out;
  for (const auto& [name, value] : scenario.run->judged.all()) {
    const bool is_own = std::ranges::any_of(
        changes, [&](const Change& change) { return std::string_view(change.option) == name; });
    if (!is_own && !changed.run->judged.has(name)) left_out.push_back({name.c_str(), std::nullopt});
  }
  return left_out;
}

/// Returns what the changed run needs; none where it cannot have the changes, or its memory is not counted.
std::optional<Remedy> remedy_of(const Scenario& scenario, const Changes& changes) {
  try {
    const Settings settings = with_batch_that_follows(scenario, with_changes(scenario, changes));
    if (context_warnings(settings).size() > context_warnings(scenario.settings).size()) return std::nullopt;
    const Scenario changed = with_settings(scenario, settings);
    const ScenarioRequest request = scenario_request(changed);
    if (!why_no_memory(request).empty()) return std::nullopt;
    const MemoryReport report = scenario_memory(request);
    Changes told = left_out_for(changes, scenario, changed);
    told.insert(told.end(), changes.begin(), changes.end());
    return Remedy{.options = text_of(told, scenario.run != nullptr),
                  .words = words_of(told, scenario.run != nullptr),
                  .peak_bytes = report.stages[report.fullest()].peak_bytes(),
                  .stage = report.fullest(),
                  .fits = report.fits().value_or(false)};
  } catch (const sim::Error&) {
    return std::nullopt;  // this layout, or this model, cannot have the change
  }
}

/// Returns the smallest change of a kind that leaves what is needed beside, else the smallest one that fits.
/// Where none fits, it is the smallest one from which on further ones save less than `worth`.
std::optional<Remedy> remedy_among(const Scenario& scenario, const Steps& steps, std::int64_t now,
                                   std::int64_t worth) {
  const std::int64_t memory = memory_options(scenario.settings).gpu_memory.value_or(0);
  std::optional<Remedy> found;
  for (const Changes& changes : steps) {
    const std::optional<Remedy> remedy = remedy_of(scenario, changes);
    if (!remedy) continue;
    if (remedy->fits && memory - remedy->peak_bytes >= kTight) return remedy;
    if (found && found->fits) continue;
    if (remedy->fits || remedy->peak_bytes <= (found ? found->peak_bytes : now) - worth) found = remedy;
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
std::vector<Remedy> pairs_that_fit(const Scenario& scenario, const std::vector<Kind>& all) {
  constexpr std::size_t kMost = 3;
  std::vector<Remedy> found;
  for (std::size_t second = 1; second < all.size(); ++second) {
    for (std::size_t first = 0; first < second && found.size() < kMost; ++first) {
      Steps both;
      for (const Changes& b : all[second].steps) {
        for (const Changes& a : all[first].steps) {
          if (share_an_option(a, b)) continue;
          both.push_back(a);
          both.back().insert(both.back().end(), b.begin(), b.end());
        }
      }
      const std::optional<Remedy> remedy = remedy_among(scenario, both, 0, 0);
      if (remedy && remedy->fits) found.push_back(*remedy);
    }
  }
  return found;
}

}  // namespace

const char* text_of_fit(std::int64_t left) { return left < kTight ? "fits only just" : "fits"; }

std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report) {
  const std::int64_t now = report.stages[report.fullest()].peak_bytes();
  const std::vector<Kind> all = candidates(scenario);
  std::vector<Remedy> found, others;
  for (const Kind& kind : all) {
    const std::optional<Remedy> remedy = remedy_among(scenario, kind.steps, now, now / kWorthIt);
    if (!remedy || (!remedy->fits && kind.has_further_kind)) continue;
    (remedy->fits ? found : others).push_back(*remedy);
  }
  if (found.empty()) found = pairs_that_fit(scenario, all);
  std::ranges::stable_sort(others, {}, &Remedy::peak_bytes);
  std::ranges::move(others, std::back_inserter(found));
  return found;
}

}  // namespace verify
