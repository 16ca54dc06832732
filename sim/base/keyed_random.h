#pragma once

/// Random numbers that are a pure function of (seed, name, index). Any rank can draw any slice of a
/// matrix and gets exactly that slice of the whole matrix. There is no state, and the order of calls does
/// not matter.
///
/// Exact   the same bits on every machine: Philox 4x32-10 in integers. uniform() returns a whole multiple
///         of 2^-53.
/// Source  Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/philox.h"

namespace sim {

/// Returns one block of Philox 4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class KeyedRandom {
 public:
  explicit KeyedRandom(std::uint64_t seed) : key_(seed) {}
  /// Returns the key of this stream. KeyedRandom(key()) is the same stream.
  std::uint64_t key() const { return key_; }
  /// Returns the stream that belongs to a name, such as "layers.3.mlp.linear_fc1.weight" or "dropout".
  /// Each name has its own.
  KeyedRandom named(std::string_view name) const;

  std::uint64_t bits(std::uint64_t index) const;
  /// Replaces each index by bits(index), several at a time.
  void bits(std::span<std::uint64_t> indices) const;
  /// Sets words[2 i] and words[2 i + 1] to the two words of block `blocks[i]`. The words of the stream are a
  /// second sequence beside bits(), in which a word costs half as much: word w is word w % 2 of block w / 2.
  void words(std::span<const std::uint64_t> blocks, std::span<std::uint64_t> words) const;
  /// Returns a number in [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const { return uniform_of(bits(index)); }
  static double uniform_of(std::uint64_t bits) { return random_words::uniform_of(bits); }
  /// Returns a whole number from 0 to below - 1, each equally likely (up to one part in 2^32 for small
  /// `below`).
  std::uint32_t below(std::uint64_t index, std::uint32_t below) const { return below_of(bits(index), below); }
  static std::uint32_t below_of(std::uint64_t bits, std::uint32_t below);

 private:
  std::uint64_t key_;
};

}  // namespace sim
