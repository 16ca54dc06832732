#include "sim/optimizer/range_map.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

namespace {

ElementRange moved(const ElementRange& range, std::int64_t origin) {
  return {range.begin - origin, range.end - origin};
}

void check(const BufferLayout& layout, int bucket, int rank) {
  const auto buckets = static_cast<int>(layout.buckets.size());
  if (bucket >= 0 && bucket < buckets && rank >= 0 && rank < layout.config.owners) return;
  refuse(
      {.code = "range_map",
       .option = "range map",
       .numbers = fmt::format("bucket {} of {}, rank {} of {}", bucket, buckets, rank, layout.config.owners),
       .rule = "buckets and ranks count from 0, and are below their number",
       .hint = "a bucket of the layout, and a rank that owns a part of it"});
}

}  // namespace

ElementRange owned_range(const BufferLayout& layout, int bucket, int rank) {
  check(layout, bucket, rank);
  const ElementRange& range = layout.buckets[static_cast<std::size_t>(bucket)].range;
  const std::int64_t part = range.size() / layout.config.owners;
  return {range.begin + rank * part, range.begin + (rank + 1) * part};
}

std::vector<OwnedPiece> owned_pieces(const BufferLayout& layout, int bucket, int rank) {
  const ElementRange own = owned_range(layout, bucket, rank);
  const Bucket& of = layout.buckets[static_cast<std::size_t>(bucket)];
  const auto placed = [&](int parameter) -> const ElementRange& {
    return layout.parameters[static_cast<std::size_t>(parameter)].range;
  };
  std::vector<OwnedPiece> pieces;
  // Parameters lie in order, so a binary search finds the first one that ends after the part begins.
  auto next = std::partition_point(of.parameters.begin(), of.parameters.end(),
                                   [&](int parameter) { return placed(parameter).end <= own.begin; });
  for (; next != of.parameters.end() && placed(*next).begin < own.end; ++next) {
    const ElementRange& whole = placed(*next);
    const ElementRange world = {std::max(whole.begin, own.begin), std::min(whole.end, own.end)};
    if (world.size() <= 0) continue;
    pieces.push_back(
        {*next, world, moved(world, of.range.begin), moved(world, own.begin), moved(world, whole.begin)});
  }
  return pieces;
}

}  // namespace sim
