#include "sim/base/field_tower.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <limits>

#include "sim/base/check.h"

namespace sim {

namespace {

constexpr std::size_t kLowPowers = 1024;  // about the square root of the largest exponent

/// An element of order p_level modulo the next prime: any h to the power (p' - 1) / p, unless that is 1.
std::int64_t draw_generator(const KeyedRandom& random, std::size_t level) {
  const std::int64_t prime = kFieldPrimes[level];
  const std::int64_t next = kFieldPrimes[level + 1];
  for (std::uint64_t index = 0;; ++index) {
    const std::int64_t h = 2 + random.below(index, static_cast<std::uint32_t>(next - 2));
    const std::int64_t generator = power_modulo(h, (next - 1) / prime, next);
    if (generator != 1) return generator;
  }
}

/// base^0, base^1, ... Each from two of half its exponent, so that few have to wait for the one before.
std::vector<std::uint32_t> first_powers(std::int64_t base, std::size_t count, std::size_t level) {
  std::vector<std::uint32_t> powers(std::max<std::size_t>(count, 2));
  powers[0] = 1;
  powers[1] = static_cast<std::uint32_t>(base);
  for (std::size_t exponent = 2; exponent < count; ++exponent) {
    const double lower_half = powers[exponent / 2];
    const double upper_half = powers[exponent - exponent / 2];
    powers[exponent] = static_cast<std::uint32_t>(reduced(lower_half * upper_half, level));
  }
  return powers;
}

}  // namespace

PowerTable::PowerTable(std::int64_t generator, std::size_t level, std::int64_t order)
    : level_(level),
      low_(first_powers(generator, kLowPowers, level)),
      high_(first_powers(power_modulo(generator, kLowPowers, kFieldPrimes[level]),
                         static_cast<std::size_t>(order) / kLowPowers + 1, level)) {}

double PowerTable::power(std::size_t exponent) const {
  const double low = low_[exponent % kLowPowers];
  const double high = high_[exponent / kLowPowers];
  return reduced(low * high, level_);
}

FieldTower::FieldTower(std::uint64_t seed) : random_(KeyedRandom(seed).named("field tower")) {
  const KeyedRandom random = random_.named("generators");
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    const std::int64_t generator = draw_generator(random.named(fmt::format("level {}", level)), level);
    powers_.emplace_back(generator, level + 1, kFieldPrimes[level]);
  }
}

Field FieldTower::exp(const Field& x) const {
  // Levels retire from below, so a value that has one left below the top has that one.
  CHECK(x.is_live(kFieldLevels - 2) && "exp is nested deeper than the tower has levels");
  Field result;
  result.residues.fill(std::numeric_limits<double>::quiet_NaN());
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    if (!x.is_live(level)) continue;
    result.residues[level + 1] = powers_[level].power(static_cast<std::size_t>(x.residues[level]));
  }
  return result;
}

Field FieldTower::keyed(std::string_view function, const Field& x) const {
  const KeyedRandom random = random_.named(function);
  Field result = x;  // retired levels stay retired
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (!x.is_live(level)) continue;
    const auto index = static_cast<std::uint64_t>(x.residues[level]) * kFieldLevels + level;
    result.residues[level] = random.below(index, static_cast<std::uint32_t>(kFieldPrimes[level]));
  }
  return result;
}

Field FieldTower::draw(std::string_view name, std::uint64_t index) const {
  const KeyedRandom random = random_.named("draw").named(name);
  Field result;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    result.residues[level] =
        random.below(index * kFieldLevels + level, static_cast<std::uint32_t>(kFieldPrimes[level]));
  }
  return result;
}

}  // namespace sim
