#pragma once

/// The buckets of a gradient buffer, computed without sim/optimizer: which parameters share a bucket, and how
/// many elements its ranks reduce.
///
/// Shapes  sizes are elements; parameters are numbered in the order of the model, and lie in the buffer in
///         the reverse order.
/// Exact   with the distributed optimizer a parameter begins at a multiple of 64 elements, a bucket ends at a
///         multiple of 128 and of the number of owners, and a weight that two stages share lies in a bucket
///         of its own.
/// Source  Megatron-LM, _ParamAndGradBuffer.__init__.

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace verify::reference {

struct BufferSetting {
  std::int64_t owners = 1;
  std::optional<std::int64_t> bucket_size;  // none: one bucket
  bool distributed_optimizer = true;
};

struct GradientParameter {
  std::int64_t elements = 0;
  bool is_shared = false;  // tied to a weight of another stage
};

struct GradientBucket {
  std::int64_t elements = 0;    // with the padding at its end
  std::vector<int> parameters;  // the last of the model first
};

inline std::vector<GradientBucket> gradient_buckets(const std::vector<GradientParameter>& parameters,
                                                    const BufferSetting& setting) {
  const bool pads = setting.distributed_optimizer;
  const std::int64_t end_multiple = pads ? std::lcm<std::int64_t>(128, setting.owners) : 1;
  const auto up_to_multiple = [](std::int64_t n, std::int64_t of) { return n + (of - n % of) % of; };
  const auto stands_alone = [&](int i) { return pads && parameters[static_cast<std::size_t>(i)].is_shared; };
  std::vector<GradientBucket> buckets;
  // A bucket begins at a multiple of 64, so places are counted from the bucket's own beginning.
  int next = static_cast<int>(parameters.size()) - 1;
  while (next >= 0) {
    GradientBucket bucket;
    std::int64_t end = 0;
    bool is_full = false;
    while (next >= 0 && !is_full && (bucket.parameters.empty() || !stands_alone(next))) {
      if (pads) end = up_to_multiple(end, 64);
      end += parameters[static_cast<std::size_t>(next)].elements;
      bucket.parameters.push_back(next);
      is_full = stands_alone(next) || (setting.bucket_size && end >= *setting.bucket_size);
      --next;
    }
    bucket.elements = up_to_multiple(end, end_multiple);
    buckets.push_back(bucket);
  }
  return buckets;
}

}  // namespace verify::reference
