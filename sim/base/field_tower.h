#pragma once

/// The functions of the field tower that need a key: a trial draws it anew, so that a false "equal" would
/// have to happen by chance in every trial.
///
///   exp          residue x modulo p_i becomes g_i^x modulo p_{i+1}, with g_i of order p_i: exp(a + b) =
///                exp(a) exp(b)
///   log          the way back: a homomorphism from the products modulo p_{i+1} to the sums modulo p_i, with
///                log(exp(a)) = a and log(a b) = log(a) + log(b)
///   keyed        an arbitrary function of the residues, for what no algebra has (square root, GELU): equal
///                inputs give equal outputs, different ones do not, whoever computes them
///   draw         a random element, all levels live
///
/// A model that nests more exps than the tower has levels computes with FieldFunctions::keyed instead: there
/// exp and log are keyed functions as well, which no depth retires, and which have no laws.
///
/// Calls   exp is two look-ups and a product a level. A tower costs its tables: some 10 us, and 19 to 28 KB.
///         The first log of a process builds the table of discrete logarithms: some 30 ms and 14 MB, of any
///         tower.
/// Errors  none: what nests exps deeper than the tower has levels is retired in all of them, and proves
///         nothing; the log of a zero residue is retired.
/// Exact   always; the same on every machine.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/base/field.h"
#include "sim/base/keyed_random.h"

namespace sim {

/// The powers of an element modulo one of the primes: x = 1024 high + low, and so g^x = (g^1024)^high g^low.
class PowerTable {
 public:
  /// Of a generator modulo the prime of that level, for exponents below `order`.
  PowerTable(std::int64_t generator, std::size_t level, std::int64_t order);

  double power(std::size_t exponent) const;

 private:
  std::size_t level_;
  std::vector<std::uint32_t> low_;
  std::vector<std::uint32_t> high_;
};

enum class FieldFunctions : std::uint8_t { homomorphic, keyed };

class FieldTower {
 public:
  explicit FieldTower(std::uint64_t seed, FieldFunctions functions = FieldFunctions::homomorphic);

  Field exp(const Field& x) const;
  Field log(const Field& x) const;
  Field keyed(std::string_view function, const Field& x) const;
  /// One of two, by an arbitrary function of the residues that are live, for a branch that floats take by an
  /// order.
  bool chooses(std::string_view function, const Field& x) const;
  Field draw(std::string_view name, std::uint64_t index) const;

 private:
  KeyedRandom random_;
  FieldFunctions functions_;
  std::vector<PowerTable> powers_;  // powers_[i] of an element of order p_i modulo p_{i+1}
  std::array<std::int64_t, kFieldLevels> generators_{};
};

}  // namespace sim
