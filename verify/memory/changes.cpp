#include "verify/memory/changes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <utility>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/requests/memory_options.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

constexpr const char* kPipeline = "pipeline-model-parallel-size";
constexpr const char* kTensor = "tensor-model-parallel-size";
constexpr const char* kContext = "context-parallel-size";
constexpr const char* kExpert = "expert-model-parallel-size";
constexpr const char* kPrecisionAware = "use-precision-aware-optimizer";
constexpr const char* kNoMask = "no-create-attention-mask-in-dataloader";
constexpr const char* kFusedLoss = "cross-entropy-loss-fusion";
constexpr const char* kLastLayers = "decoder-last-pipeline-num-layers";
/// What places layers on stages in another way than evenly.
constexpr const char* kPlaces[] = {kLastLayers,
                                   "decoder-first-pipeline-num-layers",
                                   "account-for-embedding-in-pipeline-split",
                                   "account-for-loss-in-pipeline-split",
                                   "pipeline-model-parallel-layout",
                                   "num-layers-per-virtual-pipeline-stage",
                                   "num-virtual-stages-per-pipeline-rank"};
constexpr const char* kBackend = "attention-backend";
constexpr const char* kBf16 = "bf16";
constexpr const char* kSequence = "sequence-parallel";
constexpr const char* kExpertTensor = "expert-tensor-parallel-size";
constexpr const char* kMoment = "exp-avg-dtype";
constexpr const char* kSecondMoment = "exp-avg-sq-dtype";
constexpr const char* kGranularity = "recompute-granularity";
constexpr const char* kMethod = "recompute-method";
constexpr const char* kLayers = "recompute-num-layers";
constexpr const char* kModules = "recompute-modules";

std::int64_t number(const Settings& settings, const char* option) {
  return settings.number(option).value_or(1);
}

bool has_experts(const Settings& settings) { return number(settings, "num-experts") > 1; }

/// Whether Megatron takes the distributed optimizer of Adam for this run.
bool takes_distributed_optimizer(const Scenario& scenario) {
  const RunValues& run = scenario.run.values;
  return !run.flag("use-torch-fsdp2") && !run.flag("use-megatron-fsdp") &&
         run.text("optimizer", "adam") == "adam";
}

/// Whether the mask of the data loader keeps documents apart, so that a run without it is another one.
bool divides_documents(const Scenario& scenario) { return scenario.run.values.flag("reset-attention-mask"); }

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
    const char* between = scenario.run.is_given() ? " " : ",";
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

/// Twice to sixteen times as many ranks.
Steps more_ranks(const Settings& settings, const char* option) {
  Steps steps;
  for (const std::int64_t factor : {2, 4, 8, 16})
    steps.push_back({{option, fmt::format("{}", factor * number(settings, option))}});
  return steps;
}

/// Whether the run places its layers in a way of its own.
bool places_layers(const Settings& settings) {
  return std::ranges::any_of(kPlaces, [&](const char* option) { return settings.has(option); });
}

/// More pipeline ranks. Layers that they do not divide are left to the others by the last one.
Steps more_pipeline_ranks(const Settings& settings) {
  Steps steps = more_ranks(settings, kPipeline);
  if (places_layers(settings)) return steps;
  const std::int64_t layers = number(settings, "num-layers");
  std::int64_t ranks = number(settings, kPipeline);
  for (Changes& changes : steps) {
    ranks *= 2;
    const std::int64_t of_others = (layers + ranks - 1) / ranks, of_last = layers - (ranks - 1) * of_others;
    if (of_last > 0 && of_last < of_others) changes.push_back({kLastLayers, fmt::format("{}", of_last)});
  }
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

/// Tensor-parallel ranks in place of context-parallel ones: both divide activations, but the former divide
/// the model, too.
Steps tensor_for_context_ranks(const Settings& settings) {
  Steps steps;
  std::int64_t factor = 1;
  for (Changes& changes : more_tensor_ranks(settings)) {
    factor *= 2;
    const std::int64_t ranks = number(settings, kContext);
    if (ranks % factor != 0) break;
    changes.push_back({kContext, fmt::format("{}", ranks / factor)});
    steps.push_back(std::move(changes));
  }
  return steps;
}

/// The microbatches that divide the run's own, so that its batch stays.
Steps smaller_microbatches(const Settings& settings) {
  constexpr const char* kMicro = "micro-batch-size";
  const std::int64_t own = number(settings, kMicro);
  constexpr std::int64_t kMostParts = 1024;
  Steps steps;
  for (std::int64_t parts = 2; parts <= std::min(own, kMostParts); ++parts)
    if (own % parts == 0) steps.push_back({{kMicro, fmt::format("{}", own / parts)}});
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

}  // namespace

std::vector<Kind> kinds_of_changes(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  std::vector<Kind> all;
  if (number(settings, kTensor) > 1 && !settings.flag(kSequence)) all.push_back({{{{kSequence, "true"}}}});
  if (!settings.flag(kNoMask) && !divides_documents(scenario)) all.push_back({{{{kNoMask, "true"}}}});
  if (settings.flag(kNoDistributed) && takes_distributed_optimizer(scenario))
    all.push_back({{{{kNoDistributed, "false"}}}});
  if (memory_options(settings).keeps_scores && settings.has(kBackend))
    all.push_back({{{{kBackend, std::nullopt}}}});
  all.push_back({.steps = narrower_states(scenario, false), .has_further_kind = true});
  if (settings.flag(kFusedLoss)) all.push_back({{{{kFusedLoss, std::nullopt}}}});
  all.push_back({smaller_microbatches(settings)});
  all.push_back({more_modules(scenario)});
  std::ranges::move(full_recomputation(settings), std::back_inserter(all));
  for (const char* chunks : {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"})
    if (settings.has(chunks)) all.push_back({{{{chunks, std::nullopt}}}});
  all.push_back({.steps = more_pipeline_ranks(settings), .takes_ranks = true});
  all.push_back({.steps = more_ranks(settings, kContext), .takes_ranks = true});
  all.push_back({.steps = more_tensor_ranks(settings), .takes_ranks = true});
  all.push_back({.steps = tensor_for_context_ranks(settings), .takes_ranks = true});
  if (has_experts(settings)) all.push_back({.steps = more_ranks(settings, kExpert), .takes_ranks = true});
  if (!is_bf16(settings) && !settings.flag("fp16")) all.push_back({{{{kBf16, "true"}}}});
  all.push_back({narrower_states(scenario, true)});
  return all;
}

bool share_an_option(const Changes& a, const Changes& b) {
  return std::ranges::any_of(a, [&](const Change& one) {
    return std::ranges::any_of(b, [&](const Change& other) {
      return std::string_view(one.option) == other.option && one.value != other.value;
    });
  });
}

}  // namespace verify
