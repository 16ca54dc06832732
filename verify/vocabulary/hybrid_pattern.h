#pragma once

/// A pattern of Mamba (M), attention (*), MLP (-), expert (E) and other layers, as --hybrid-layer-pattern
/// gives it: "M-M*|M-M*/MM" has two segments of four layers, and one depth of multi-token prediction.
///
/// Exact   Segments go to the chunks of the pipeline ranks in turn. A pattern of one segment is cut evenly,
///         or as the numbers of layers at its ends say.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

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

/// The numbers of layers that the first and the last rank are given, where they are.
struct GivenEnds {
  std::optional<std::int64_t> first, last;
};

/// Returns the layers of each chunk of each pipeline rank; empty where they do not divide.
std::vector<std::vector<std::int64_t>> layers_of_ranks(const HybridPattern& pattern, std::int64_t ranks,
                                                       const GivenEnds& ends);

}  // namespace verify
