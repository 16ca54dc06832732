#include "sim/base/field_tower.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <span>

#include "sim/base/check.h"
#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"

namespace sim {

namespace {

/// Draws an element of order p_level modulo the next prime p': some h to the power (p' - 1) / p_level,
/// unless that is 1.
std::int64_t draw_generator(const KeyedRandom& random, std::size_t level) {
  const std::int64_t prime = kFieldPrimes[level];
  const std::int64_t next = kFieldPrimes[level + 1];
  for (std::uint64_t index = 0;; ++index) {
    const std::int64_t h = 2 + random.below(index, static_cast<std::uint32_t>(next - 2));
    const std::int64_t generator = power_modulo(h, (next - 1) / prime, next);
    if (generator != 1) return generator;
  }
}

/// Sets all[i] to base^i. From the first powers, all up to twice their number follow, one product each.
void take_powers(std::int64_t base, std::size_t level, std::span<std::uint32_t> all) {
  all[0] = 1;
  if (all.size() == 1) return;
  all[1] = static_cast<std::uint32_t>(base);
  vectorised([&] {
    for (std::size_t known = 2; known < all.size(); known *= 2) {
      const std::size_t more = std::min(known, all.size() - known);
      const double next = reduced(static_cast<double>(all[known - 1]) * all[1], level);
      for (std::size_t i = 0; i < more; ++i) {
        const auto power = static_cast<std::int32_t>(all[i]);
        all[known + i] = static_cast<std::uint32_t>(
            static_cast<std::int32_t>(reduced(next * static_cast<double>(power), level)));
      }
    }
  });
}

/// Returns the smallest base whose powers are all the residues except 0. Each prime minus one is twice the
/// prime below.
std::int64_t primitive_root(std::size_t level) {
  const std::int64_t prime = kFieldPrimes[level];
  const std::int64_t below = kFieldPrimes[level - 1];
  SIM_CHECK(prime == 2 * below + 1);
  std::int64_t root = 2;
  while (power_modulo(root, 2, prime) == 1 || power_modulo(root, below, prime) == 1) ++root;
  return root;
}

/// The table has for each level but the lowest the discrete logarithm of each residue to the base of the
/// primitive root, modulo the prime below. The entry for 0 is not used.
using LogarithmTable = std::array<std::vector<std::uint32_t>, kFieldLevels>;

LogarithmTable build_logarithm_table() {
  LogarithmTable table;
  for (std::size_t level = 1; level < kFieldLevels; ++level) {
    const std::int64_t root = primitive_root(level);
    table[level].resize(static_cast<std::size_t>(kFieldPrimes[level]));
    std::int64_t power = 1;
    for (std::int64_t exponent = 0; exponent < kFieldPrimes[level] - 1; ++exponent) {
      table[level][static_cast<std::size_t>(power)] =
          static_cast<std::uint32_t>(exponent % kFieldPrimes[level - 1]);
      power = power * root % kFieldPrimes[level];
    }
  }
  return table;
}

/// The first log in the process builds the table. It never changes afterwards.
const LogarithmTable& logarithm_table() {
  static const LogarithmTable table = build_logarithm_table();
  return table;
}

}  // namespace

PowerTable::PowerTable(std::int64_t generator, std::size_t level, std::int64_t order)
    : factors_(kLowPowers + static_cast<std::size_t>(order) / kLowPowers + 1) {
  const std::span<std::uint32_t> all(factors_);
  take_powers(generator, level, all.first(kLowPowers));
  take_powers(power_modulo(generator, kLowPowers, kFieldPrimes[level]), level, all.subspan(kLowPowers));
}

FieldTower::FieldTower(std::uint64_t seed, FieldFunctions functions)
    : random_(KeyedRandom(seed).named("field tower")), functions_(functions) {
  for (std::size_t i = 0; i < kNamed.size(); ++i) named_[i] = random_.named(kNamed[i]).key();
  if (functions_ == FieldFunctions::keyed) return;
  const KeyedRandom random = random_.named("generators");
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    const std::int64_t generator = draw_generator(random.named(fmt::format("level {}", level)), level);
    powers_[level] = PowerTable(generator, level + 1, kFieldPrimes[level]);
    generators_[level] = generator;
  }
}

/// With y = root^k and generator = root^g, the quotient k / g modulo the prime below is the exponent of
/// the generator that gives y, up to a factor whose order divides (p_{i+1} - 1) / p_i.
Field FieldTower::log(const Field& x) const {
  if (functions_ == FieldFunctions::keyed) return keyed("log", x);
  const LogarithmTable& table = logarithm_table();
  Field numerators;
  Field denominators;
  numerators.residues.fill(std::numeric_limits<double>::quiet_NaN());
  denominators.residues.fill(1);
  for (std::size_t level = 1; level < kFieldLevels; ++level) {
    if (!x.is_live(level) || x.residues[level] == 0) continue;
    numerators.residues[level - 1] = table[level][static_cast<std::size_t>(x.residues[level])];
    denominators.residues[level - 1] = table[level][static_cast<std::size_t>(generators_[level - 1])];
  }
  return numerators / denominators;
}

KeyedRandom FieldTower::stream_of(std::string_view function) const {
  const auto known = std::find(kNamed.begin(), kNamed.end(), function);
  return known == kNamed.end() ? random_.named(function)
                               : KeyedRandom(named_[static_cast<std::size_t>(known - kNamed.begin())]);
}

Field FieldTower::keyed(std::string_view function, const Field& x) const {
  std::array<std::uint64_t, kFieldLevels> words{};
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (x.is_live(level)) words[level] = static_cast<std::uint64_t>(x.residues[level]) * kFieldLevels + level;
  }
  stream_of(function).bits(words);
  Field result = x;  // retired levels stay retired
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (!x.is_live(level)) continue;
    result.residues[level] =
        KeyedRandom::below_of(words[level], static_cast<std::uint32_t>(kFieldPrimes[level]));
  }
  return result;
}

bool FieldTower::chooses(std::string_view function, const Field& x) const {
  const KeyedRandom random = random_.named("chooses").named(function);
  std::uint64_t bits = 0;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (x.is_live(level))
      bits ^= random.bits(static_cast<std::uint64_t>(x.residues[level]) * kFieldLevels + level);
  }
  return bits % 2 == 1;
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
