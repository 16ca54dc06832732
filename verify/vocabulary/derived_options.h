#pragma once

/// Sizes that follow from several options, and the options that they need. How many chunks a pipeline rank
/// holds is said by a number of chunks, the layers of a chunk, a pipeline layout, or the segments of a hybrid
/// pattern. The bytes that training keeps for one element of a parameter follow from the options about
/// dtypes.
///
/// Shapes  Parameters are in bf16 unless --fp16 is given, or --bf16=false, which alone makes them fp32. Their
///         gradients have the same dtype unless they are accumulated and reduced in fp32. Adam keeps a main
///         parameter in fp32, unless the parameter itself is fp32, two moments, and a copy in fp32 of a
///         gradient of 16 bits. The precision-aware optimizer has dtypes of its own, and copies no gradient.
///         Beside a parameter in bf16 it keeps only the other 16 bits of a main parameter in fp32.
/// Exact   Whole numbers are divided as Megatron divides them, also where the division has a remainder. The
///         stages of a layout, or the segments of a pattern, that do not divide into the ranks say nothing,
///         and neither does a layout that cannot be read: others refuse them. The scales of 8-bit moments are
///         not counted.
/// Errors  missing_option: a required option was not given.
/// Source  Megatron-LM: its manual of the distributed optimizer (4 + 16/d, 6 + 12/d and 8 + 8/d bytes, where
///         d ranks share the states), training/arguments.py, core/optimizer,
///         core/tokenizers/utils/build_tokenizer.py (vocab_size_with_padding); Transformer Engine, FusedAdam.

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

struct StateBytes {
  std::int64_t parameter = 2;  // also those of an element of an activation
  std::int64_t gradient = 4;
  std::int64_t optimizer = 12;
  std::int64_t main = 4;             // those of `optimizer` that are a main parameter
  std::int64_t copied_gradient = 0;  // those of `optimizer` that are a copy of a gradient in fp32
  std::string dtypes = "bf16";       // in words
  bool is_distributed = true;        // ZeRO-1 shares the states
  bool has_known_optimizer = true;   // otherwise no bytes of the optimizer are counted
};

StateBytes state_bytes(const Settings& settings);

/// Whether the settings count parameters of bf16.
bool is_bf16(const Settings& settings);

/// The rows of a rank are a multiple of this unless --make-vocab-size-divisible-by is given.
inline constexpr std::int64_t kVocabularyDivisor = 128;

/// Returns the next multiple of divisor * tp; nothing where that is below 1, or too large a number.
inline std::optional<std::int64_t> padded_vocabulary(std::int64_t vocabulary, std::int64_t tp,
                                                     std::int64_t divisor) {
  std::int64_t multiple = 0, padded = 0;
  if (__builtin_mul_overflow(divisor, tp, &multiple) || multiple < 1) return std::nullopt;
  if (__builtin_add_overflow(vocabulary, multiple - 1, &padded)) return std::nullopt;
  return padded / multiple * multiple;
}

}  // namespace verify
