#include "verify/backends/exact_values.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>

#include "sim/base/keyed_random.h"

namespace verify {

namespace {

constexpr std::uint32_t kScales = 3;  // scales are 1, 2 and 3

std::vector<std::int32_t> drawn(std::int64_t count, std::uint32_t span) {
  constexpr std::int64_t kAtOnce = 1024;
  const sim::KeyedRandom random = sim::KeyedRandom(0).named("exact_values.draws");
  std::vector<std::int32_t> draws;
  draws.reserve(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> bits;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    bits.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first)));
    std::iota(bits.begin(), bits.end(), static_cast<std::uint64_t>(first));
    random.bits(bits);
    for (const std::uint64_t each : bits)
      draws.push_back(static_cast<std::int32_t>(sim::KeyedRandom::below_of(each, span)));
  }
  return draws;
}

/// Returns a span for which (kScales + 1) * span * ranks is at most 2^24. Every element is less than the
/// product of the first two factors.
std::uint32_t span_of(int ranks) {
  constexpr std::uint32_t kMost = 1U << 24U;
  return std::clamp(kMost / (kScales + 1) / static_cast<std::uint32_t>(ranks), 1U, 1000U);
}

}  // namespace

ExactValues::ExactValues(int ranks, std::int64_t count)
    : span_(span_of(ranks)), draws_(drawn(count, span_)) {}

ExactTerms ExactValues::terms_of(int rank) const {
  const auto index = static_cast<std::uint64_t>(rank);
  static const sim::KeyedRandom scales = sim::KeyedRandom(0).named("exact_values.scales");
  static const sim::KeyedRandom offsets = sim::KeyedRandom(0).named("exact_values.offsets");
  return {1 + static_cast<std::int64_t>(scales.below(index, kScales)),
          1 + static_cast<std::int64_t>(offsets.below(index, span_))};
}

void ExactValues::append(std::vector<std::int32_t>& values, const ExactTerms& terms, std::int64_t first,
                         std::int64_t count) const {
  for (const std::int32_t draw :
       std::span(draws_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)))
    values.push_back(static_cast<std::int32_t>(terms.scale * draw + terms.offset));
}

}  // namespace verify
