// Proves that a checkpoint's order of the elements of a parameter is that in which its parts hold them: each
// part of a parameter is taken from the whole where the order says.

#include "sim/optimizer/part_order.h"

#include <cstring>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/checks.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// A parameter that is cut, and how its checkpoint and its ranks cut it.
struct Cut {
  Shape whole;
  int dim = -1, stride = 1;
  int saved_parts = 1, parts = 1;
};

Cut drawn_cut() {
  Cut cut;
  cut.dim = *rc::gen::inRange(-1, 2);
  cut.stride = *rc::gen::inRange(1, 3);
  cut.saved_parts = cut.dim < 0 ? 1 : *rc::gen::inRange(1, 5);
  cut.parts = cut.dim < 0 ? 1 : *rc::gen::inRange(1, 5);
  const std::int64_t lines = 12 * cut.stride * *rc::gen::inRange(1, 3), others = *rc::gen::inRange(1, 6);
  cut.whole = cut.dim == 1 ? Shape{others, lines} : Shape{lines, others};
  if (cut.dim != 1 && *rc::gen::arbitrary<bool>()) cut.whole = {lines};
  return cut;
}

Parameter made(Rank& rank, const Cut& cut, int place, int size) {
  return make_parameter(rank, "a", DType::f32, cut.whole,
                        {.dim = cut.dim, .stride = cut.stride, .place = place, .size = size}, {});
}

std::vector<float> values_of(const Tensor& x) {
  const std::vector<std::byte> bytes = host_bytes(x);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Returns the values of all parts, one part after the other.
std::vector<float> by_parts(Rank& rank, const Cut& cut, int parts) {
  std::vector<float> all;
  for (int place = 0; place < parts; ++place) {
    const std::vector<float> own = values_of(made(rank, cut, place, parts).value);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

RC_GTEST_PROP(PartOrder, FindsEachElementOfEachPart, ()) {
  const Cut cut = drawn_cut();
  CpuDevice device;
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    const Parameter whole = made(rank, cut, 0, 1);
    RC_ASSERT(PartOrder::exists(whole, cut.parts));
    const PartOrder order(whole, cut.parts), saved(whole, cut.saved_parts);
    const std::vector<float> in_order = by_parts(rank, cut, cut.parts);
    const std::vector<float> stored = by_parts(rank, cut, cut.saved_parts), values = values_of(whole.value);
    for (std::int64_t i = 0; i < std::ssize(in_order); ++i) {
      const PartOrder::Run run = order.in_whole(i);
      RC_ASSERT(run.count >= 1 && order.from_whole(run.begin).begin == i);
      RC_ASSERT(values[static_cast<std::size_t>(run.begin)] == in_order[static_cast<std::size_t>(i)]);
    }
    const std::int64_t begin = *rc::gen::inRange<std::int64_t>(0, std::ssize(in_order));
    const std::int64_t end = *rc::gen::inRange<std::int64_t>(begin, std::ssize(in_order) + 1);
    std::vector<float> translated_values;
    for (const ElementRange& range : translated(order, {begin, end}, saved))
      translated_values.insert(translated_values.end(), stored.begin() + range.begin,
                               stored.begin() + range.end);
    RC_ASSERT(translated_values == std::vector<float>(in_order.begin() + begin, in_order.begin() + end));
  });
  if (!report.ok()) RC_FAIL(report.failure());
}

TEST(PartOrder, IsRefusedWherePartsDoNotFit) {
  Parameter a{.whole = {4, 6}, .attributes = {.partition_dim = 1, .partition_stride = 2}};
  EXPECT_TRUE(PartOrder::exists(a, 3));
  EXPECT_FALSE(PartOrder::exists(a, 2));
  EXPECT_FALSE(PartOrder::exists(a, 0));
  a.attributes = {};
  EXPECT_TRUE(PartOrder::exists(a, 1));
  EXPECT_FALSE(PartOrder::exists(a, 2));
}

}  // namespace
