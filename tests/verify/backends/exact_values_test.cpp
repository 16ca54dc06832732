// Proves that values for collectives give what their terms say in any order of additions in f32.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <rapidcheck/gtest.h>

#include "verify/backends/bandwidth_round.h"

namespace {

using verify::ExactTerms;
using verify::ExactValues;

std::vector<std::int32_t> elements(const ExactValues& values, const ExactTerms& terms, std::int64_t first,
                                   std::int64_t count) {
  std::vector<std::int32_t> all;
  values.append(all, terms, first, count);
  return all;
}

RC_GTEST_PROP(ExactValues, EveryOrderOfAdditionComesToTheSame, ()) {
  const int ranks = *rc::gen::inRange(1, 200);
  const auto count = *rc::gen::inRange<std::int64_t>(1, 40);
  // The group may be as large as groups can be. Only these ranks of it take part.
  const int group = std::max(ranks, *rc::gen::element(1, 8, 4'000, 5'000, 100'000, 1 << 22, 1 << 24));
  const ExactValues values(group, count);
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), *rc::gen::inRange(0, 1000));
  ExactTerms all;
  for (const int rank : order) all += values.terms_of(rank);
  const auto shift = *rc::gen::inRange(0, ranks);
  std::rotate(order.begin(), order.begin() + shift, order.end());
  if (*rc::gen::arbitrary<bool>()) std::reverse(order.begin(), order.end());
  std::vector<float> sums(static_cast<std::size_t>(count), 0);
  for (const int rank : order) {
    const std::vector<std::int32_t> own = elements(values, values.terms_of(rank), 0, count);
    for (std::size_t i = 0; i < own.size(); ++i) {
      RC_ASSERT(own[i] > 0);
      RC_ASSERT(static_cast<std::int64_t>(own[i]) * group <= 1 << 24);  // holds whatever the other ranks give
      sums[i] += static_cast<float>(own[i]);
    }
  }
  const std::vector<std::int32_t> expected = elements(values, all, 0, count);
  for (std::size_t i = 0; i < sums.size(); ++i)
    RC_ASSERT(static_cast<std::int64_t>(sums[i]) == std::int64_t{expected[i]});
}

RC_GTEST_PROP(ExactValues, APieceIsASliceOfTheWholeWhateverItsLength, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(1, 5'000);
  const auto first = *rc::gen::inRange<std::int64_t>(0, count);
  const auto length = *rc::gen::inRange<std::int64_t>(0, count - first + 1);
  const ExactTerms terms = ExactValues(4, count).terms_of(*rc::gen::inRange(0, 100));
  const std::vector<std::int32_t> whole = elements(ExactValues(4, count + 700), terms, 0, count);
  const std::vector<std::int32_t> piece = elements(ExactValues(4, count), terms, first, length);
  RC_ASSERT(piece == std::vector<std::int32_t>(whole.begin() + first, whole.begin() + first + length));
}

TEST(ExactValues, DifferFromRankToRankAndFromElementToElement) {
  constexpr std::int64_t kCount = 1'000;
  const ExactValues values(8, kCount);
  const std::vector<std::int32_t> first = elements(values, values.terms_of(0), 0, kCount);
  for (int rank = 1; rank < 8; ++rank) {
    const std::vector<std::int32_t> other = elements(values, values.terms_of(rank), 0, kCount);
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < other.size(); ++i) equal += first[i] == other[i] ? 1 : 0;
    EXPECT_LT(equal, kCount / 100) << rank;
  }
  const std::vector<std::int32_t> longer = elements(ExactValues(8, 4 * kCount), {1, 1}, 0, 4 * kCount);
  for (std::size_t by = 1; by <= 3 * kCount; ++by) {
    std::int64_t repeated = 0;
    for (std::size_t i = 0; i < kCount; ++i) repeated += longer[i] == longer[i + by] ? 1 : 0;
    EXPECT_LT(repeated, kCount / 100) << by;
  }
}

}  // namespace
