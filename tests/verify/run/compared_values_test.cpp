// Values that ranks publish in parts, held against those of another run.

#include "verify/run/compared_values.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <set>

#include "tests/support/refusal_code.h"
#include "tests/support/temporary_folder.h"
#include "tests/verify/run/guest_test.h"
#include "tests/verify/run/publications.h"
#include "verify/run/layout_words.h"

namespace {

using test::drawn_elements;
using test::has;
using test::Publications;
using verify::ComparedValues;
using verify::GlobalValues;

sim::GuestPlace vector_of(std::int64_t count, const std::string& kind = "gradient", std::int64_t step = 0) {
  return {.kind = kind, .step = step, .whole = {count}, .offset = {0}, .shape = {count}};
}

/// A matrix, cut by rows or columns into parts of `tp` ranks, each of which is divided among `dp` ranks.
struct Cut {
  std::int64_t rows, columns, tp, dp;
  bool by_rows;
  std::vector<double> whole;

  void publish(Publications& all, const std::function<double(int, double)>& seen) const {
    for (int rank = 0; rank < tp * dp; ++rank) {
      const std::int64_t part = rank % tp, shard = rank / tp;
      const std::int64_t height = by_rows ? rows / tp : rows, width = by_rows ? columns : columns / tp;
      const std::int64_t top = by_rows ? part * height : 0, left = by_rows ? 0 : part * width;
      std::vector<double> block;
      for (std::int64_t i = 0; i < height; ++i)
        for (std::int64_t k = 0; k < width; ++k)
          block.push_back(seen(rank, whole[static_cast<std::size_t>((top + i) * columns + left + k)]));
      const std::int64_t begin = std::ssize(block) * shard / dp, end = std::ssize(block) * (shard + 1) / dp;
      if (begin == end) continue;
      const sim::GuestPlace place{.kind = "gradient",
                                  .whole = {rows, columns},
                                  .offset = {top, left},
                                  .shape = {height, width},
                                  .begin = begin};
      all.add(rank, "weight", place, {block.begin() + begin, block.begin() + end});
    }
  }
};

Cut drawn_cut() {
  Cut cut{.rows = 0,
          .columns = 0,
          .tp = *rc::gen::inRange(1, 4),
          .dp = *rc::gen::inRange(1, 4),
          .by_rows = *rc::gen::arbitrary<bool>(),
          .whole = {}};
  cut.rows = cut.tp * *rc::gen::inRange(1, 4);
  cut.columns = cut.tp * *rc::gen::inRange(1, 4);
  cut.whole = drawn_elements(cut.rows * cut.columns);
  return cut;
}

void publish_whole(const Cut& cut, Publications& one) {
  one.add(0, "weight",
          {.kind = "gradient",
           .whole = {cut.rows, cut.columns},
           .offset = {0, 0},
           .shape = {cut.rows, cut.columns}},
          cut.whole);
}

RC_GTEST_PROP(ComparedValues, PartsThatAreRightHoldHoweverTheyAreCut, ()) {
  const Cut cut = drawn_cut();
  Publications parts(static_cast<int>(cut.tp * cut.dp));
  cut.publish(parts, [](int, double x) { return x; });
  Publications one(1);
  publish_whole(cut, one);
  const ComparedValues compared = verify::compared_values(parts.values(), one.values(), {});
  RC_ASSERT(compared.holds());
  RC_ASSERT(compared.values == 1);
  RC_ASSERT(compared.elements == cut.rows * cut.columns);
}

RC_GTEST_PROP(ComparedValues, ARankWhosePartIsAMultipleIsNamed, ()) {
  const Cut cut = drawn_cut();
  const auto ranks = static_cast<int>(cut.tp * cut.dp);
  const int wrong = *rc::gen::inRange(0, ranks);
  Publications parts(ranks);
  cut.publish(parts, [&](int rank, double x) { return rank == wrong ? 3 * x : x; });
  Publications one(1);
  publish_whole(cut, one);
  const ComparedValues compared = verify::compared_values(parts.values(), one.values(), {{{"tp", 3}}, {}});
  if (parts.report.ranks[static_cast<std::size_t>(wrong)].published.empty()) {
    RC_ASSERT(compared.holds());
    return;
  }
  RC_ASSERT(compared.wrong.size() == 1U);
  RC_ASSERT(compared.wrong.front().ranks == std::set<int>{wrong});
  RC_ASSERT(compared.wrong.front().what == "it is 3 (tp is 3) times the right one");
}

RC_GTEST_PROP(ComparedValues, APartThatNoRankHasIsMissed, ()) {
  Cut cut = drawn_cut();
  cut.tp += 1;
  cut.rows = cut.columns = cut.tp * 2;
  cut.whole = drawn_elements(cut.rows * cut.columns);
  const int absent = *rc::gen::inRange(0, static_cast<int>(cut.tp * cut.dp));
  Publications parts(static_cast<int>(cut.tp * cut.dp));
  cut.publish(parts, [](int, double x) { return x; });
  parts.report.ranks[static_cast<std::size_t>(absent)].published.clear();
  Publications one(1);
  publish_whole(cut, one);
  const ComparedValues compared = verify::compared_values(parts.values(), one.values(), {});
  RC_ASSERT(compared.wrong.size() == 1U);
  RC_ASSERT(has(compared.wrong.front().what, "no rank has "));
}

/// What is said of two ranks that have these copies of a gradient, where {1, 2, 4} is right.
std::string said(const std::vector<double>& first, const std::vector<double>& second,
                 const verify::NamesOfLayout& names = {{{"tp", 2}}, {}}) {
  Publications one(1), two(2);
  one.add(0, "x", vector_of(3), {1, 2, 4});
  one.add(0, "y", vector_of(3), {5, 1, 3});
  one.add(0, "x", vector_of(3, "gradient", 1), {2, 2, 1});
  two.add(0, "x", vector_of(3), first);
  two.add(1, "x", vector_of(3), second);
  for (const int rank : {0, 1}) {
    two.add(rank, "y", vector_of(3), {5, 1, 3});
    two.add(rank, "x", vector_of(3, "gradient", 1), {2, 2, 1});
  }
  const ComparedValues compared = verify::compared_values(two.values(), one.values(), names);
  return compared.wrong.empty() ? "right" : compared.wrong.front().what;
}

TEST(ComparedValues, WhatAWrongValueIsIsSaid) {
  const std::vector<double> right = {1, 2, 4}, half = {0.5, 1, 2}, nan = {1, std::nan(""), 4};
  EXPECT_EQ(said(right, right), "right");
  EXPECT_EQ(said({2, 4, 8}, {2, 4, 8}), "it is 2 (tp is 2) times the right one");
  EXPECT_EQ(said(half, half), "it is 1/2 (tp is 2) of the right one");
  EXPECT_EQ(said({7, 14, 28}, {7, 14, 28}), "it is 7 times the right one");
  const double near = 1 - std::ldexp(1.0, -21);
  EXPECT_EQ(said({near, 2 * near, 4 * near}, {near, 2 * near, 4 * near}),
            fmt::format("it is 1 - {:.2g} times the right one", 1 - near));
  EXPECT_EQ(said({0, 0, 0}, right), "it is zero");
  EXPECT_EQ(said({1, 0, 1}, {0, 2, 3}),
            "each rank holds its own term: the sum over tp (ranks 0, 1) is missing");
  EXPECT_EQ(said({2, 0, 2}, {0, 4, 6}),
            "each rank holds its own term: the mean over tp (ranks 0, 1) is missing");
  EXPECT_EQ(said({1, 0, 1}, {0, 2, 3}, {{}, {{"TENSOR", {0, 1}}}}),
            "each rank holds its own term: the sum over TENSOR (ranks 0, 1) is missing");
  EXPECT_EQ(said({5, 1, 3}, {5, 1, 3}), "it is the gradient of y in step 0");
  EXPECT_EQ(said(nan, right), "it has elements that are no numbers");
  EXPECT_EQ(said({1, 2, 4.5}, right), "it differs in 1 of 3 elements, by 0.12 of the largest at most");
}

TEST(ComparedValues, AGradientOfTheStepBeforeIsFound) {
  Publications one(1), other(1);
  for (Publications* each : {&one, &other}) each->add(0, "x", vector_of(2), {1, 3});
  one.add(0, "x", vector_of(2, "gradient", 1), {4, 5});
  other.add(0, "x", vector_of(2, "gradient", 1), {5, 8});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what, "the gradient of x in step 0 is added to it");
}

/// The first wrong value is the first that a step computes: gradients come backwards.
TEST(ComparedValues, ValuesAreToldInTheOrderInWhichTheyAreComputed) {
  Publications one(1), other(1);
  const std::vector<std::string> names = {"a.first", "b.last"};
  for (const std::string& name : names) {
    one.add(0, name, vector_of(2, "parameter"), {1, 2});
    other.add(0, name, vector_of(2, "parameter"), {1, 2});
    one.add(0, name, vector_of(2), {1, 2});
    other.add(0, name, vector_of(2), {3, 4});
  }
  one.add(0, "norm of the gradients", vector_of(1, "norm"), {1});
  other.add(0, "norm of the gradients", vector_of(1, "norm"), {2});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 3U);
  EXPECT_EQ(verify::text_of(compared.wrong[0].key), "the gradient of b.last in step 0");
  EXPECT_EQ(verify::text_of(compared.wrong[1].key), "the gradient of a.first in step 0");
  EXPECT_EQ(verify::text_of(compared.wrong[2].key), "the norm of the gradients in step 0");
}

TEST(ComparedValues, ValuesThatAProgramNamesComeInItsOrder) {
  Publications one(1), other(1);
  for (const char* name : {"z", "a"}) {
    one.add(0, name, vector_of(2, "value"), {1, 2});
    other.add(0, name, vector_of(2, "value"), {3, 4});
  }
  one.add(0, "weight", vector_of(2), {1, 2});
  other.add(0, "weight", vector_of(2), {3, 4});
  other.add(0, "rank 1", vector_of(1, "value"), {1});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 4U);
  EXPECT_EQ(verify::text_of(compared.wrong[0].key), "the value of z in step 0");
  EXPECT_EQ(verify::text_of(compared.wrong[1].key), "the value of a in step 0");
  EXPECT_EQ(verify::text_of(compared.wrong[2].key), "the gradient of weight in step 0");
  EXPECT_EQ(verify::text_of(compared.wrong[3].key), "the value of rank 1 in step 0");
  EXPECT_EQ(compared.wrong[3].what, "the reference does not have it");
}

/// A mask of attention has them. They hold where they are right, and hide no other value.
TEST(ComparedValues, InfinitiesAreRightWhereTheReferenceHasThem) {
  const double most = -std::numeric_limits<double>::infinity();
  Publications one(1), other(1);
  one.add(0, "mask", vector_of(2, "value"), {0, most});
  other.add(0, "mask", vector_of(2, "value"), {0, most});
  EXPECT_TRUE(verify::compared_values(other.values(), one.values(), {}).holds());
  one.add(0, "scores", vector_of(2, "value"), {1, most});
  other.add(0, "scores", vector_of(2, "value"), {2, most});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(verify::text_of(compared.wrong[0].key), "the value of scores in step 0");
  EXPECT_EQ(compared.wrong[0].wrong, 1);
}

/// Replicas of different weights: 3 samples with the mean 1, and one sample with the mean 5.
TEST(ComparedValues, ALossIsTheSumOfAllReplicasOverTheirWeights) {
  Publications one(1), two(2);
  const auto of_replica = [](std::int64_t replica, std::int64_t replicas) {
    return sim::GuestPlace{.kind = "loss", .whole = {replicas, 2}, .offset = {replica, 0}, .shape = {1, 2}};
  };
  one.add(0, "lm loss", of_replica(0, 1), {8, 4});
  two.add(0, "lm loss", of_replica(0, 2), {3, 3});
  two.add(1, "lm loss", of_replica(1, 2), {5, 1});
  EXPECT_TRUE(verify::compared_values(two.values(), one.values(), {}).holds());
  Publications wrong(2);
  wrong.add(0, "lm loss", of_replica(0, 2), {3, 3});
  wrong.add(1, "lm loss", of_replica(1, 2), {5, 2});
  const ComparedValues compared = verify::compared_values(wrong.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what, "it is 1.6 in place of 2");
}

TEST(ComparedValues, OtherShapesAreToldBeforeNumbers) {
  Publications one(1), other(1);
  one.add(0, "embedding", vector_of(2, "parameter"), {1, 2});
  other.add(0, "embedding", vector_of(3, "parameter"), {9, 9, 9});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  EXPECT_EQ(compared.incomparable,
            "the parameter embedding before step 0: its shape is [3] here and [2] in the reference");
  EXPECT_FALSE(compared.holds());
}

// ---- norms

/// Gradients of two layers, each cut over two tp ranks, and a bias that both ranks hold.
struct Normed {
  Publications one{1}, two{2};
  std::vector<std::vector<double>> weights, parts;  // of layers; and those of rank 0
  std::vector<double> bias;

  Normed() : bias(drawn_elements(3)) {
    for (const char* name : {"weight[0]", "weight[1]"}) {
      weights.push_back(drawn_elements(4));
      one.add(0, name, vector_of(4), weights.back());
      for (int rank = 0; rank < 2; ++rank)
        two.add(rank, name, {.kind = "gradient", .whole = {4}, .offset = {2 * rank}, .shape = {2}},
                {weights.back().begin() + 2 * rank, weights.back().begin() + 2 * rank + 2});
      parts.push_back({weights.back().begin(), weights.back().begin() + 2});
    }
    one.add(0, "bias", vector_of(3), bias);
    for (int rank = 0; rank < 2; ++rank) two.add(rank, "bias", vector_of(3), bias);
    one.add(0, "norm", vector_of(1, "norm"), {std::sqrt(weight() + square(bias))});
  }
  static double square(const std::vector<double>& elements) {
    return std::inner_product(elements.begin(), elements.end(), elements.begin(), 0.0);
  }
  double weight() const { return square(weights[0]) + square(weights[1]); }
  double part() const { return square(parts[0]) + square(parts[1]); }
  /// Returns what is said of these squares of norms on the two ranks.
  std::string said(double first, double second) {
    two.add(0, "norm", vector_of(1, "norm"), {std::sqrt(first)});
    two.add(1, "norm", vector_of(1, "norm"), {std::sqrt(second)});
    const ComparedValues compared = verify::compared_values(two.values(), one.values(), {{{"tp", 2}}, {}});
    return compared.wrong.size() == 1 ? compared.wrong.front().what : "";
  }
};

RC_GTEST_PROP(WrongNorm, SaysWhichGradientsItCountsAndHow, ()) {
  Normed normed;
  const double weight = normed.weight(), bias = Normed::square(normed.bias), part = normed.part();
  const double other = weight - part;
  RC_PRE(std::abs(part - other) > 1 && std::abs(std::remainder(bias, weight)) > 1 &&
         std::abs(part - bias) > 1);
  const double lost = Normed::square(normed.weights[1]);
  RC_PRE(lost > 1 && std::abs(lost - bias) > 1 && std::abs(2 * lost - weight) > 1);
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      RC_ASSERT(normed.said(weight + bias, weight + bias).empty());
      break;
    case 4:
      RC_ASSERT(normed.said(weight + bias - lost, weight + bias - lost) ==
                "it lacks the gradients of weight[1]");
      break;
    case 1:
      RC_ASSERT(normed.said(bias, bias) == "it lacks the gradients of weight");
      break;
    case 2:
      RC_ASSERT(normed.said(weight + 2 * bias, weight + 2 * bias) ==
                "it counts the gradients of bias 2 times");
      break;
    case 3:
      RC_ASSERT(normed.said(part + bias, part + bias) ==
                "of the gradients of weight it has only the part of the first tp rank");
      break;
    default:
      RC_ASSERT(normed.said(part + bias, other + bias) ==
                "each rank has the norm of the gradients that it holds itself");
  }
}

TEST(WrongNorm, SaysThatItCountsWhatSeveralRanksHold) {
  Publications one(1), two(2);
  one.add(0, "scale", vector_of(2), {1, 2});
  one.add(0, "bias", vector_of(1), {3});
  one.add(0, "norm", vector_of(1, "norm"), {std::sqrt(14)});
  for (int rank = 0; rank < 2; ++rank) {
    two.add(rank, "scale", vector_of(2), {1, 2});
    two.add(rank, "bias", vector_of(1), {3});
    two.add(rank, "norm", vector_of(1, "norm"), {std::sqrt(28)});
  }
  const ComparedValues compared = verify::compared_values(two.values(), one.values(), {{{"tp", 2}}, {}});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what,
            "it counts the gradients that several ranks hold once for each of them");
}

TEST(ComparedValues, ANumberThatLooksRightIsToldByItsDifference) {
  Publications one(1), other(1);
  one.add(0, "x", vector_of(1, "value"), {4});
  other.add(0, "x", vector_of(1, "value"), {4 + std::ldexp(1.0, -26)});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_TRUE(compared.wrong.front().what.starts_with("it differs from 4 by 1.5e-"));
}

TEST(ComparedValues, ShapesOfLaterStepsAreComparedToo) {
  Publications one(1), other(2);
  for (std::int64_t step = 0; step < 2; ++step) one.add(0, "x", vector_of(2, "value", step), {1, 2});
  other.add(0, "x", vector_of(2, "value", 0), {1, 2});
  other.add(0, "x", vector_of(9, "value", 1), std::vector<double>(9, 1));
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what, "its shape is [9] here and [2] in the reference");
}

TEST(ComparedValues, OtherNumbersOfStepsAreToldBeforeNumbers) {
  Publications one(1), other(1);
  for (std::int64_t step = 0; step < 3; ++step) one.add(0, "x", vector_of(1, "value", step), {1});
  other.add(0, "x", vector_of(1, "value"), {1});
  EXPECT_EQ(verify::compared_values(other.values(), one.values(), {}).incomparable,
            "this run has 1 step, and the reference 3 steps");
}

TEST(ComparedValues, AReferenceWhoseRanksDisagreeJudgesNothing) {
  Publications two(2), other(1);
  two.add(0, "x", vector_of(1, "value"), {1});
  two.add(1, "x", vector_of(1, "value"), {2});
  other.add(0, "x", vector_of(1, "value"), {2});
  EXPECT_EQ(verify::compared_values(other.values(), two.values(), {}).incomparable,
            "the value of x in step 0: ranks of the reference hold different copies");
}

TEST(ComparedValues, AGradientThatTheReferenceDoesNotHaveIsZero) {
  Publications one(1), other(1);
  for (Publications* each : {&one, &other})
    for (const char* name : {"unused", "used"}) each->add(0, name, vector_of(2, "parameter"), {1, 1});
  one.add(0, "weight", vector_of(1), {1});
  other.add(0, "weight", vector_of(1), {1});
  other.add(0, "unused", vector_of(2), {0, 0});
  EXPECT_TRUE(verify::compared_values(other.values(), one.values(), {}).holds());
  other.add(0, "used", vector_of(2), {0, 1});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what, "the reference does not have it");
}

TEST(ComparedValues, ANamedValueHasItsOwnScale) {
  Publications one(1), other(1);
  for (Publications* each : {&one, &other}) each->add(0, "flops", vector_of(1, "value"), {std::ldexp(1, 60)});
  one.add(0, "x", vector_of(1, "value"), {1});
  other.add(0, "x", vector_of(1, "value"), {1 + std::ldexp(1, -20)});
  EXPECT_EQ(verify::compared_values(other.values(), one.values(), {}).wrong.size(), 1U);
}

// ---- bounds of a twin

/// Five gradients, of which the last is zero but for rounding, whose errors are drawn.
RC_GTEST_PROP(ValueBounds, ATensorOfRoundingsDoesNotWidenTheBoundsOfOthers, ()) {
  Publications one(1), twin(1), right(1), wrong(1);
  for (const char* name : {"a", "b", "c", "d"}) {
    const double x = drawn_elements(1).front(), error = std::ldexp(x, -20);
    one.add(0, name, vector_of(1), {x});
    twin.add(0, name, vector_of(1), {x + error});
    right.add(0, name, vector_of(1), {x - 10 * error});
    wrong.add(0, name, vector_of(1), {1.125 * x});
  }
  const double noise = std::ldexp(drawn_elements(1).front(), -50);
  one.add(0, "noise", vector_of(1), {0.0});
  twin.add(0, "noise", vector_of(1), {noise});
  for (Publications* each : {&right, &wrong}) each->add(0, "noise", vector_of(1), {-noise});
  const GlobalValues of_twin = twin.values();
  const verify::JudgedBy judged{.twin = &of_twin};
  RC_ASSERT(verify::compared_values(right.values(), one.values(), {}, judged).holds());
  RC_ASSERT(verify::compared_values(wrong.values(), one.values(), {}, judged).wrong.size() == 4U);
}

TEST(ValueBounds, ATwinThatComputesSomethingElseJudgesNothing) {
  Publications one(1), twin(1);
  one.add(0, "x", vector_of(2), {1, 2});
  twin.add(0, "x", vector_of(2), {2, 1});
  const GlobalValues of_twin = twin.values();
  const std::string why =
      verify::compared_values(one.values(), one.values(), {}, {.twin = &of_twin}).incomparable;
  EXPECT_TRUE(has(why, "the reference and its twin differ in step 0 by 0.5 of the largest elements")) << why;
}

/// An optimizer that divides by gradients makes anything of one that is zero but for rounding.
TEST(ComparedValues, AParameterIsNotJudgedWhereItsGradientIsNoise) {
  const double noise = std::ldexp(1.0, -52);
  const auto train = [](Publications& one, double of_noise, double of_other, double gradient) {
    one.add(0, "x", vector_of(3, "parameter"), {1, 2, 3});
    one.add(0, "x", vector_of(3), {gradient, 1, 0});
    sim::GuestPlace later = vector_of(3, "parameter");
    later.step = 1;
    one.add(0, "x", later, {1 + of_noise, 2 + of_other, 3});
  };
  Publications reference(1);
  train(reference, 0.1, 0.1, noise);
  const auto wrong = [&](double of_noise, double of_other, double gradient) {
    Publications layout(1);
    train(layout, of_noise, of_other, gradient);
    return verify::compared_values(layout.values(), reference.values(), {}).wrong.size();
  };
  EXPECT_EQ(wrong(-0.1, 0.1, -noise), 0U);
  EXPECT_EQ(wrong(0.1, -0.1, noise), 1U);  // an element that has a gradient
  EXPECT_EQ(wrong(-0.1, 0.1, 0.5), 2U);    // a gradient is wrong, and so is what follows
}

TEST(ComparedValues, OtherModelsAreToldBeforeNumbers) {
  Publications one(1), other(1);
  for (const char* name : {"embedding", "experts[0]", "experts[1]"})
    one.add(0, name, vector_of(1, "parameter"), {1});
  for (const char* name : {"embedding", "mlp"}) other.add(0, name, vector_of(1, "parameter"), {1});
  EXPECT_EQ(verify::compared_values(other.values(), one.values(), {}).incomparable,
            "it lacks 2 parameters of the reference, such as experts[0]");
}

/// Such as a copy of the embedding on the last stage.
TEST(ComparedValues, AParameterThatTheReferenceLacksIsNotCompared) {
  Publications one(1), other(1);
  for (Publications* each : {&one, &other}) each->add(0, "embedding", vector_of(1, "parameter"), {1});
  other.add(0, "output", vector_of(1, "parameter"), {1});
  other.add(0, "output", vector_of(1), {7});
  EXPECT_TRUE(verify::compared_values(other.values(), one.values(), {}).holds());
  EXPECT_EQ(verify::parameters_beside(other.values(), one.values()), std::vector<std::string>{"output"});
}

// ---- states of optimizers

constexpr const char* kMoments[] = {"exp_avg", "exp_avg_sq"};

/// The moments of a gradient after the first step of Adam with (0.75, 0.75).
std::vector<double> moments_of(const std::vector<double>& gradient, const std::string& state) {
  std::vector<double> moments;
  for (const double x : gradient) moments.push_back((state == "exp_avg" ? x : x * x) / 4);
  return moments;
}

void add_with_moments(Publications& run, const std::string& name, const std::vector<double>& gradient) {
  const std::int64_t count = std::ssize(gradient);
  run.add(0, name, vector_of(count), gradient);
  for (const char* state : kMoments)
    run.add(0, std::string(state) + " of " + name, vector_of(count, "state"), moments_of(gradient, state));
}

/// Errors up to a share of the bound of a gradient in f64. The second tensor is zero but for rounding.
std::vector<double> with_errors(const std::vector<double>& right, double largest, double share) {
  const double bound = std::ldexp(verify::largest_of(right), -30) + std::ldexp(largest, -43);
  std::vector<double> elements = right;
  for (double& x : elements) x += share * bound * (*rc::gen::arbitrary<bool>() ? 1 : -1);
  return elements;
}

RC_GTEST_PROP(States, MomentsAreRightIfTheirGradientsAreAndWrongIfNot, ()) {
  const auto count = *rc::gen::inRange(1, 6);
  const std::vector<double> weight = drawn_elements(count), bias(static_cast<std::size_t>(count), 0.0);
  const double largest = verify::largest_of(weight);
  Publications one(1), right(1), wrong(1);
  for (const auto& [name, gradient] : {std::pair("weight", weight), std::pair("bias", bias)}) {
    add_with_moments(one, name, gradient);
    add_with_moments(right, name, with_errors(gradient, largest, 0.9));
    add_with_moments(wrong, name, with_errors(gradient, largest, 1.1));
  }
  RC_ASSERT(verify::compared_values(right.values(), one.values(), {}).holds());
  RC_ASSERT(verify::compared_values(right.values(), one.values(), {}).values == 6);
  const ComparedValues compared = verify::compared_values(wrong.values(), one.values(), {});
  RC_ASSERT(!compared.wrong.empty());
  RC_ASSERT(compared.wrong.front().key.kind == verify::PublishedKind::gradient);
}

/// The square of a gradient that is zero but for rounding has an error that is a square, too.
RC_GTEST_PROP(States, SquaresAreJudgedByTheRootsOfATwin, ()) {
  const std::vector<double> weight = drawn_elements(3);
  const double error = std::ldexp(weight.front(), -12), noise = std::ldexp(drawn_elements(1).front(), -40);
  const double times = static_cast<double>(*rc::gen::inRange(1, 15));
  Publications one(1), twin(1), right(1), wrong(1);
  const auto shifted = [&](double by) {
    std::vector<double> elements = weight;
    for (double& x : elements) x += by;
    return elements;
  };
  for (const auto& [run, by, of_noise] :
       {std::tuple(&one, 0.0, 0.0), std::tuple(&twin, error, noise),
        std::tuple(&right, times * error, times * noise), std::tuple(&wrong, 40 * error, 40 * noise)}) {
    add_with_moments(*run, "weight", shifted(by));
    add_with_moments(*run, "bias", {of_noise});
  }
  const GlobalValues of_twin = twin.values();
  const verify::JudgedBy judged{.twin = &of_twin};
  RC_ASSERT(verify::compared_values(right.values(), one.values(), {}, judged).holds());
  std::set<std::string> found;
  for (const verify::WrongValue& each :
       verify::compared_values(wrong.values(), one.values(), {}, judged).wrong)
    found.insert(each.key.name);
  RC_ASSERT(found.contains("exp_avg of weight"));
  RC_ASSERT(found.contains("exp_avg_sq of weight"));
}

/// Returns what is said first of a run in which one state is another.
std::string said_of_state(const std::string& wrong_state, const std::vector<double>& is,
                          const verify::NamesOfLayout& names = {}) {
  Publications one(1), other(1);
  for (Publications* run : {&one, &other}) {
    for (const char* name : {"x", "y"}) run->add(0, name, vector_of(3, "parameter"), {1, 1, 1});
    run->add(0, "norm", vector_of(1, "norm"), {1});
    for (const auto& [name, elements] :
         {std::pair<std::string, std::vector<double>>("exp_avg of x", {1, -2, 4}),
          std::pair<std::string, std::vector<double>>("exp_avg_sq of x", {1, 4, 16}),
          std::pair<std::string, std::vector<double>>("exp_avg of y", {5, 1, -3})})
      run->add(0, name, vector_of(3, "state"), run == &other && name == wrong_state ? is : elements);
    run->add(0, "x", vector_of(3, "parameter", 1), {run == &one ? 1.0 : 2.0, 1, 1});
  }
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), names);
  const bool comes_first = compared.wrong.size() == 2U && compared.wrong.back().key.step == 1;
  return comes_first ? verify::text_of(compared.wrong.front().key) + ": " + compared.wrong.front().what : "";
}

TEST(States, AWrongOneIsExplainedBeforeTheNextParameters) {
  const verify::NamesOfLayout names{{{"dp", 2}, {"tp", 4}}, {}};
  EXPECT_EQ(said_of_state("exp_avg of x", {4, -8, 16}, names),
            "the exp_avg of x after step 0: it is 4 (tp is 4) times the right one");
  EXPECT_EQ(said_of_state("exp_avg_sq of x", {4, 16, 64}, names),
            "the exp_avg_sq of x after step 0: it is 4 (dp is 2, squared) times the right one");
  EXPECT_EQ(said_of_state("exp_avg_sq of x", {1. / 16, 1. / 4, 1}, names),
            "the exp_avg_sq of x after step 0: it is 1/16 (tp is 4, squared) of the right one");
  EXPECT_EQ(said_of_state("exp_avg_sq of x", {10, 40, 160}, names),
            "the exp_avg_sq of x after step 0: it is 10 times the right one");
  EXPECT_EQ(said_of_state("exp_avg of x", {0, 0, 0}), "the exp_avg of x after step 0: it is zero");
  EXPECT_EQ(said_of_state("exp_avg of y", {1, -2, 4}),
            "the exp_avg of y after step 0: it is the exp_avg of x after step 0");
}

/// As of two optimizers, or of one whose states are scaled.
TEST(States, ThoseThatOneRunLacksAreNotComparedButNamed) {
  Publications one(1), other(1);
  for (Publications* run : {&one, &other}) {
    for (const char* name : {"x", "y"}) run->add(0, name, vector_of(1, "parameter"), {1});
    run->add(0, "exp_avg of x", vector_of(1, "state"), {2});
  }
  one.add(0, "exp_avg_sq of x", vector_of(1, "state"), {4});
  other.add(0, "momentum_buffer of x", vector_of(1, "state"), {3});
  other.add(0, "output", vector_of(1, "parameter"), {1});
  other.add(0, "exp_avg of output", vector_of(1, "state"), {7});
  other.add(0, "states of Muon", {.kind = "left out", .whole = {0}, .offset = {0}, .shape = {0}}, {});
  other.add(0, "exp_avg of y", vector_of(1, "state"), {0});
  const ComparedValues compared = verify::compared_values(other.values(), one.values(), {});
  EXPECT_TRUE(compared.holds()) << compared.wrong.front().what;
  EXPECT_EQ(compared.values, 3);
  EXPECT_EQ(verify::not_compared(other.values(), one.values()),
            (std::set<std::string>{"exp_avg_sq of optimizers", "momentum_buffer of optimizers", "output",
                                   "states of Muon"}));
  Publications without(1);
  for (const char* name : {"x", "y"}) without.add(0, name, vector_of(1, "parameter"), {1});
  without.add(0, "exp_avg of y", vector_of(1, "state"), {2});
  const ComparedValues missing = verify::compared_values(without.values(), one.values(), {});
  ASSERT_EQ(missing.wrong.size(), 2U);
  EXPECT_EQ(missing.wrong.front().what, "no rank has it");
  EXPECT_EQ(missing.wrong.back().what, "the reference does not have it");
}

TEST(States, APartOfZeroThatNoRankHasIsMissed) {
  const sim::GuestPlace first{.kind = "state", .whole = {4}, .offset = {0}, .shape = {4}};
  sim::GuestPlace second = first;
  second.begin = 2;
  Publications one(1), two(2), half(2);
  one.add(0, "exp_avg of x", first, {1, 2, 3, 4});
  for (Publications* run : {&two, &half}) run->add(0, "exp_avg of x", first, {1, 2});
  two.add(1, "exp_avg of x", second, {3, 4});
  EXPECT_TRUE(verify::compared_values(two.values(), one.values(), {}).holds());
  const ComparedValues compared = verify::compared_values(half.values(), one.values(), {});
  ASSERT_EQ(compared.wrong.size(), 1U);
  EXPECT_EQ(compared.wrong.front().what, "no rank has 2 of its 4 elements");
}

// ---- layouts in words

std::string ranks_and_options(const std::string& words) {
  const verify::LayoutInWords layout = verify::layout_in_words(words);
  std::string text = std::to_string(layout.ranks());
  for (const std::string& option : verify::megatron_options(layout))
    if (option != "1") text += " " + option;
  return text;
}

TEST(LayoutWords, RanksAreAsFewAsTheExpertsNeed) {
  EXPECT_EQ(verify::layout_in_words("tp2 pp2").ranks(), 4);
  EXPECT_EQ(verify::layout_in_words("tp2 ep2").ranks(), 4);
  EXPECT_EQ(verify::layout_in_words("tp2 sp ep2 etp1 zero").ranks(), 2);
  EXPECT_EQ(verify::layout_in_words("dp2 pp2 cp2").ranks(), 8);
  EXPECT_EQ(verify::layouts_in_words("tp2; pp2;dp4").size(), 3U);
  EXPECT_EQ(
      ranks_and_options("vpp2 pp2 sp --moe-token-dispatcher-type alltoall"),
      "2 --tensor-model-parallel-size --pipeline-model-parallel-size 2 --context-parallel-size "
      "--expert-model-parallel-size --expert-tensor-parallel-size "
      "--num-virtual-stages-per-pipeline-rank 2 --sequence-parallel --moe-token-dispatcher-type alltoall");
}

TEST(LayoutWords, OtherWordsAreRefused) {
  for (const char* words : {"tq2", "tp0", "tp", "tp2 tp4", "tp-1", "tp99999", "2", "", " ", "sp sp", "tp2x",
                            "tp64 pp128", "tp4096 pp4096 cp4096 dp4096"})
    EXPECT_EQ(test::refusal_code([&] { verify::layout_in_words(words); }), "layout_words") << words;
  EXPECT_EQ(test::refusal_code([] { verify::layouts_in_words("tp2; ; pp2"); }), "layout_words");
}

// ---- the whole way, of programs that publish what they compute themselves

class Layouts : public test::WithPython {};

using test::kGuestPublishes;

TEST_F(Layouts, AProgramIsHeldAgainstItselfWithOtherWords) {
  const std::string program = std::string(kGuestPublishes) +
                              "factor = 2 if '--twice' in sys.argv else 1\n"
                              "publish('gradient', 0, [1 * factor, 5 * factor])\n";
  const test::RunResult right = test::run_of(program, "--ranks 2 --against ' --as-it-is'");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(has(right.out, "verified: 1 of 1 layouts compute what the reference computes")) << right.out;
  const test::RunResult wrong = test::run_of(program, "--ranks 2 --against ' --twice'");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(has(wrong.out, "run --ranks 2 --against ' --twice' -- python3 ")) << wrong.out;
  EXPECT_TRUE(has(wrong.out, "the gradient of weight in step 0 on ranks 0, 1: it is 1/2 of the right one"))
      << wrong.out;
}

/// The runs of a comparison are forked by one interpreter, which ends what each has left before the next.
TEST_F(Layouts, ShareOneStart) {
  const test::TemporaryFolder folder("-starts");
  std::filesystem::create_directory(folder.path());
  const std::string program = std::string(kGuestPublishes) + fmt::format(R"(
import subprocess, time
with open('{0}/starters', 'a') as file:
    print(os.getppid(), file=file)
kept = '{0}/left'
if rank == 0 and os.path.exists(kept):
    left = int(open(kept).read())
    assert not os.path.exists(f'/proc/{{left}}'), 'the process of the run before lives'
if rank == 0:
    sleeper = subprocess.Popen(['sleep', '600'], start_new_session=True)
    open(kept, 'w').write(str(sleeper.pid))
publish('gradient', 0, [1.0])
)",
                                                                         folder.path());
  const test::RunResult run = test::run_of(program, "--layouts 'dp2; tp2; pp2'");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  std::ifstream starters(folder.path() + "/starters");
  std::multiset<std::string> all;
  for (std::string line; std::getline(starters, line);) all.insert(line);
  EXPECT_EQ(all.size(), 7U);
  EXPECT_EQ(all.count(*all.begin()), 7U);
}

/// A run that has to be ended takes its interpreter with it, and the next one gets another.
TEST_F(Layouts, GoOnAfterARunThatIsEnded) {
  const std::string program = std::string(kGuestPublishes) +
                              "publish('gradient', 0, [1.0])\n"
                              "if int(os.environ['WORLD_SIZE']) == 2:\n"
                              "    import signal, time\n"
                              "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                              "    link.ask({'do': 'end'})\n"
                              "    time.sleep(600)\n";
  const test::RunResult run = test::run_of(program, "--layouts 'tp2; dp4'");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "\n  dp4         4  holds ")) << run.out;
}

TEST_F(Layouts, AWrongStateIsNamedWithItsParameter) {
  const std::string program =
      std::string(kGuestPublishes) +
      "publish('gradient', 0, [1, 5])\n"
      "publish('state', 0, [3 if '--twice' in sys.argv else 6, 30], 'exp_avg of weight')\n";
  const test::RunResult right = test::run_of(program, "--ranks 2 --against ' --as-it-is'");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(has(right.out, "compared   gradients, states of optimizers of 1 step")) << right.out;
  const test::RunResult wrong = test::run_of(program, "--ranks 2 --against ' --twice' --format json");
  const auto document = nlohmann::json::parse(wrong.out);
  const auto& first = document["layouts"][0]["wrong"][0];
  EXPECT_EQ(first["name"], "exp_avg of weight");
  EXPECT_EQ(first["value"], "the exp_avg of weight after step 0");
}

/// A file of the program that has the number of one that its process has had before.
TEST_F(Layouts, LeaveFilesOfTheProgramAlone) {
  const test::TemporaryFolder folder("-files");
  std::filesystem::create_directory(folder.path());
  const std::string program = std::string(kGuestPublishes) + fmt::format(R"(
publish('gradient', 0, [1.0])
link.ask({{'do': 'end'}})
os.closerange(3, 100)
for number in range(60):
    os.write(os.open(f'{0}/{{rank}}-{{number}}', os.O_CREAT | os.O_RDWR), b'precious')
)",
                                                                         folder.path());
  const test::RunResult run = test::run_of(program, "--layouts dp2");
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(std::filesystem::file_size(file.path()), 8U) << file.path() << run.out;
    ++files;
  }
  EXPECT_EQ(files, 120);
}

TEST_F(Layouts, EndTheirOwnGroupAlone) {
  const std::string program = std::string(kGuestPublishes) +
                              "import signal\n"
                              "publish('gradient', 0, [1.0])\n"
                              "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                              "os.killpg(0, signal.SIGTERM)\n";
  const test::RunResult run = test::run_of(program, "--layouts 'dp2; tp2'");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(Layouts, RanksDrawNumbersOfTheirOwn) {
  const std::string program = std::string(kGuestPublishes) +
                              "import random\n"
                              "publish('gradient', 0, [random.random()])\n";
  const test::RunResult run = test::run_of(program, "--layouts 'dp2'");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "the gradient of weight in step 0 on rank 1")) << run.out;
}

TEST_F(Layouts, WithoutValuesNothingIsCompared) {
  const test::RunResult run = test::run_of("call('barrier', 7)\n", "--layouts 'tp2; pp2'");
  EXPECT_EQ(run.exit_code, 4) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "nothing compared: ")) << run.out;
}

TEST_F(Layouts, AProgramThatTakesNoOptionsOfMegatronIsToldWhatToDo) {
  const std::string program = "import argparse\nargparse.ArgumentParser().parse_args()\n";
  const test::RunResult run = test::run_of(program, "--layouts tp2");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "--layouts gives the program options of Megatron.")) << run.out;
  const test::RunResult alone = test::run_of(program, "--ranks 2 --against ''");
  EXPECT_EQ(alone.exit_code, 4) << alone.out << alone.err;
  const test::RunResult other = test::run_of(program, "--ranks 2 --against ' --x'");
  EXPECT_EQ(other.exit_code, 3) << other.out << other.err;
  EXPECT_FALSE(has(other.out, "--layouts")) << other.out;
}

TEST_F(Layouts, ALayoutThatDoesNotRunIsBroken) {
  const std::string program = std::string(kGuestPublishes) +
                              "publish('gradient', 0, [1, 2])\n"
                              "if int(os.environ['WORLD_SIZE']) == 2 and rank == 1:\n"
                              "    raise ValueError('3 heads')\n";
  const test::RunResult run = test::run_of(program, "--layouts 'dp4; tp2'");
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "broken: 1 of 2 layouts compute what the reference computes")) << run.out;
  EXPECT_TRUE(has(run.out, "guest_raised: rank 1: its program: ValueError: 3 heads")) << run.out;
  EXPECT_TRUE(has(run.out, "run --layouts tp2 -- python3 ")) << run.out;
  const test::RunResult json = test::run_of(program, "--layouts 'dp4; tp2' --format json");
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["verdict"], "broken");
  EXPECT_EQ(document["layouts"][0]["verdict"], "holds");
  EXPECT_EQ(document["layouts"][1]["findings"][0]["code"], "guest_raised");
}

TEST_F(Layouts, OptionsOfOneRunAreRefused) {
  for (const char* options :
       {"--layouts tp2 --ranks 2", "--layouts tp2 --trace /tmp/t.json", "--weights program",
        "--ranks 2 --against-ranks 2", "--layouts tp2 --against '--tp 1'", "--ranks 2 --shrink",
        "--ranks 2 --against ' -v' --shrink"}) {
    const test::RunResult run = test::run_of("call('barrier', 7)\n", options);
    EXPECT_EQ(run.exit_code, 2) << options << run.out;
    EXPECT_TRUE(has(run.err, "option_without_effect")) << run.err;
  }
}

}  // namespace
