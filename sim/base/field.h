#pragma once

/// An element of the field tower: one residue for each of a few primes, each of which divides the next minus one.
/// Sums, products and quotients act on every residue, exactly; a sharded program that equals the serial one
/// as algebra gives the same element, and one that does not gives another (by chance the same, 1 in p a level).
///
/// exp (field_tower.h) takes the residue of one level to the next one up and retires the lowest level. A retired
/// level is NaN, which every operation hands on by itself. Carry one level more than a program nests exps.
///
/// Shapes  kFieldLevels residues, each a whole number in a double: level 0 first, the smallest prime.
/// Errors  CHECK on a quotient by a zero residue of a live level.
/// Exact   always. Primes are below 2^21, so 2,048 products of residues add up exactly in a double.
/// Source  the tower extends the two primes of Mirage (Wu et al. 2024) to nested exps.

#include <array>
#include <cstddef>
#include <cstdint>

namespace sim {

/// The one constant to change: 4, 5 or 6.
inline constexpr std::size_t kFieldLevels = 4;

/// The tower of that many primes.
template <std::size_t levels>
constexpr std::array<std::int64_t, levels> field_primes() {
  static_assert(levels >= 4 && levels <= 6, "towers of 4, 5 and 6 primes are known");
  if constexpr (levels == 4) return {257249, 514499, 1028999, 2057999};
  if constexpr (levels == 5) return {127139, 254279, 508559, 1017119, 2034239};
  if constexpr (levels == 6) return {63419, 126839, 253679, 507359, 1014719, 2029439};
}

inline constexpr std::array<std::int64_t, kFieldLevels> kFieldPrimes = field_primes<kFieldLevels>();

struct Field {
  std::array<double, kFieldLevels> residues{};

  /// The whole number in every level.
  static Field of(std::int64_t value);
  bool is_live(std::size_t level) const { return residues[level] == residues[level]; }
};

Field operator+(const Field& a, const Field& b);
Field operator-(const Field& a, const Field& b);
Field operator-(const Field& a);
Field operator*(const Field& a, const Field& b);
Field operator/(const Field& a, const Field& b);

/// The same levels are live, with the same residues.
bool operator==(const Field& a, const Field& b);

/// One of the two, the same one whatever their order: there is no "larger" in a field, but sides must agree.
Field max(const Field& a, const Field& b);
Field min(const Field& a, const Field& b);

/// base^exponent modulo a prime of the tower.
std::int64_t power_modulo(std::int64_t base, std::int64_t exponent, std::int64_t prime);

}  // namespace sim
