#pragma once

/// A hash over bytes in the order in which they are added. It is the same on every machine, and run
/// hashes are made with it.
///
/// Exact   64-bit FNV-1a over words of eight bytes, lowest byte first. After each word the upper half of
///         the hash is folded into the lower half. Bytes of four words and more are cut into four equal
///         runs of whole words, and each run has a hash of its own, since the steps of one hash wait for
///         each other; then the four hashes are added as words, and the words and bytes after the runs
///         one by one.
/// Source  the Fowler-Noll-Vo hash, FNV-1a.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sim {

class ContentHash {
 public:
  void add(std::span<const std::byte> bytes) {
    std::size_t i = 0;
    if (const std::size_t run = bytes.size() / (8 * kRuns) * 8; run > 0) {
      std::array<std::uint64_t, kRuns> hashes = {kStart, kStart + 1, kStart + 2, kStart + 3};
      for (; i < run; i += 8) {
#pragma GCC unroll kRuns
        for (std::size_t k = 0; k < kRuns; ++k)
          hashes[k] = after(hashes[k], word_at(bytes.data() + k * run + i));
      }
      for (const std::uint64_t hash : hashes) add(hash);
      i = kRuns * run;
    }
    for (; i + 8 <= bytes.size(); i += 8) add(word_at(bytes.data() + i));
    for (; i < bytes.size(); ++i) add(static_cast<std::uint64_t>(bytes[i]));
  }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});  // the length makes "ab", "c" differ from "a", "bc"
    add(std::as_bytes(std::span(text)));
  }
  void add(std::uint64_t number) { hash_ = after(hash_, number); }
  std::uint64_t value() const { return hash_; }

 private:
  static constexpr std::size_t kRuns = 4;
  static constexpr std::uint64_t kStart = 0xcbf29ce484222325U;

  static std::uint64_t after(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3U;
    return hash ^ hash >> 32;
  }
  static std::uint64_t word_at(const std::byte* bytes) {
    std::uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&word, bytes, sizeof word);
    } else {
      for (std::size_t k = 0; k < 8; ++k)
        word |= std::uint64_t{static_cast<std::uint8_t>(bytes[k])} << (8 * k);
    }
    return word;
  }

  std::uint64_t hash_ = kStart;
};

}  // namespace sim
