#pragma once

/// An element of the field tower: one residue for each of a few primes, where each prime divides the next
/// prime minus one. Sums, products and quotients act on every residue, exactly. A sharded program that
/// equals the serial program as algebra gives the same element. One that does not gives another element
/// (on each level it agrees by chance with probability 1 / p).
///
/// exp (field_tower.h) takes the residue of each level up to the next level and retires the lowest level.
/// log takes it back down and retires the highest level. A retired level is NaN, and every operation
/// propagates NaN by itself. A tower needs at least one level more than the depth to which a program
/// nests exps.
///
/// Shapes  kFieldLevels residues, level 0 (the smallest prime) first. Each is a whole number held in a
///         double.
/// Calls   FieldSum (field_sum.h) adds up many products. add_matrix_product (sim/cpu/matrix_product.h)
///         multiplies matrices.
/// Errors  none. A quotient by a zero residue, which happens by chance once in p, is 0 on that level.
///         Otherwise a training run of millions of quotients would have no live level left. Products and
///         quotients may still be regrouped; the only exception is that x / x is not 1 there.
/// Exact   always. The primes are below 2^21, so 2,048 products of residues add up exactly in a double.
/// Source  the tower extends the two primes of Mirage (Wu et al. 2024) to nested exps.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sim {

/// The number of levels: 4, 5 or 6. This is the only constant to change.
inline constexpr std::size_t kFieldLevels = 4;

/// The primes of the tower that has `levels` of them.
template <std::size_t levels>
constexpr std::array<std::int64_t, levels> field_primes() {
  static_assert(levels >= 4 && levels <= 6, "towers of 4, 5 and 6 primes are known");
  if constexpr (levels == 4) return {257249, 514499, 1028999, 2057999};
  if constexpr (levels == 5) return {127139, 254279, 508559, 1017119, 2034239};
  if constexpr (levels == 6) return {63419, 126839, 253679, 507359, 1014719, 2029439};
}

inline constexpr std::array<std::int64_t, kFieldLevels> kFieldPrimes = field_primes<kFieldLevels>();

/// The primes as doubles, with the reciprocals that replace division by them.
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

  /// Returns `value` as an element: its residue on every level.
  static Field of(std::int64_t value);
  bool is_live(std::size_t level) const { return residues[level] == residues[level]; }
};

Field operator+(const Field& a, const Field& b);
Field operator-(const Field& a, const Field& b);
Field operator-(const Field& a);
Field operator*(const Field& a, const Field& b);
/// The first division in a process builds the table of inverses, which serves every tower: about 20 ms
/// and 16 MB.
Field operator/(const Field& a, const Field& b);

/// Compares two elements whose residues on the first level are equal or retired. The first level on which
/// they differ decides. A retired level is ordered after all residues.
bool precedes_further_up(const Field& a, const Field& b);

/// Orders two elements as precedes_further_up() does. Most pairs differ on the first level, which both have.
inline bool precedes(const Field& a, const Field& b) {
  if (a.residues[0] < b.residues[0]) return true;
  if (a.residues[0] > b.residues[0]) return false;
  return precedes_further_up(a, b);
}

/// Returns one of the two, and the same one whatever their order. A field has no "larger" element, but
/// all ranks must agree on one.
inline Field max(const Field& a, const Field& b) { return precedes(a, b) ? b : a; }
inline Field min(const Field& a, const Field& b) { return precedes(a, b) ? a : b; }

/// Returns base^exponent modulo a prime of the tower.
std::int64_t power_modulo(std::int64_t base, std::int64_t exponent, std::int64_t prime);

/// Wraps whole numbers from -prime to prime - 1 into [0, prime). A NaN is not below 0, so it stays NaN.
/// `Lanes` is double, or TwoLevels.
template <typename Lanes>
inline Lanes wrapped(Lanes value, Lanes prime) {
  return value + (value < Lanes{} ? prime : Lanes{});
}

/// This many products of two residues, plus one residue, add up exactly: the sum stays below 2^53, with a
/// margin of two primes.
inline constexpr std::int64_t kExactProducts = 2048;
static_assert(kExactProducts * (kFieldPrimes.back() - 1) * (kFieldPrimes.back() - 1) <
              (std::int64_t{1} << 53) - 2 * kFieldPrimes.back());

/// Reduces the sum of at most kExactProducts products and one residue, or the negative of such a sum, to
/// [0, prime). NaN stays NaN.
///
/// Why it is exact: value * reciprocal differs from the true quotient by less than 2 / prime, because
/// each of two roundings contributes at most 2^-53 of the quotient, and value is below 2^53. Adding and
/// subtracting kRoundToWhole rounds the product to the nearest whole number (the last place of
/// kRoundToWhole is 1). So the remainder, computed in real numbers, lies within prime / 2 + 2 of 0, and
/// adding one prime brings a negative remainder into range. The remainder is computed without rounding:
/// quotient * prime is a whole number below 2^53, value is one too, and so is their difference.
template <typename Lanes>
inline Lanes reduced(Lanes value, Lanes prime, Lanes reciprocal) {
  constexpr double kRoundToWhole = 0x1.8p52;
  const Lanes quotient = (value * reciprocal + kRoundToWhole) - kRoundToWhole;
  return wrapped(value - quotient * prime, prime);
}
inline double reduced(double value, std::size_t level) {
  return reduced(value, kFieldDivisors.primes[level], kFieldDivisors.reciprocals[level]);
}

/// Residues on two neighbouring levels, on which one instruction acts. The compiler does not find these pairs
/// by itself: it takes four instructions for four levels.
using TwoLevels = double __attribute__((vector_size(2 * sizeof(double))));

/// The residues of an element on the levels from one on, as many as there are in `Lanes`.
template <typename Lanes>
inline Lanes lanes_at(const std::array<double, kFieldLevels>& levels, std::size_t level) {
  Lanes lanes;
  std::memcpy(&lanes, levels.data() + level, sizeof(Lanes));
  return lanes;
}

/// The same of residues that were just computed one by one: they go from register to register.
inline TwoLevels beside_each_other(const std::array<double, kFieldLevels>& levels, std::size_t level,
                                   TwoLevels) {
  return TwoLevels{levels[level], levels[level + 1]};
}
inline double beside_each_other(const std::array<double, kFieldLevels>& levels, std::size_t level, double) {
  return levels[level];
}

/// Returns the element whose residues are of(level, lanes) on each level. `lanes` is TwoLevels(), or double()
/// for the last of an odd number of levels, and the function returns as many residues.
template <typename Function>
inline Field by_levels(const Function& of) {
  Field result;
  const auto set = [&](std::size_t level, auto lanes) {
    lanes = of(level, lanes);
    std::memcpy(result.residues.data() + level, &lanes, sizeof(lanes));
  };
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level + 1 < kFieldLevels; level += 2) set(level, TwoLevels{});
  if constexpr (kFieldLevels % 2 == 1) set(kFieldLevels - 1, double{});
  return result;
}

/// Returns what operator== returns for two elements whose bits differ.
bool equal_as_numbers(const Field& a, const Field& b);

/// True if the same levels are live and have the same residues.
inline bool operator==(const Field& a, const Field& b) {
  std::uint64_t other_bits = 0;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    other_bits |=
        std::bit_cast<std::uint64_t>(a.residues[level]) ^ std::bit_cast<std::uint64_t>(b.residues[level]);
  }
  return other_bits == 0 || equal_as_numbers(a, b);
}

inline Field reduced(const Field& sum) {
  return by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
    return reduced(lanes_at<Lanes>(sum.residues, level), lanes_at<Lanes>(kFieldDivisors.primes, level),
                   lanes_at<Lanes>(kFieldDivisors.reciprocals, level));
  });
}

inline Field operator+(const Field& a, const Field& b) {
  return by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
    const auto primes = lanes_at<Lanes>(kFieldDivisors.primes, level);
    return wrapped((lanes_at<Lanes>(a.residues, level) + lanes_at<Lanes>(b.residues, level)) - primes,
                   primes);
  });
}

inline Field operator-(const Field& a, const Field& b) {
  return by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
    return wrapped(lanes_at<Lanes>(a.residues, level) - lanes_at<Lanes>(b.residues, level),
                   lanes_at<Lanes>(kFieldDivisors.primes, level));
  });
}

inline Field operator-(const Field& a) { return Field() - a; }

inline Field operator*(const Field& a, const Field& b) {
  return reduced(by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
    return lanes_at<Lanes>(a.residues, level) * lanes_at<Lanes>(b.residues, level);
  }));
}

}  // namespace sim
