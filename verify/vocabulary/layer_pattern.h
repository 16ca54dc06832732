#pragma once

/// Which layers have experts, as --moe-layer-freq says: a number N (every N-th layer, the first included), or
/// a list of 0 and 1 in Python's spelling, one entry a layer, such as "[0]*3+[1]*58" or "([1]*3+[0])*2". The
/// layers of a sliding window are told by such a pattern too (attention_window.h).
///
/// A hybrid pattern has Mamba (M), attention (*), MLP (-), expert (E) and other layers: "M-M*|M-M*/MM" has
/// two segments of four layers, and one depth of multi-token prediction. A pipeline layout is a string, or a
/// list of lists of layer names, which is written as JSON here: [["embedding", "decoder"], ["decoder",
/// "loss"]].
///
/// Errors  layer_pattern: a text that is neither, a number below 1, or a list of more than 2^20 entries;
///         layout_syntax: a layout in list form that is not a list of lists of layer names.

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

}  // namespace verify
