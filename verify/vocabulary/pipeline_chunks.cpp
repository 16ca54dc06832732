#include "verify/vocabulary/pipeline_chunks.h"

#include "sim/base/error.h"
#include "sim/layout/layer_layout.h"
#include "verify/vocabulary/floored.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/layout_list.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;

/// Returns the parts of each rank; nothing where they do not divide.
Number of_each_rank(std::int64_t parts, Number ranks) {
  return ranks && *ranks > 0 && parts % *ranks == 0 ? Number(parts / *ranks) : std::nullopt;
}

Number stages_of(const std::string& layout) {
  try {
    return sim::stages_of_layout(layout_string(layout));
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

Number given_chunks(const ChunkArguments& a) {
  if (a.chunks) return a.chunks;
  if (!a.layout.empty()) {
    const Number stages = stages_of(a.layout);
    return stages ? of_each_rank(*stages, a.ranks) : std::nullopt;
  }
  if (a.layers_of_chunk) return floored(floored(a.places, a.ranks), a.layers_of_chunk);
  if (a.chunks_of_rank) return a.chunks_of_rank;
  const std::int64_t segments = std::ssize(parse_hybrid_pattern(a.pattern).segments);
  return segments > 1 ? of_each_rank(segments, a.ranks) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> chunks_of_rank(const ChunkArguments& arguments) {
  const Number chunks = given_chunks(arguments);
  return chunks == std::int64_t{1} ? std::nullopt : chunks;
}

}  // namespace verify
