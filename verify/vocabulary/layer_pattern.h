#pragma once

/// Which layers have experts, as --moe-layer-freq says: a number N (every N-th layer, the first included), or
/// a list of 0 and 1 in Python's spelling, one entry a layer, such as "[0]*3+[1]*58" or "([1]*3+[0])*2".
///
/// A sliding window of attention has --window-size L,R and such a pattern, --window-attn-skip-freq: a token
/// sees the L tokens before it, and itself. Attention is causal, so that R changes nothing. Every N-th layer
/// sees all tokens before each, or those do whose entry in a list is 0.
///
/// A hybrid pattern has Mamba (M), attention (*), MLP (-), expert (E) and other layers: "M-M*|M-M*/MM" has
/// two segments of four layers, and one depth of multi-token prediction. A pipeline layout is a string, or a
/// list of lists of layer names, which is written as JSON here: [["embedding", "decoder"], ["decoder",
/// "loss"]].
///
/// Exact   Windows of -1,-1 and -1,0 are none. Their number N counts layers from 1, so that 1 leaves no layer
///         a window.
/// Errors  layer_pattern: a text that is neither, a number below 1, or a list of more than 2^20 entries;
///         layout_syntax: a layout in list form that is not a list of lists of layer names; window_size: a
///         text that is not two whole numbers, or a pair that Transformer Engine does not take with a causal
///         mask; window_layers: a list with fewer entries than layers.
/// Source  Megatron-LM, core/transformer/utils.py (is_layer_window_attention, get_sliding_window_causal_mask)
///         and core/fusions/fused_softmax.py; TransformerEngine, utils.py (check_set_window_size).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/layer_pattern.h"

namespace verify {

sim::LayerPattern parse_layer_pattern(const std::string& text, const char* option = "--moe-layer-freq");

struct HybridPattern {
  std::vector<std::string> segments;     // of the layers of the model; empty without a pattern
  std::vector<std::string> predictions;  // the layers of each depth of multi-token prediction
  std::int64_t layers() const;
};

/// Whether an argument of this name gives the pattern.
inline bool is_hybrid_pattern(std::string_view argument) {
  return argument == "hybrid-layer-pattern" || argument == "hybrid-override-pattern";
}

HybridPattern parse_hybrid_pattern(const std::string& text);

/// Converts a layout in list form to the string form. Other text is returned as it is.
std::string layout_string(const std::string& text);

/// Reads what the options say; of absent ones nothing.
sim::AttentionWindow attention_window(std::optional<std::string> size, std::optional<std::string> layers,
                                      std::optional<std::int64_t> num_layers);

/// Does the same for options (settings.h) or for what a rule sees (rule_facts.h).
template <typename Values>
sim::AttentionWindow attention_window(const Values& values) {
  const auto text = [&](const char* name) {
    return values.has(name) ? std::optional(values.text(name, "")) : std::nullopt;
  };
  return attention_window(text("window-size"), text("window-attn-skip-freq"), values.number("num-layers"));
}

/// The two numbers of --window-size; nothing where the text is no pair.
struct WindowPair {
  std::int64_t left, right;
};
std::optional<WindowPair> window_pair(std::string_view text);

}  // namespace verify
