#include "verify/output/markup.h"

#include <cstddef>
#include <cstdint>

namespace verify {

namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Returns how many bytes follow the first byte of a character; -1 if no character begins with this byte.
int bytes_that_follow(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first < 0xE0) return 1;
  if (first >= 0xE0 && first < 0xF0) return 2;
  return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

/// Returns whether XML 1.0 allows a character, and whether it was written with as few bytes as possible.
bool is_allowed(std::uint32_t character, int following) {
  constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (character < kLeast[following] || character > 0x10FFFF) return false;
  if (character >= 0x80 && character < 0xA0) return false;  // these are control characters, too
  const bool is_half_of_a_pair = character >= 0xD800 && character < 0xE000;
  return !is_half_of_a_pair && character != 0xFFFE && character != 0xFFFF;
}

/// Returns the number of bytes of the character with which the text begins; 0 if it begins with none.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const int following = bytes_that_follow(first);
  if (following < 0 || text.size() <= static_cast<std::size_t>(following)) return 0;
  std::uint32_t character = following == 0 ? first : first & (0x3FU >> following);
  for (std::size_t i = 1; i <= static_cast<std::size_t>(following); ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    character = (character << 6U) | (next & 0x3FU);
  }
  return is_allowed(character, following) ? static_cast<std::size_t>(following) + 1 : 0;
}

/// Returns the text that replaces an ASCII character; null if the character is written as it is.
const char* reference_for(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\n':
      return "&#10;";
    case '\t':
      return "&#9;";
    default:
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? "" : nullptr;
  }
}

}  // namespace

std::string markup_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t length = 1;
    if (const char* reference = reference_for(text.front())) {
      out += reference;
    } else {
      length = character_length(text);
      out += length == 0 ? kReplacement : text.substr(0, length);
      if (length == 0) length = 1;
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace verify
