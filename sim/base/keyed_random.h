#pragma once

/// Random numbers that are a pure function of (seed, name, index): any rank can draw any slice of a matrix,
/// and gets the slice of the whole. No state, no order of calls.
///
/// Exact   the same bits on every machine: Philox 4x32-10 in whole numbers; uniform() is a whole number of
///         2^-53.
/// Source  Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/philox.h"

namespace sim {

/// One block of Philox 4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class KeyedRandom {
 public:
  explicit KeyedRandom(std::uint64_t seed) : key_(seed) {}
  /// Of this stream; KeyedRandom(key()) is the same one.
  std::uint64_t key() const { return key_; }
  /// A stream of its own for each name: "layers.3.mlp.linear_fc1.weight", "dropout".
  KeyedRandom named(std::string_view name) const;

  std::uint64_t bits(std::uint64_t index) const;
  /// Each index becomes its bits: the same, several at a time.
  void bits(std::span<std::uint64_t> indices) const;
  /// In [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const { return uniform_of(bits(index)); }
  static double uniform_of(std::uint64_t bits) { return random_words::uniform_of(bits); }
  /// A whole number from 0 to below - 1, each as likely as the others (up to one part in 2^32 for small
  /// `below`).
  std::uint32_t below(std::uint64_t index, std::uint32_t below) const { return below_of(bits(index), below); }
  static std::uint32_t below_of(std::uint64_t bits, std::uint32_t below);

 private:
  std::uint64_t key_;
};

}  // namespace sim
