#include "sim/comm/reduction_order.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace sim {

namespace {

/// The chunk of an all_reduce over one channel, in bytes. The buffer has 4 MiB, a step is an eighth of the
/// buffer, and a chunk is four steps.
constexpr std::int64_t kRingChunkBytes = std::int64_t{2} << 20;
/// The size of the last, smaller chunks is a multiple of this number of bytes.
constexpr std::int64_t kRingGrainBytes = 16;

std::vector<FoldSegment> all_reduce_ring(std::int64_t count, std::int64_t n, std::int64_t element_bytes) {
  std::vector<FoldSegment> segments;
  const std::int64_t full_chunk = kRingChunkBytes / element_bytes;
  const std::int64_t grain = std::max<std::int64_t>(kRingGrainBytes / element_bytes, 1);
  for (std::int64_t loop = 0; loop < count; loop += n * full_chunk) {
    const std::int64_t left = count - loop;
    const std::int64_t even = (left + n - 1) / n;
    const std::int64_t chunk = left >= n * full_chunk ? full_chunk : (even + grain - 1) / grain * grain;
    for (std::int64_t place = 0; place < n && place * chunk < left; ++place) {
      const std::int64_t begin = loop + place * chunk;
      segments.push_back(
          {begin, std::min(begin + chunk, loop + std::min(left, n * full_chunk)), (place + 1) % n});
    }
  }
  return segments;
}

std::vector<int> shuffled_places(std::uint64_t seed, const Call& call, const ProcessGroup& group) {
  const KeyedRandom random =
      KeyedRandom(seed).named(fmt::format("{}[{}] {}", group.kind, group.index, call.sequence));
  std::vector<int> places(static_cast<std::size_t>(group.size()));
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t last = places.size(); last > 1; --last) {
    std::swap(places[last - 1], places[random.below(last, static_cast<std::uint32_t>(last))]);
  }
  return places;
}

}  // namespace

FoldPlan fold_plan(const ReductionOrder& order, const Call& call, const ProcessGroup& group, int finisher) {
  const std::int64_t n = group.size();
  switch (order.kind) {
    case ReductionOrderKind::rank_order:
      break;
    case ReductionOrderKind::nccl_ring:
      if (call.operation == Operation::all_reduce) {
        return {{}, all_reduce_ring(call.count, n, size_of(call.dtype))};
      }
      return {{}, {{0, call.count, (finisher + 1) % n}}};
    case ReductionOrderKind::shuffled:
      return {shuffled_places(order.seed, call, group), {{0, call.count, 0}}};
  }
  return {{}, {{0, call.count, 0}}};
}

}  // namespace sim
