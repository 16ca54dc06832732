// Proves in the field that routing and its gradient are the algebra they are said to be, that the order of
// tokens by expert can be undone, and shows what these refuse.

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/base/field_tower.h"
#include "sim/cpu/cpu_device.h"
#include "sim/experts/token_dropping.h"
#include "sim/experts/token_permutation.h"
#include "sim/experts/top_choices.h"
#include "sim/experts/topk_routing.h"
#include "sim/shapes/shapes_device.h"
#include "sim/tensor/counting_device.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;

using Row = std::vector<Field>;

/// A device, and the functions of its field.
struct World {
  std::uint64_t seed = *rc::gen::arbitrary<std::uint64_t>();
  CpuDevice device{seed};
  FieldTower tower{seed};

  Tensor drawn(const char* name, const Shape& shape) {
    return keyed(device, DType::field, shape, KeyedRandom(seed).named(name));
  }
};

Row row_of(const Tensor& x, std::int64_t t) { return test::values<Field>(x.rows(t, t + 1)); }

bool is_smaller(const Field& a, const Field& b) { return !(a == b) && max(a, b) == b; }

/// Returns the k largest columns, of equal ones the lowest.
std::vector<std::size_t> largest(const Row& row, std::int64_t k) {
  std::vector<std::size_t> columns(row.size());
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_sort(columns.begin(), columns.end(),
                   [&](std::size_t a, std::size_t b) { return is_smaller(row[b], row[a]); });
  columns.resize(static_cast<std::size_t>(k));
  return columns;
}

Field sum_over(const std::vector<std::size_t>& columns, const auto& term) {
  Field sum = Field::of(0);
  for (const std::size_t c : columns) sum = sum + term(c);
  return sum;
}

struct RoutedRow {
  Row probs, grad;
};

RoutedRow softmax_row(const FieldTower& tower, const Row& x, const Row& g, bool before, std::int64_t k) {
  const std::size_t experts = x.size();
  std::vector<std::size_t> all(experts);
  std::iota(all.begin(), all.end(), 0);
  Row e(experts), p(experts);
  const Field root = tower.keyed("rsqrt", Field::of(1));  // of the divisor
  for (const std::size_t c : all) e[c] = tower.exp(x[c] * root);
  std::vector<std::size_t> seen = before ? all : largest(x, k);  // by the sum of exponentials
  const Field total = sum_over(seen, [&](std::size_t c) { return e[c]; });
  for (const std::size_t c : all) p[c] = e[c] / total;
  const std::vector<std::size_t> chosen = before ? largest(p, k) : seen;
  RoutedRow routed{Row(experts, Field::of(0)), Row(experts, Field::of(0))};
  const Field mean = sum_over(chosen, [&](std::size_t c) { return g[c] * p[c]; });
  for (const std::size_t c : chosen) routed.probs[c] = p[c];
  for (const std::size_t c : seen) {
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), c) != chosen.end();
    routed.grad[c] = p[c] * ((is_chosen ? g[c] : Field::of(0)) - mean) * root;
  }
  return routed;
}

RoutedRow sigmoid_row(const FieldTower& tower, const Row& x, const Row& bias, const Row& g, std::int64_t k) {
  const std::size_t experts = x.size();
  Row s(experts), ranked(experts);
  for (std::size_t c = 0; c < experts; ++c) {
    s[c] = tower.keyed("sigmoid", x[c]);
    ranked[c] = s[c] + bias[c];
  }
  const std::vector<std::size_t> chosen = largest(ranked, k);
  const Field sum = sum_over(chosen, [&](std::size_t c) { return s[c]; });
  const Field inverse = k > 1 ? tower.keyed("inverse_of_sum", sum) : Field::of(1);
  const Field slope = k > 1 ? tower.keyed("inverse_of_sum_derivative", sum) : Field::of(0);
  const Field along = sum_over(chosen, [&](std::size_t c) { return g[c] * s[c]; });
  RoutedRow routed{Row(experts, Field::of(0)), Row(experts, Field::of(0))};
  for (const std::size_t c : chosen) {
    routed.probs[c] = s[c] * inverse;
    routed.grad[c] = tower.keyed("sigmoid_derivative", x[c]) * (g[c] * inverse + along * slope);
  }
  return routed;
}

/// Whether two rows agree on every level that is live in the reference. A zero that is computed may be
/// retired on fewer levels than a zero that is written.
void expect_equal(const Row& got, const Row& wanted) {
  RC_ASSERT(got.size() == wanted.size());
  for (std::size_t c = 0; c < got.size(); ++c) {
    for (std::size_t level = 0; level < kFieldLevels; ++level) {
      if (!got[c].is_live(level) || !wanted[c].is_live(level)) continue;
      RC_ASSERT(got[c].residues[level] == wanted[c].residues[level]);
    }
    RC_ASSERT(got[c].is_live(kFieldLevels - 1) == wanted[c].is_live(kFieldLevels - 1));
  }
}

RC_GTEST_PROP(TopKRouting, IsTheAlgebraOfOneTokenForwardAndBackward, ()) {
  World world;
  const std::int64_t tokens = *rc::gen::inRange(1, 6), experts = *rc::gen::inRange(2, 9);
  const std::int64_t topk = *rc::gen::inRange<std::int64_t>(1, experts + 1);
  const bool is_softmax = *rc::gen::arbitrary<bool>(), before = *rc::gen::arbitrary<bool>();
  const Ratio scaling = {*rc::gen::inRange(1, 9), *rc::gen::inRange(1, 9)};
  const Tensor logits = world.drawn("logits", {tokens, experts});
  const Tensor bias = world.drawn("bias", {experts}), grad = world.drawn("grad", {tokens, experts});
  const auto forward =
      topk_routing(logits,
                   {.topk = topk,
                    .score_function = is_softmax ? ScoreFunction::softmax : ScoreFunction::sigmoid,
                    .pre_softmax = before,
                    .scaling_factor = scaling},
                   is_softmax ? Tensor() : bias);
  const Tensor grad_logits = topk_routing_backward(forward.saved, grad);
  const Field factor = Field::of(scaling.numerator) / Field::of(scaling.denominator);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Row x = row_of(logits, t), g = row_of(grad, t);
    RoutedRow wanted = is_softmax ? softmax_row(world.tower, x, g, before, topk)
                                  : sigmoid_row(world.tower, x, test::values<Field>(bias), g, topk);
    for (Row* row : {&wanted.probs, &wanted.grad}) {
      for (Field& element : *row) element = element * factor;
    }
    expect_equal(row_of(forward.routing.probs, t), wanted.probs);
    expect_equal(row_of(grad_logits, t), wanted.grad);
    RC_ASSERT(static_cast<std::int64_t>(forward.routing.map.experts_of(t).size()) == topk);
  }
}

RoutingMap drawn_map(std::int64_t tokens, std::int64_t experts) {
  RoutingMap map(tokens, experts);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t e = 0; e < experts; ++e) map.set(t, e, *rc::gen::arbitrary<bool>());
  }
  return map;
}

Field dot(const Tensor& a, const Tensor& b) {
  const std::vector<Field> x = test::values<Field>(a), y = test::values<Field>(b);
  Field sum = Field::of(0);
  for (std::size_t i = 0; i < x.size(); ++i) sum = sum + x[i] * y[i];
  return sum;
}

RC_GTEST_PROP(TokenPermutation, IsUndoneAndHasItsAdjoint, (bool is_padded)) {
  World world;
  const std::int64_t tokens = *rc::gen::inRange(1, 7), experts = *rc::gen::inRange(1, 5), hidden = 3;
  const RoutingMap map = drawn_map(tokens, experts);
  const RowOrder order =
      is_padded ? padded_row_order(map, *rc::gen::inRange<std::int64_t>(0, tokens + 1), world.device)
                : row_order(map, world.device);
  const std::int64_t count = order.token_ids.count();
  const Tensor x = world.drawn("x", {tokens, hidden}), probs = world.drawn("probs", {tokens, experts});
  const Tensor rows = world.drawn("rows", {count, hidden}), grad = world.drawn("grad", {tokens, hidden});
  const Tensor of_rows = world.drawn("of_rows", {count});
  // <A x, y> = <x, A* y> of each linear map, and the weighted sum is linear in both of its arguments.
  RC_ASSERT(dot(permute(x, order), rows) == dot(x, permute_backward(rows, order)));
  RC_ASSERT(dot(permute_probs(probs, order), of_rows) == dot(probs, permute_probs_backward(of_rows, order)));
  RC_ASSERT(dot(unpermute(rows, order), grad) == dot(rows, unpermute_backward(grad, order)));
  const WeightedGrads weighted = unpermute_weighted_backward(rows, probs, grad, order);
  const Field value = dot(unpermute_weighted(rows, probs, order), grad);
  RC_ASSERT(dot(rows, weighted.grad_rows) == value);
  RC_ASSERT(dot(probs, weighted.grad_probs) == value);

  // A token that has n rows comes back n times.
  const std::vector<Field> back = test::values<Field>(unpermute(permute(x, order), order));
  const std::vector<Field> whole = test::values<Field>(x);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto token = static_cast<std::int32_t>(i) / static_cast<std::int32_t>(hidden);
    const auto copies = std::count(order.sorted_indices.begin(), order.sorted_indices.end(), token);
    RC_ASSERT(back[i] == whole[i] * Field::of(copies));
  }
}

/// Chunks of rows, and an order of them.
struct Chunks {
  std::vector<std::int64_t> sizes =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 4));
  std::vector<std::int64_t> order = drawn_order();

  std::int64_t rows() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

 private:
  std::vector<std::int64_t> drawn_order() const {
    std::vector<std::int64_t> all(sizes.size());
    std::iota(all.begin(), all.end(), 0);
    const int turns = *rc::gen::inRange(0, 5);
    for (int i = 0; i < turns; ++i) std::next_permutation(all.begin(), all.end());
    return all;
  }
};

RC_GTEST_PROP(TokenPermutation, SortedChunksGoBack, ()) {
  World world;
  const Chunks chunks;
  const Tensor rows = world.drawn("rows", {chunks.rows(), 2});
  const Tensor sorted = sort_chunks_by_idxs(rows, chunks.sizes, chunks.order);
  const Tensor back = sort_chunks_by_idxs_backward(sorted, chunks.sizes, chunks.order);
  RC_ASSERT(test::values<Field>(back) == test::values<Field>(rows));
}

/// Returns the work of a rank that sorts chunks.
std::int64_t work_of_sorting(const Chunks& chunks, Device& inner) {
  CountingDevice device(inner);
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    const Tensor rows = filled(rank.device, DType::f32, {chunks.rows(), 2}, 1);
    sort_chunks_by_idxs(rows, chunks.sizes, chunks.order);
  });
  RC_ASSERT(report.ok());
  return report.ranks.front().work;
}

// The time of a step is estimated on a device without elements, from the work that it counts.
RC_GTEST_PROP(TokenPermutation, SortingIsTheSameWorkWithoutElements, ()) {
  const Chunks chunks;
  CpuDevice with;
  ShapesDevice without;
  RC_ASSERT(work_of_sorting(chunks, with) == work_of_sorting(chunks, without));
}

Tensor floats(Device& device, const Shape& shape, const std::vector<double>& values) {
  return test::tensor_of(device, DType::f64, shape, values);
}

TEST(TopKRouting, TakesTheLowestOfEqualExpertsAndNaNLast) {
  CpuDevice device(0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor logits = floats(device, {2, 4}, {1, 2, 2, 1, nan, -5, nan, -7});
  const RoutingMap map = topk_routing(logits, {.topk = 3}).routing.map;
  EXPECT_EQ(map.experts_of(0), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(map.experts_of(1), (std::vector<std::int64_t>{0, 1, 3}));
}

TEST(TopKRouting, ReadsNoGradientOfExpertsThatAreNotChosen) {
  CpuDevice device(0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor logits = floats(device, {1, 3}, {3, 1, 2}), grad = floats(device, {1, 3}, {1, nan, 2});
  for (const ScoreFunction function :
       {ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus}) {
    for (const bool before : {false, true}) {
      const auto forward =
          topk_routing(logits, {.topk = 2, .score_function = function, .pre_softmax = before});
      for (const double value : test::values<double>(topk_routing_backward(forward.saved, grad)))
        EXPECT_EQ(value, value);
    }
  }
}

TEST(TokenDropping, KeepsTheFirstOrTheMostProbableTokens) {
  CpuDevice device(0);
  const Routing routing{floats(device, {4, 1}, {0.25, 0.5, 0, 0.75}), RoutingMap(4, 1, {1, 1, 0, 1})};
  const auto kept = [&](DropPolicy policy, double factor, bool pads) {
    return drop_tokens(routing, 1,
                       {.capacity_factor = factor, .drop_policy = policy, .pad_to_capacity = pads})
        .routing.map.tokens_of(0);
  };
  using Tokens = std::vector<std::int64_t>;
  EXPECT_EQ(kept(DropPolicy::probs, 0.5, false), (Tokens{1, 3}));
  EXPECT_EQ(kept(DropPolicy::position, 0.5, false), (Tokens{0, 1}));
  EXPECT_EQ(kept(DropPolicy::position, 1, true), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(kept(DropPolicy::probs, 1, false), (Tokens{0, 1, 3}));
}

TEST(RoutingMap, CountsByExpertAndTravelsAsATensor) {
  CpuDevice device(0);
  const RoutingMap map(3, 2, {1, 0, 1, 1, 1, 0});
  EXPECT_EQ(map.rows(), 4);
  EXPECT_EQ(map.tokens_per_expert(), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(map.tokens_of(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(map.experts_from(1, 1), RoutingMap(3, 1, {0, 1, 0}));
  EXPECT_EQ(RoutingMap::from_tensor(map.tensor(device)), map);
}

RC_GTEST_PROP(RoutingMap, ACountedMapHasTheNumbersOfTheMapInTurn, ()) {
  const std::int64_t tokens = *rc::gen::inRange(0, 40), width = *rc::gen::inRange(1, 5);
  const std::int64_t experts = width * *rc::gen::inRange(1, 8);
  const std::int64_t topk = *rc::gen::inRange<std::int64_t>(1, experts + 1);
  const RoutingMap pairs = RoutingMap::in_turn(tokens, experts, topk);
  const RoutingMap counted = RoutingMap::counted_in_turn(tokens, experts, topk);
  RC_ASSERT(counted.is_counted() && !pairs.is_counted());
  RC_ASSERT(counted.tokens() == tokens && counted.experts() == experts);
  RC_ASSERT(counted.rows() == pairs.rows());
  RC_ASSERT(counted.tokens_per_expert() == pairs.tokens_per_expert());
  RC_ASSERT(counted.groups_of(width).tokens_per_expert() == pairs.groups_of(width).tokens_per_expert());
  RC_ASSERT(counted.experts_from(experts - width, width).tokens_per_expert() ==
            pairs.experts_from(experts - width, width).tokens_per_expert());
  for (std::int64_t t = 0; t < tokens; ++t) RC_ASSERT(std::ssize(pairs.experts_of(t)) == topk);
}

TEST(RoutingMap, ACountedMapRefusesToNamePairs) {
  const RoutingMap counted = RoutingMap::counted_in_turn(4, 6, 2);
  const RoutingMap part = counted.experts_from(0, 4);
  EXPECT_EQ(refusal_code([&] { counted.at(0, 0); }), "routing_map");
  EXPECT_EQ(refusal_code([&] { counted.tokens_of(0); }), "routing_map");
  EXPECT_EQ(refusal_code([&] { static_cast<void>(counted & counted); }), "routing_map");
  EXPECT_EQ(refusal_code([&] { part.groups_of(2); }), "routing_map");
  EXPECT_EQ(refusal_code([&] { counted.groups_of(4); }), "routing_map");
}

TEST(RoutingMap, RefusesWhatIsNoMap) {
  CpuDevice device(0);
  EXPECT_EQ(refusal_code([] { RoutingMap(2, 2, {1, 0, 1}); }), "routing_map");
  EXPECT_EQ(refusal_code([] { RoutingMap(1, 2, {1, 2}); }), "routing_map");
  EXPECT_EQ(refusal_code([] { RoutingMap(1, 0); }), "routing_map");
  EXPECT_EQ(refusal_code([] { RoutingMap(std::int64_t{1} << 30, 4); }), "routing_map");
  EXPECT_EQ(refusal_code([] { RoutingMap(1, 4).experts_from(3, 2); }), "routing_map");
  EXPECT_EQ(refusal_code([] { RoutingMap(1, 4) & RoutingMap(2, 4); }), "routing_map");
  EXPECT_EQ(refusal_code([] { pad_routing_map(RoutingMap(1, 4), 0); }), "routing_map");
  const Tensor twos = filled(device, DType::i32, {2, 2}, 2);
  EXPECT_EQ(refusal_code([&] { RoutingMap::from_tensor(twos); }), "routing_map");
}

TEST(TopKRouting, RefusesAChoiceThatCannotBeMade) {
  const auto code = [](const TopKRoutingConfig& config) {
    return refusal_code([&] { require_topk_routing(config, 6, "router"); });
  };
  EXPECT_EQ(code({.topk = 6}), "none");
  EXPECT_EQ(code({.topk = 7}), "topk_routing");
  EXPECT_EQ(code({.topk = 0}), "topk_routing");
  EXPECT_EQ(code({.topk = 2, .num_groups = 4, .group_topk = 2}), "topk_routing");
  EXPECT_EQ(code({.topk = 2, .num_groups = 3, .group_topk = 4}), "topk_routing");
  EXPECT_EQ(code({.topk = 2, .num_groups = 3}), "topk_routing");
  EXPECT_EQ(code({.topk = 2, .group_topk = 1}), "topk_routing");
  EXPECT_EQ(code({.topk = 3, .num_groups = 3, .group_topk = 1}), "topk_routing");  // of two experts
  EXPECT_EQ(code({.topk = 3, .num_groups = 6, .group_topk = 2}), "topk_routing");  // two experts survive
  EXPECT_EQ(code({.topk = 3, .num_groups = 3, .group_topk = 2}), "none");          // 3 / 2 is rounded down
  CpuDevice device(0);
  const Tensor logits = filled(device, DType::f64, {1, 2}, 0), bias = filled(device, DType::f64, {2}, 0);
  EXPECT_EQ(refusal_code([&] { topk_routing(logits, {}, bias); }), "topk_routing");
}

TEST(TokenDropping, RefusesAFactorThatIsNoShare) {
  EXPECT_EQ(refusal_code([] { expert_capacity(4, 1, 2, 0); }), "expert_capacity");
  EXPECT_EQ(refusal_code([] { expert_capacity(4, 1, 2, std::numeric_limits<double>::infinity()); }),
            "expert_capacity");
  EXPECT_EQ(expert_capacity(5, 2, 4, 1.25), 4);  // 3.125
  EXPECT_GE(expert_capacity(5, 2, 4, 1e300), 5);
}

TEST(TokenPermutation, RefusesABufferThatTokensCannotFillAndAnOrderThatIsNone) {
  CpuDevice device(0);
  EXPECT_EQ(refusal_code([&] { padded_row_order(RoutingMap(3, 2), 4, device); }), "capacity_above_tokens");
  const Tensor rows = filled(device, DType::f64, {3, 1}, 0);
  EXPECT_EQ(refusal_code([&] { sort_chunks_by_idxs(rows, {1, 2}, {1, 1}); }), "chunk_order");
  EXPECT_EQ(refusal_code([&] { sort_chunks_by_idxs(rows, {1, 1}, {1, 0}); }), "chunk_order");
}

}  // namespace
