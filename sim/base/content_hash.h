#pragma once

/// A hash of bytes in the order they are given, the same on every machine: what a run hash is made of.
///
/// Exact   64-bit FNV-1a over bytes; whole numbers go in as eight bytes, the lowest first.
/// Source  Fowler, Noll, Vo.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sim {

class ContentHash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) add_byte(static_cast<std::uint8_t>(byte));
  }
  void add(std::string_view text) {
    for (const char character : text) add_byte(static_cast<std::uint8_t>(character));
    add_byte(0);  // "ab", "c" is not "a", "bc"
  }
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<std::uint8_t>(number >> (8 * i)));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }

  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace sim
