#pragma once

/// The layout of a gradient buffer: where each parameter lies, and where the buffer is cut into buckets. A
/// bucket is the unit that data-parallel ranks reduce.
///
/// Shapes  in elements. Parameters lie in reverse order of the model, because backward completes gradients
///         from the last layer to the first, and so fills one bucket after another.
/// Calls   Without the distributed optimizer, parameters lie without gaps, and a bucket ends with the
///         parameter that fills it. With it, a parameter starts at a multiple of 64, and a bucket ends at a
///         multiple of lcm(D, 128), where D ranks own it, or of lcm(D, 128, 65536) for high NCCL bus
///         bandwidth; a shared embedding has its own bucket.
/// Errors  buffer_sizes: a negative size, a bucket size or number of ranks below 1, or more than 2^60
///         elements.
/// Exact   numel_unpadded of a bucket counts the gaps between its parameters, and the gap before a shared
///         embedding that closes the bucket, but not the padding at its end.
/// Source  Megatron-LM, _ParamAndGradBuffer.

#include <cstdint>
#include <optional>
#include <vector>

namespace sim {

struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

struct BufferParameter {
  std::int64_t elements = 0;
  bool shared_embedding = false;  // tied to the embedding weight of another stage
};

struct BufferConfig {
  int owners = 1;                           // D: the ranks that each own a part of a bucket
  std::optional<std::int64_t> bucket_size;  // elements that fill a bucket; none: one bucket for everything
  bool distributed_optimizer = true;
  bool pad_for_high_nccl_busbw = false;
};

struct PlacedParameter {
  ElementRange range;  // in the buffer
  int bucket = 0;
};

struct Bucket {
  ElementRange range;
  std::int64_t numel_unpadded = 0;
  std::vector<int> parameters;  // their numbers in the model, in the order in which they lie in the buffer
};

struct BufferLayout {
  BufferConfig config;
  std::vector<PlacedParameter> parameters;  // in the order of the model, not of the buffer
  std::vector<Bucket> buckets;
  std::int64_t numel() const { return buckets.empty() ? 0 : buckets.back().range.end; }
};

BufferLayout buffer_layout(const std::vector<BufferParameter>& parameters, const BufferConfig& config);

/// The end of a bucket is padded to a multiple of this number, which is 1 without the distributed optimizer.
std::int64_t bucket_multiple(const BufferConfig& config);

}  // namespace sim
