// Proves for drawn parameters where each of them lies in a gradient buffer, and that every element has
// exactly one owner.

#include "sim/optimizer/buffer_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "sim/optimizer/range_map.h"

namespace {

using namespace sim;

struct DrawnBuffer {
  std::vector<BufferParameter> parameters;
  BufferConfig config;
};

DrawnBuffer drawn() {
  DrawnBuffer result;
  const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 300));
  for (const int size : sizes) result.parameters.push_back({size, *rc::gen::inRange(0, 6) == 0});
  result.config.owners = *rc::gen::inRange(1, 17);
  result.config.distributed_optimizer = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) result.config.bucket_size = *rc::gen::inRange(1, 400);
  return result;
}

RC_GTEST_PROP(BufferLayout, ParametersLieInReverseAndApart, ()) {
  const auto [parameters, config] = drawn();
  const BufferLayout layout = buffer_layout(parameters, config);
  std::int64_t next = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const PlacedParameter& placed = layout.parameters[i];
    RC_ASSERT(placed.range.size() == parameters[i].elements);
    RC_ASSERT(placed.range.begin >= next);
    const ElementRange& bucket = layout.buckets[static_cast<std::size_t>(placed.bucket)].range;
    RC_ASSERT(placed.range.begin >= bucket.begin && placed.range.end <= bucket.end);
    if (config.distributed_optimizer) RC_ASSERT(placed.range.begin % 64 == 0);
    next = placed.range.end;
  }
}

RC_GTEST_PROP(BufferLayout, BucketsFollowOneAnotherAndHaveTheirParameters, ()) {
  const auto [parameters, config] = drawn();
  const BufferLayout layout = buffer_layout(parameters, config);
  std::int64_t next = 0;
  int last = static_cast<int>(parameters.size());
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    RC_ASSERT(bucket.range.begin == next);
    RC_ASSERT(bucket.range.size() % bucket_multiple(config) == 0);
    RC_ASSERT(bucket.numel_unpadded <= bucket.range.size());
    RC_ASSERT(bucket.range.size() - bucket.numel_unpadded < bucket_multiple(config));
    RC_ASSERT(!bucket.parameters.empty());
    for (const int parameter : bucket.parameters) {
      RC_ASSERT(parameter == --last);
      RC_ASSERT(layout.parameters[static_cast<std::size_t>(parameter)].bucket == static_cast<int>(b));
      const bool is_alone =
          config.distributed_optimizer && parameters[static_cast<std::size_t>(parameter)].shared_embedding;
      if (is_alone) RC_ASSERT(bucket.parameters.size() == 1U);
    }
    next = bucket.range.end;
  }
  RC_ASSERT(last == 0);
  RC_ASSERT(layout.numel() == next);
}

RC_GTEST_PROP(RangeMap, EveryElementIsOwnedOnce, ()) {
  auto [parameters, config] = drawn();
  config.distributed_optimizer = true;
  const BufferLayout layout = buffer_layout(parameters, config);
  std::vector<std::vector<int>> owners;
  for (const BufferParameter& parameter : parameters)
    owners.emplace_back(static_cast<std::size_t>(parameter.elements), 0);
  for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket) {
    const ElementRange& whole = layout.buckets[static_cast<std::size_t>(bucket)].range;
    for (int rank = 0; rank < config.owners; ++rank) {
      const ElementRange own = owned_range(layout, bucket, rank);
      RC_ASSERT(own.size() * config.owners == whole.size());
      for (const OwnedPiece& piece : owned_pieces(layout, bucket, rank)) {
        const ElementRange& placed = layout.parameters[static_cast<std::size_t>(piece.parameter)].range;
        RC_ASSERT(piece.world.size() > 0);
        RC_ASSERT(piece.world.begin >= own.begin && piece.world.end <= own.end);
        RC_ASSERT(piece.world_in_bucket ==
                  (ElementRange{piece.world.begin - whole.begin, piece.world.end - whole.begin}));
        RC_ASSERT(piece.local == (ElementRange{piece.world.begin - own.begin, piece.world.end - own.begin}));
        RC_ASSERT(piece.param ==
                  (ElementRange{piece.world.begin - placed.begin, piece.world.end - placed.begin}));
        for (std::int64_t i = piece.param.begin; i < piece.param.end; ++i)
          ++owners[static_cast<std::size_t>(piece.parameter)][static_cast<std::size_t>(i)];
      }
    }
  }
  for (const auto& of_parameter : owners) {
    for (const int count : of_parameter) RC_ASSERT(count == 1);
  }
}

TEST(RangeMap, KnowsItsBucketsAndRanks) {
  const BufferLayout layout = buffer_layout({{10}}, {.owners = 2});
  for (const auto& [bucket, rank] : {std::pair(1, 0), {-1, 0}, {0, 2}, {0, -1}}) {
    try {
      owned_pieces(layout, bucket, rank);
      FAIL() << bucket << " " << rank;
    } catch (const Error& error) {
      EXPECT_EQ(error.refusal().code, std::string("range_map"));
    }
  }
}

}  // namespace
