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

namespace verify {

/// What says how many chunks there are. Absent values were not given.
struct ChunkArguments {
  std::optional<std::int64_t> ranks;            // of the pipeline
  std::optional<std::int64_t> chunks;           // --virtual-pipeline-model-parallel-size
  std::optional<std::int64_t> chunks_of_rank;   // --num-virtual-stages-per-pipeline-rank
  std::optional<std::int64_t> layers_of_chunk;  // --num-layers-per-virtual-pipeline-stage
  std::optional<std::int64_t> places;           // layers, with an embedding and a loss that count as layers
  std::string layout;                           // "" without one
  std::string pattern;                          // "" without one
};

/// Returns the chunks of a pipeline rank; nothing without interleaving.
std::optional<std::int64_t> chunks_of_rank(const ChunkArguments& arguments);

/// Does the same for options (settings.h) or for the arguments of a run (run_values.h).
template <typename Values>
std::optional<std::int64_t> chunks_of_rank(const Values& values) {
  const auto number = [&](const char* name) -> std::optional<std::int64_t> { return values.number(name); };
  const auto counts = [&](const char* name) { return values.flag(name) ? 1 : 0; };
  std::optional<std::int64_t> places = number("num-layers");
  if (!places) places = number("encoder-num-layers");
  if (places) {
    *places +=
        counts("account-for-embedding-in-pipeline-split") + counts("account-for-loss-in-pipeline-split");
  }
  return chunks_of_rank(ChunkArguments{
      .ranks = number("pipeline-model-parallel-size").value_or(1),
      .chunks = number("virtual-pipeline-model-parallel-size"),
      .chunks_of_rank = number("num-virtual-stages-per-pipeline-rank"),
      .layers_of_chunk = number("num-layers-per-virtual-pipeline-stage"),
      .places = places,
      .layout = values.text("pipeline-model-parallel-layout", ""),
      .pattern = values.text("hybrid-layer-pattern", values.text("hybrid-override-pattern", ""))});
}

}  // namespace verify
