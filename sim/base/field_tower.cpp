#include "sim/base/field_tower.h"

#include <cstddef>
#include <fmt/format.h>
#include <limits>

#include "sim/base/check.h"

namespace sim {

namespace {

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

}  // namespace

FieldTower::FieldTower(std::uint64_t seed) : random_(KeyedRandom(seed).named("field tower")), generators_{} {
  const KeyedRandom random = random_.named("generators");
  for (std::size_t level = 0; level < generators_.size(); ++level) {
    generators_[level] = draw_generator(random.named(fmt::format("level {}", level)), level);
  }
}

Field FieldTower::exp(const Field& x) const {
  // Levels retire from below, so a value that has one left below the top has that one.
  CHECK(x.is_live(kFieldLevels - 2) && "exp is nested deeper than the tower has levels");
  Field result;
  result.residues.fill(std::numeric_limits<double>::quiet_NaN());
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    if (!x.is_live(level)) continue;
    const auto exponent = static_cast<std::int64_t>(x.residues[level]);
    result.residues[level + 1] =
        static_cast<double>(power_modulo(generators_[level], exponent, kFieldPrimes[level + 1]));
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
