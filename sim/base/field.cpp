#include "sim/base/field.h"

#include <limits>
#include <vector>

#include "sim/base/check.h"

namespace sim {

namespace {

/// The table has for each level the inverse of every residue. The inverse of 0 is 0.
using InverseTable = std::array<std::vector<std::uint32_t>, kFieldLevels>;

/// Each inverse follows from a smaller one: with p = q r + s, 0 = q r + s modulo p, so 1 / r = -q / s.
std::vector<std::uint32_t> inverses_of(std::size_t level) {
  const auto prime = static_cast<std::uint32_t>(kFieldPrimes[level]);
  std::vector<std::uint32_t> inverses(prime);
  inverses[1] = 1;
  for (std::uint32_t residue = 2; residue < prime; ++residue) {
    const std::uint32_t quotient = prime / residue;
    const double minus_quotient = prime - quotient;
    const double product = minus_quotient * inverses[prime % residue];
    inverses[residue] = static_cast<std::uint32_t>(reduced(product, level));
  }
  return inverses;
}

InverseTable build_inverse_table() {
  InverseTable table;
  for (std::size_t level = 0; level < kFieldLevels; ++level) table[level] = inverses_of(level);
  return table;
}

/// The first division in the process builds the table. It never changes afterwards.
const InverseTable& inverse_table() {
  static const InverseTable table = build_inverse_table();
  return table;
}

double inverse(double residue, const std::vector<std::uint32_t>& inverses) {
  if (residue != residue) return residue;
  return inverses[static_cast<std::size_t>(residue)];
}

}  // namespace

std::int64_t power_modulo(std::int64_t base, std::int64_t exponent, std::int64_t prime) {
  SIM_CHECK(base >= 0 && base < prime && exponent >= 0 && prime <= kFieldPrimes.back());
  std::int64_t result = 1;
  for (std::int64_t square = base; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result * square % prime;
    square = square * square % prime;
  }
  return result;
}

Field Field::of(std::int64_t value) {
  Field result;
  if (value >= 0 && value < kFieldPrimes.front()) {  // as most numbers are
    result.residues.fill(static_cast<double>(value));
    return result;
  }
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const std::int64_t prime = kFieldPrimes[level];
    result.residues[level] = static_cast<double>((value % prime + prime) % prime);
  }
  return result;
}

Field operator/(const Field& a, const Field& b) {
  const InverseTable& table = inverse_table();
  Field inverses;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    inverses.residues[level] = inverse(b.residues[level], table[level]);
  }
  return a * inverses;
}

bool equal_as_numbers(const Field& a, const Field& b) {
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    if (a.is_live(level) != b.is_live(level)) return false;
    if (a.is_live(level) && a.residues[level] != b.residues[level]) return false;
  }
  return true;
}

bool precedes_further_up(const Field& a, const Field& b) {
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

}  // namespace sim
