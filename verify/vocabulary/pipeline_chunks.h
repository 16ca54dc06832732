#pragma once

/// How many chunks a pipeline rank holds, from the options and arguments that say it: a number of chunks, the
/// layers of a chunk, a pipeline layout, or the segments of a hybrid pattern.
///
/// Exact   Whole numbers are divided as Megatron divides them, also where the division has a remainder. The
///         stages of a layout, or the segments of a pattern, that do not divide into the ranks say nothing,
///         and neither does a layout that cannot be read: others refuse them.
/// Source  Megatron-LM, training/arguments.py.

#include <cstdint>
#include <optional>
#include <string>

#include "verify/vocabulary/derived_options.h"

namespace verify {

/// Returns the chunks of each of these ranks by the stages of a layout, or else by the segments of a pattern.
std::optional<std::int64_t> chunks_of_stages(const std::string& layout, const std::string& pattern,
                                             std::int64_t ranks);

/// Returns the chunks of a pipeline rank, as options (settings.h) or the arguments of a run say
/// (rule_facts.h); nothing without interleaving.
template <typename Values>
std::optional<std::int64_t> chunks_of_rank(const Values& values) {
  const auto number = [&](const char* name) -> std::optional<std::int64_t> { return values.number(name); };
  const std::int64_t ranks = number("pipeline-model-parallel-size").value_or(1);
  const std::string layout = values.text("pipeline-model-parallel-layout", "");
  const std::string pattern = values.text("hybrid-layer-pattern", values.text("hybrid-override-pattern", ""));
  std::optional<std::int64_t> chunks = number("virtual-pipeline-model-parallel-size");
  if (!chunks && layout.empty()) {
    if (const auto layers = number("num-layers-per-virtual-pipeline-stage")) {
      auto places = number("num-layers");
      if (!places) places = number("encoder-num-layers");
      for (const char* place :
           {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"})
        if (places && values.flag(place)) ++*places;
      chunks = floored(floored(places, ranks), layers);
      return chunks == std::int64_t{1} ? std::nullopt : chunks;
    }
    chunks = number("num-virtual-stages-per-pipeline-rank");
  }
  if (!chunks) chunks = chunks_of_stages(layout, pattern, ranks);
  return chunks == std::int64_t{1} ? std::nullopt : chunks;
}

}  // namespace verify
