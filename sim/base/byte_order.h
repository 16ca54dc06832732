#pragma once

/// Encodes numbers and texts as bytes, and decodes them. Numbers are little-endian on every machine.
///
/// Calls   a ByteReader that has too few bytes left returns zeros and empty texts, and remembers that.
///         Callers check is_whole() once, at the end.
/// Errors  none.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sim {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void bytes(std::span<const std::byte> bytes) {
    number(bytes.size(), 4);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text) { bytes(std::as_bytes(std::span(text))); }

  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const std::span<const std::byte> taken = take(width);
    for (std::size_t i = 0; i < taken.size(); ++i)
      value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
    return value;
  }
  Bytes bytes() {
    const std::span<const std::byte> taken = take(static_cast<std::size_t>(number(4)));
    return {taken.begin(), taken.end()};
  }
  std::string text() {
    const std::span<const std::byte> taken = take(static_cast<std::size_t>(number(4)));
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  /// Whether all reads found enough bytes and no bytes are left.
  bool is_whole() const { return !is_short_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      is_short_ = true;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool is_short_ = false;
};

}  // namespace sim
