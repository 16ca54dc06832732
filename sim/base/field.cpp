#include "sim/base/field.h"

#include <cmath>
#include <limits>

#include "sim/base/check.h"

namespace sim {

namespace {

constexpr std::int64_t kLargestPrime = kFieldPrimes.back();
static_assert(2048 * (kLargestPrime - 1) * (kLargestPrime - 1) < (std::int64_t{1} << 53));

double prime_of(std::size_t level) { return static_cast<double>(kFieldPrimes[level]); }

/// A whole number below 2^53 in magnitude, or NaN, to [0, prime).
double reduced(double value, std::size_t level) {
  const double prime = prime_of(level);
  const double remainder = std::fma(-std::floor(value / prime), prime, value);  // off by one prime at most
  if (remainder < 0) return remainder + prime;
  return remainder >= prime ? remainder - prime : remainder;
}

template <typename Operation>
Field each_level(Operation&& operation) {
  Field result;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    result.residues[level] = reduced(operation(level), level);
  }
  return result;
}

double inverse(double residue, std::size_t level) {
  if (residue != residue) return residue;
  CHECK(residue != 0);
  const std::int64_t prime = kFieldPrimes[level];
  return static_cast<double>(power_modulo(static_cast<std::int64_t>(residue), prime - 2, prime));
}

/// The first live level at which they differ decides; retired levels come after all residues.
bool precedes(const Field& a, const Field& b) {
  const auto rank = [](double residue) {
    return residue == residue ? residue : std::numeric_limits<double>::infinity();
  };
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const double of_a = rank(a.residues[level]);
    const double of_b = rank(b.residues[level]);
    if (of_a != of_b) return of_a < of_b;
  }
  return false;
}

}  // namespace

std::int64_t power_modulo(std::int64_t base, std::int64_t exponent, std::int64_t prime) {
  CHECK(base >= 0 && base < prime && exponent >= 0 && prime <= kLargestPrime);
  std::int64_t result = 1;
  for (std::int64_t square = base; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result * square % prime;
    square = square * square % prime;
  }
  return result;
}

Field Field::of(std::int64_t value) {
  Field result;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const std::int64_t prime = kFieldPrimes[level];
    result.residues[level] = static_cast<double>((value % prime + prime) % prime);
  }
  return result;
}

Field operator+(const Field& a, const Field& b) {
  return each_level([&](std::size_t level) { return a.residues[level] + b.residues[level]; });
}

Field operator-(const Field& a, const Field& b) {
  return each_level([&](std::size_t level) { return a.residues[level] - b.residues[level]; });
}

Field operator-(const Field& a) { return Field() - a; }

Field operator*(const Field& a, const Field& b) {
  return each_level([&](std::size_t level) { return a.residues[level] * b.residues[level]; });
}

Field operator/(const Field& a, const Field& b) {
  return each_level([&](std::size_t level) { return a.residues[level] * inverse(b.residues[level], level); });
}

bool operator==(const Field& a, const Field& b) {
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (a.is_live(level) != b.is_live(level)) return false;
    if (a.is_live(level) && a.residues[level] != b.residues[level]) return false;
  }
  return true;
}

Field max(const Field& a, const Field& b) { return precedes(a, b) ? b : a; }
Field min(const Field& a, const Field& b) { return precedes(a, b) ? a : b; }

}  // namespace sim
