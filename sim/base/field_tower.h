#pragma once

/// The functions of the field tower that need a key: a trial draws it anew, so that a false "equal" would have to
/// happen by chance in every trial.
///
///   exp          residue x modulo p_i becomes g_i^x modulo p_{i+1}, with g_i of order p_i: exp(a + b) = exp(a) exp(b)
///   keyed        an arbitrary function of the residues, for what no algebra has (square root, GELU): equal inputs
///                give equal outputs, different ones do not, whoever computes them
///   draw         a random element, all levels live
///
/// Errors  CHECK when exp is nested deeper than the tower has levels.
/// Exact   always; the same on every machine.

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/base/field.h"
#include "sim/base/keyed_random.h"

namespace sim {

class FieldTower {
 public:
  explicit FieldTower(std::uint64_t seed);

  Field exp(const Field& x) const;
  Field keyed(std::string_view function, const Field& x) const;
  Field draw(std::string_view name, std::uint64_t index) const;

 private:
  KeyedRandom random_;
  std::array<std::int64_t, kFieldLevels - 1> generators_;  // generators_[i] has order p_i modulo p_{i+1}
};

}  // namespace sim
