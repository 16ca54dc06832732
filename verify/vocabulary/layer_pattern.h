#pragma once

/// Which layers have experts, as --moe-layer-freq says: a number N (every N-th layer, the first included), or
/// a list of 0 and 1 in Python's spelling, one entry a layer, such as "[0]*3+[1]*58" or "([1]*3+[0])*2". The
/// layers of a sliding window are told by such a pattern too (attention_window.h).
///
/// Errors  layer_pattern: a text that is neither, a number below 1, or a list of more than 2^20 entries.

#include <cstdint>
#include <string>
#include <vector>

namespace verify {

/// A list with an entry for each layer, or the N of every N-th layer.
struct LayerPattern {
  std::int64_t every = 0;             // 0 if a list is given
  std::vector<std::int64_t> entries;  // empty if a number is given
};

LayerPattern parse_layer_pattern(const std::string& text, const char* option = "--moe-layer-freq");

/// Whether the layer of this number has experts; a layer after those of the list has none.
bool has_experts(const LayerPattern& pattern, std::int64_t layer);

/// Returns how many of the model's first layers have experts.
std::int64_t layers_with_experts(const LayerPattern& pattern, std::int64_t layers);

/// Whether the pattern leaves layers without experts.
bool leaves_dense_layers(const LayerPattern& pattern);

}  // namespace verify
