#include "verify/output/markup.h"

#include <cstddef>
#include <utility>

#include "sim/base/printable_text.h"

namespace verify {

namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Returns the number of bytes of the character with which the text begins; 0 if it begins with none that XML
/// 1.0 allows, or with a control character.
std::size_t character_length(std::string_view text) {
  const std::size_t length = sim::character_bytes(text);
  const std::string_view character = text.substr(0, length);
  const bool is_control =
      length == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
  return is_control || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF" ? 0 : length;
}

/// Returns the text that replaces an ASCII character; null if the character is written as it is.
const char* reference_for(char c) {
  static constexpr std::pair<char, const char*> kReferences[] = {
      {'&', "&amp;"},  {'<', "&lt;"},   {'>', "&gt;"}, {'"', "&quot;"},
      {'\'', "&#39;"}, {'\n', "&#10;"}, {'\t', "&#9;"}};
  for (const auto& [sign, reference] : kReferences)
    if (sign == c) return reference;
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? "" : nullptr;
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
