#include "sim/base/printable_text.h"

#include <cstdint>
#include <fmt/format.h>

namespace sim {

namespace {

/// Returns how many bytes follow the first byte of a character; -1 if no character begins with this byte.
int bytes_that_follow(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first < 0xE0) return 1;
  if (first >= 0xE0 && first < 0xF0) return 2;
  return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

/// Whether a number is a Unicode character that was encoded in as few bytes as possible.
bool is_character(std::uint32_t character, int following) {
  constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  const bool is_half_of_a_pair = character >= 0xD800 && character < 0xE000;
  return character >= kLeast[following] && character <= 0x10FFFF && !is_half_of_a_pair;
}

/// Whether a text that consists of one character is a control character.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 2) return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return character.size() == 1 && (first < 0x20 || first == 0x7F);
}

std::string escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const int following = bytes_that_follow(first);
  if (following < 0 || text.size() <= static_cast<std::size_t>(following)) return 0;
  std::uint32_t character = following == 0 ? first : first & (0x3FU >> following);
  for (std::size_t i = 1; i <= static_cast<std::size_t>(following); ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    character = (character << 6U) | (next & 0x3FU);
  }
  return is_character(character, following) ? static_cast<std::size_t>(following) + 1 : 0;
}

std::string printable_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const std::string_view bytes = text.substr(0, length == 0 ? 1 : length);
    if (length > 0 && !is_control(bytes)) {
      out += bytes;
    } else {
      for (const char c : bytes) out += escaped(c);
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace sim
