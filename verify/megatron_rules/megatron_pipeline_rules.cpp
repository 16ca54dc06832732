#include <fmt/ranges.h>

#include "verify/megatron_rules/megatron_rule.h"

namespace verify::megatron {

namespace {

constexpr const char* kLayersOfChunk = "num-layers-per-virtual-pipeline-stage";

MaybeBreak several_chunk_options(const Settings& s) {
  std::vector<std::string> given;
  for (const char* option : {"virtual-pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage",
                             "num-virtual-stages-per-pipeline-rank", "pipeline-model-parallel-layout"}) {
    if (s.has(option)) given.push_back(fmt::format("--{}", option));
  }
  const bool agree = given.size() == 2 && s.has("virtual-pipeline-model-parallel-size") &&
                     s.has("pipeline-model-parallel-layout");  // the layout is held against the number
  return broken_if(given.size() > 1 && !agree, fmt::format("{}", fmt::join(given, ", ")), "one of them");
}

/// Returns the option that gives the first or the last rank layers of its own; null where none does.
const char* uneven_option(const Settings& s) {
  for (const char* option : {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"})
    if (s.has(option)) return option;
  return nullptr;
}

MaybeBreak uneven_stages_of_layers(const Settings& s) {
  const char* uneven = uneven_option(s);
  return broken_if(s.has("num-layers-per-virtual-pipeline-stage") && uneven != nullptr,
                   fmt::format("with --{}", uneven == nullptr ? "" : uneven),
                   "--num-virtual-stages-per-pipeline-rank");
}

/// The layers of a model with what else counts as a layer, where layers for each chunk are given.
std::optional<std::int64_t> places_of_chunks(const Settings& s) {
  const auto layers = s.number("num-layers");
  if (!layers || !s.has("num-layers-per-virtual-pipeline-stage") || uneven_option(s) != nullptr)
    return std::nullopt;
  return *layers + (s.flag("account-for-embedding-in-pipeline-split") ? 1 : 0) +
         (s.flag("account-for-loss-in-pipeline-split") ? 1 : 0);
}

MaybeBreak chunks_of_undivided_stages(const Settings& s) {
  const auto places = places_of_chunks(s);
  if (!places || *places % pp_of(s) != 0) return std::nullopt;
  const std::int64_t of_rank = *places / pp_of(s);
  const std::int64_t of_chunk = *s.number("num-layers-per-virtual-pipeline-stage");
  return broken_if(of_rank % of_chunk != 0,
                   fmt::format("{} layers (or places) of a rank in chunks of {}", of_rank, of_chunk),
                   "a number that divides the layers of a rank");
}

}  // namespace

/// The rules about the chunks of a pipeline rank.
std::vector<Rule> pipeline_rules() {
  return {
      {"vpp_more_than_one_flag",
       {kLayersOfChunk, "num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size",
        "pipeline-model-parallel-layout"},
       several_chunk_options,
       "one option says how many chunks a rank holds"},
      {"uneven_with_layers_per_vp",
       {kLayersOfChunk},
       uneven_stages_of_layers,
       "layers of a chunk are not given where the first or the last rank has layers of its own"},
      {"layers_per_stage_vp",
       {kLayersOfChunk, "num-layers", kPp},
       chunks_of_undivided_stages,
       "every chunk of a pipeline rank has as many layers"},
  };
}

}  // namespace verify::megatron
