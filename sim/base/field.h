#pragma once

/// An element of the field tower: one residue for each of a few primes, each of which divides the next minus
/// one. Sums, products and quotients act on every residue, exactly; a sharded program that equals the serial
/// one as algebra gives the same element, and one that does not gives another (by chance the same, 1 in p a
/// level).
///
/// exp (field_tower.h) takes the residue of one level to the next one up and retires the lowest level; log
/// takes it back, and retires the highest. A retired level is NaN, which every operation hands on by itself.
/// Carry one level more than a program nests exps.
///
/// Shapes  kFieldLevels residues, each a whole number in a double: level 0 first, the smallest prime.
/// Calls   many products that are added up: field_sum.h. Matrices of them: tensor/matrix_product.h.
/// Errors  none: a quotient by a zero residue, one in p by chance, is 0 on that level: a training of millions
///         of quotients would else have no level left. Products and quotients may still be regrouped; only x
///         / x is not 1 there.
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

/// The primes as doubles, with what stands in for dividing by them.
struct FieldDivisors {
  std::array<double, kFieldLevels> primes{};
  std::array<double, kFieldLevels> reciprocals{};
};

constexpr FieldDivisors field_divisors() {
  FieldDivisors divisors;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    divisors.primes[level] = static_cast<double>(kFieldPrimes[level]);
    divisors.reciprocals[level] = 1 / divisors.primes[level];
  }
  return divisors;
}

inline constexpr FieldDivisors kFieldDivisors = field_divisors();

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
/// The first quotient of a process builds the table of inverses: some 20 ms and 16 MB, of any tower.
Field operator/(const Field& a, const Field& b);

/// The same levels are live, with the same residues.
bool operator==(const Field& a, const Field& b);

/// One of the two, the same one whatever their order: there is no "larger" in a field, but sides must agree.
Field max(const Field& a, const Field& b);
Field min(const Field& a, const Field& b);

/// base^exponent modulo a prime of the tower.
std::int64_t power_modulo(std::int64_t base, std::int64_t exponent, std::int64_t prime);

/// A number from -prime to prime - 1, to [0, prime). A NaN is not below 0, and stays.
inline double wrapped(double value, double prime) { return value + (value < 0 ? prime : 0.0); }

/// So many products of two residues, and one residue more, add up exactly: they stay below 2^53, with a prime
/// to spare.
inline constexpr std::int64_t kExactProducts = 2048;
static_assert(kExactProducts * (kFieldPrimes.back() - 1) * (kFieldPrimes.back() - 1) <
              (std::int64_t{1} << 53) - 2 * kFieldPrimes.back());

/// The sum of at most kExactProducts products and a residue, or its negative, to [0, prime). NaN stays NaN.
///
/// Why it is exact: value * reciprocal is off the true quotient by less than 2 / prime, for two roundings
/// each take at most 2^-53 of it, and value is below 2^53. Adding and taking away kRoundToWhole rounds that
/// to the nearest whole number (its own last place is 1). So the remainder, were it a real number, would lie
/// within half a prime and two of 0, and one prime more brings a negative one into range. It is worked out
/// without rounding: quotient * prime is a whole number below 2^53, as value is, and so is their difference.
inline double reduced(double value, std::size_t level) {
  constexpr double kRoundToWhole = 0x1.8p52;
  const double prime = kFieldDivisors.primes[level];
  const double quotient = (value * kFieldDivisors.reciprocals[level] + kRoundToWhole) - kRoundToWhole;
  return wrapped(value - quotient * prime, prime);
}

// The loops over the levels are unrolled by request: -O2 would keep each element in memory between two of
// them, which makes a product half as fast and a FieldSum a third.

inline Field reduced(const Field& sum) {
  Field result;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    result.residues[level] = reduced(sum.residues[level], level);
  }
  return result;
}

inline Field operator+(const Field& a, const Field& b) {
  Field sum;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const double prime = kFieldDivisors.primes[level];
    sum.residues[level] = wrapped((a.residues[level] + b.residues[level]) - prime, prime);
  }
  return sum;
}

inline Field operator-(const Field& a, const Field& b) {
  Field difference;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    difference.residues[level] = wrapped(a.residues[level] - b.residues[level], kFieldDivisors.primes[level]);
  }
  return difference;
}

inline Field operator-(const Field& a) { return Field() - a; }

inline Field operator*(const Field& a, const Field& b) {
  Field product;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    product.residues[level] = a.residues[level] * b.residues[level];
  }
  return reduced(product);
}

}  // namespace sim
