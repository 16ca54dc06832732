#pragma once

/// The functions of the field tower that need a key. Each trial draws a new key, so a false "equal" would
/// have to happen by chance in every trial.
///
///   exp          residue x modulo p_i becomes g_i^x modulo p_{i+1}, where g_i has order p_i:
///                exp(a + b) = exp(a) exp(b)
///   log          the way back: a homomorphism from products modulo p_{i+1} to sums modulo p_i, with
///                log(exp(a)) = a and log(a b) = log(a) + log(b)
///   keyed        an arbitrary function of the residues, for functions that have no algebra (square root,
///                GELU): equal inputs give equal outputs and different inputs different ones, on
///                every rank
///   draw         a random element, with all levels live
///
/// A model that nests more exps than the tower has levels uses FieldFunctions::keyed instead. There exp
/// and log are keyed functions as well: no nesting depth retires them, and they obey no laws.
///
/// Calls   exp costs two table look-ups and one product per level. Constructing a tower builds its
///         tables: about 10 us, and 19 to 28 KB. The first log in a process builds the table of discrete
///         logarithms, which serves every tower: about 30 ms and 14 MB.
/// Errors  none. A value that nests exps deeper than the tower has levels is retired on all levels and
///         proves nothing. The log of a zero residue is retired.
/// Exact   always; the same on every machine.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "sim/base/field.h"
#include "sim/base/keyed_random.h"

namespace sim {

/// The powers of an element modulo one of the primes: with x = 1024 high + low, g^x is the product of
/// (g^1024)^high and g^low.
class PowerTable {
 public:
  PowerTable() = default;
  /// Builds the powers of `generator` modulo the prime of `level`, for exponents below `order`.
  PowerTable(std::int64_t generator, std::size_t level, std::int64_t order);

  double low(std::size_t exponent) const { return factor(exponent % kLowPowers); }
  double high(std::size_t exponent) const { return factor(kLowPowers + exponent / kLowPowers); }

 private:
  static constexpr std::size_t kLowPowers = 1024;  // about the square root of the largest exponent

  /// A conversion from a signed number is one instruction.
  double factor(std::size_t i) const { return static_cast<std::int32_t>(factors_[i]); }

  std::vector<std::uint32_t> factors_;
};

enum class FieldFunctions : std::uint8_t { homomorphic, keyed };

class FieldTower {
 public:
  explicit FieldTower(std::uint64_t seed, FieldFunctions functions = FieldFunctions::homomorphic);

  Field exp(const Field& x) const;
  Field log(const Field& x) const;
  Field keyed(std::string_view function, const Field& x) const;
  /// Chooses one of two branches by an arbitrary function of the live residues. It stands in for a branch
  /// that floats take by comparing.
  bool chooses(std::string_view function, const Field& x) const;
  Field draw(std::string_view name, std::uint64_t index) const;

 private:
  /// The keyed functions of layers. Their streams are named once, because naming costs more than an element.
  static constexpr std::array<std::string_view, 10> kNamed = {"exp",       "log",
                                                              "rsqrt",     "sqrt",
                                                              "gelu_tanh", "gelu_tanh_derivative",
                                                              "gelu_erf",  "gelu_erf_derivative",
                                                              "silu",      "silu_derivative"};
  KeyedRandom stream_of(std::string_view function) const;

  KeyedRandom random_;
  FieldFunctions functions_;
  std::array<std::uint64_t, kNamed.size()> named_{};  // the keys of the streams of kNamed
  std::array<PowerTable, kFieldLevels - 1> powers_;   // [i]: of an element of order p_i, modulo p_{i+1}
  std::array<std::int64_t, kFieldLevels> generators_{};
};

inline Field FieldTower::exp(const Field& x) const {
  if (functions_ == FieldFunctions::keyed) return keyed("exp", x);
  std::array<double, kFieldLevels> low, high;
#pragma GCC unroll kFieldLevels
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    low[level] = std::numeric_limits<double>::quiet_NaN();
    high[level] = 1;
    if (level == 0 || !x.is_live(level - 1)) continue;
    const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(x.residues[level - 1]));
    low[level] = powers_[level - 1].low(exponent);
    high[level] = powers_[level - 1].high(exponent);
  }
  return reduced(by_levels([&](std::size_t level, auto lanes) {
    return beside_each_other(low, level, lanes) * beside_each_other(high, level, lanes);
  }));
}

}  // namespace sim
