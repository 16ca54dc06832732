#pragma once

/// Which layers of a model have something, as --moe-layer-freq says of experts: every N-th layer, the first
/// one included, or those whose entry in a list is not 0. With --window-attn-skip-freq every N-th layer, the
/// first of which is the N-th one, has no window of attention.
///
/// Exact   A layer after those of a list has nothing.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

namespace sim {

/// A list with an entry for each layer, or the N of every N-th layer.
struct LayerPattern {
  std::int64_t every = 1;                  // not read if a list is given
  std::vector<std::int64_t> entries = {};  // empty if a number is given

  bool has(std::int64_t layer) const {
    if (entries.empty()) return layer % every == 0;
    return layer < std::ssize(entries) && entries[static_cast<std::size_t>(layer)] != 0;
  }
  /// Returns how many of the model's first layers have it.
  std::int64_t count(std::int64_t layers) const {
    if (entries.empty()) return (layers + every - 1) / every;
    const auto listed = std::min<std::int64_t>(layers, std::ssize(entries));
    return listed - std::count(entries.begin(), entries.begin() + listed, 0);
  }
  /// Whether some layers do not have it.
  bool leaves_layers_out() const {
    return entries.empty() ? every > 1 : std::ranges::find(entries, 0) != entries.end();
  }
  bool operator==(const LayerPattern&) const = default;
};

/// A sliding window of causal attention: a token sees this many before it, and itself.
struct AttentionWindow {
  std::int64_t size = -1;                                     // -1: no layer has a window
  std::optional<LayerPattern> attn_skip_freq = std::nullopt;  // nothing: all layers have it

  bool is_in(std::int64_t layer) const {
    if (size < 0 || !attn_skip_freq) return size >= 0;
    const LayerPattern& pattern = *attn_skip_freq;
    return pattern.entries.empty() ? (layer + 1) % pattern.every != 0 : pattern.has(layer);
  }
};

}  // namespace sim
