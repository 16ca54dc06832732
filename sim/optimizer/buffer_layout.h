#pragma once

/// Where parameters lie in a gradient buffer, and where it is cut into buckets: the unit in which
/// data-parallel ranks reduce.
///
/// Shapes  elements. Parameters lie in reverse order: gradients arrive from the last layer to the first, and
///         fill buckets so.
/// Calls   without the distributed optimizer: one after another, a bucket closes at the parameter that fills
///         it. With it: a parameter starts at a multiple of 64, a bucket ends at a multiple of lcm(D, 128), D
///         the ranks that own it, or of lcm(D, 128, 65536) for high NCCL bus bandwidth; a shared embedding
///         has a bucket of its own.
/// Errors  buffer_sizes: a negative size, a bucket size or ranks below 1, more elements than fit into 2^62.
/// Exact   numel_unpadded of a bucket has the gaps between its parameters, and the one before a shared
///         embedding that closes it, but not what pads its end.
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
  bool shared_embedding = false;  // tied to one of another stage
};

struct BufferConfig {
  int owners = 1;                           // D: ranks that share a bucket
  std::optional<std::int64_t> bucket_size;  // none: one bucket
  bool distributed_optimizer = true;
  bool pad_for_high_nccl_busbw = false;
};

struct PlacedParameter {
  ElementRange range;  // of the buffer
  int bucket = 0;
};

struct Bucket {
  ElementRange range;
  std::int64_t numel_unpadded = 0;
  std::vector<int> parameters;  // by place in the model, the order in which they lie
};

struct BufferLayout {
  BufferConfig config;
  std::vector<PlacedParameter> parameters;  // in the order of the model
  std::vector<Bucket> buckets;
  std::int64_t numel() const { return buckets.empty() ? 0 : buckets.back().range.end; }
};

BufferLayout buffer_layout(const std::vector<BufferParameter>& parameters, const BufferConfig& config);

/// What a bucket's end is padded to: 1 without the distributed optimizer.
std::int64_t bucket_multiple(const BufferConfig& config);

}  // namespace sim
