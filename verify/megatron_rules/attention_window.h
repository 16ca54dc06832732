#pragma once

/// The sliding window of attention, as --window-size L,R and --window-attn-skip-freq say: a token sees the L
/// tokens before it, and itself. Attention is causal, so that R changes nothing. Every N-th layer sees all
/// tokens before each, or those do whose entry in a list is 0.
///
/// Exact   -1,-1 and -1,0 are no window. A number N counts layers from 1, so that 1 leaves no layer a window.
/// Errors  window_size: a text that is not two whole numbers, or a pair that Transformer Engine does not take
///         with a causal mask; layer_pattern; window_layers: a list with fewer entries than layers.
/// Source  Megatron-LM, core/transformer/utils.py (is_layer_window_attention, get_sliding_window_causal_mask)
///         and core/fusions/fused_softmax.py; TransformerEngine, utils.py
///         (check_set_window_size).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/layout/layer_pattern.h"

namespace verify {

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
