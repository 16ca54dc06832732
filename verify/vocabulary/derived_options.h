#pragma once

/// Sizes that follow from several options, and the options that they need. How many chunks a pipeline rank
/// holds is said by a number of chunks, the layers of a chunk, a pipeline layout, or the segments of a hybrid
/// pattern.
///
/// Exact   Whole numbers are divided as Megatron divides them, also where the division has a remainder. The
///         stages of a layout, or the segments of a pattern, that do not divide into the ranks say nothing,
///         and neither does a layout that cannot be read: others refuse them.
/// Errors  missing_option: a required option was not given.
/// Source  Megatron-LM, training/arguments.py.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace verify {

class Settings;

/// Returns the value of an option, and refuses its absence.
std::int64_t required_number(const Settings& settings, const std::string& name);

/// Returns the options that model_shape() requires and that are not given.
std::vector<std::string> missing_of_model_shape(const Settings& settings);

/// Returns the chunks that a pipeline rank holds, from the one option that gives them; nothing for a pipeline
/// that does not interleave. For Megatron's own options, one chunk is no interleaving. If the layers of a
/// chunk are given, the divisions are rounded down; megatron_validation.h refuses those with a remainder.
std::optional<std::int64_t> virtual_pipeline_size(const Settings& settings);

/// Returns the key and value heads; nothing where neither they nor the attention heads are given.
std::optional<std::int64_t> query_groups(const Settings& settings);

/// Returns the columns of the MLP, F; nothing where neither it nor the hidden size is given.
std::optional<std::int64_t> ffn_hidden_size(const Settings& settings);

/// Returns the quotient as Python divides whole numbers, rounded towards minus infinity; nothing where a
/// number is not known, and for a division by zero.
std::optional<std::int64_t> floored(std::optional<std::int64_t> dividend,
                                    std::optional<std::int64_t> divisor);

/// Returns the product; nothing if a factor is not known or the product does not fit into 64 bits.
std::optional<std::int64_t> product_of(std::initializer_list<std::optional<std::int64_t>> factors);

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
