// Proves which open pairs a value would close, which pairs a row closes, and when all pairs open again.

#include <gtest/gtest.h>

#include "verify/campaign/drawn_settings.h"

namespace {

using verify::PairCover;
using Row = std::vector<int>;
constexpr int kNone = PairCover::kNone;

TEST(PairCover, AValueBringsItsOpenPairs) {
  PairCover cover({2, 3, 2});
  EXPECT_EQ(cover.gain(0, 0, {kNone, kNone, kNone}), (PairCover::Gain{0, 5}));
  EXPECT_EQ(cover.gain(0, 0, {kNone, 1, kNone}), (PairCover::Gain{1, 2}));
  cover.cover({0, 1, 0});
  EXPECT_EQ(cover.gain(0, 0, {kNone, 1, kNone}), (PairCover::Gain{0, 1}));
  EXPECT_EQ(cover.gain(0, 0, {kNone, 2, 1}), (PairCover::Gain{2, 0}));
  EXPECT_EQ(cover.gain(0, 1, {kNone, 1, 0}), (PairCover::Gain{2, 0}));
}

TEST(PairCover, AllPairsOpenAgainWhenNoneIsLeft) {
  PairCover cover({2, 2, 2});
  for (const Row& row : {Row{0, 0, 0}, Row{0, 1, 1}, Row{1, 0, 1}}) {
    cover.cover(row);
    EXPECT_EQ(cover.covers(), 0);
  }
  cover.cover({1, 1, 0});
  EXPECT_EQ(cover.covers(), 1);
  EXPECT_EQ(cover.gain(0, 0, {kNone, 0, 0}), (PairCover::Gain{2, 0}));
}

TEST(PairCover, APairThatIsLeftOutStaysOut) {
  PairCover cover({2, 2});
  cover.leave_out(0, 1, 1, 1);
  for (int round = 1; round <= 2; ++round) {
    EXPECT_EQ(cover.gain(0, 1, {kNone, 1}), (PairCover::Gain{0, 0}));
    for (const Row& row : {Row{0, 0}, Row{0, 1}, Row{1, 0}}) cover.cover(row);
    EXPECT_EQ(cover.covers(), round);
  }
}

TEST(PairCover, ARowClosesThePairsOfTheValuesThatItHas) {
  PairCover cover({2, 2, 2});
  cover.cover({0, kNone, 1});
  EXPECT_FALSE(cover.is_open(0, 0, 2, 1));
  EXPECT_TRUE(cover.is_open(0, 0, 2, 0));
  EXPECT_EQ(cover.gain(1, 0, {0, kNone, 1}), (PairCover::Gain{2, 0}));
}

TEST(PairCover, OneFactorHasNoPairs) {
  PairCover cover({3});
  EXPECT_EQ(cover.gain(0, 2, {kNone}), (PairCover::Gain{0, 0}));
  cover.cover({2});
  EXPECT_EQ(cover.covers(), 1);
}

}  // namespace
