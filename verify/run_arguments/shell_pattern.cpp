#include <algorithm>

#include "verify/run_arguments/shell_condition.h"

namespace verify {

namespace {

/// Returns the length of what stands for one character at the begin of a pattern; 0: it is not followed.
std::size_t length_of_place(std::string_view pattern) {
  const std::string_view next = pattern.substr(1, 1);
  const bool is_extended = next == "(" && std::string_view("?*+@!").find(pattern[0]) < 5;
  if (pattern[0] == '\\') return pattern.size() > 1 ? 2 : 1;
  if (pattern[0] != '[') return is_extended ? 0 : 1;
  const std::size_t first = next == "!" || next == "^" ? 2 : 1;
  const std::size_t end = pattern.find(']', first + 1);
  const bool is_plain = end != std::string_view::npos && pattern.find_first_of("[\\", 1) > end;
  return is_plain ? end + 1 : 0;
}

bool fits_place(char c, std::string_view place) {
  if (place == "?") return true;
  if (place.size() < 3) return c == place.back();
  const bool is_negated = place[1] == '!' || place[1] == '^';
  place = place.substr(is_negated ? 2 : 1, place.size() - (is_negated ? 3 : 2));
  bool is_in = false;
  for (std::size_t at = 0; at < place.size(); ++at) {
    const bool is_range = at + 2 < place.size() && place[at + 1] == '-';
    is_in = is_in || (place[at] <= c && c <= place[is_range ? at + 2 : at]);
    at += is_range ? 2 : 0;
  }
  return is_in != is_negated;
}

bool is_followed(std::string_view text, std::string_view pattern) {
  if (text.size() > kMostMatchedBytes || pattern.size() > kMostPatternBytes) return false;
  for (std::size_t length = 0; !pattern.empty(); pattern.remove_prefix(length))
    if ((length = length_of_place(pattern)) == 0) return false;
  return true;
}

/// Whether a text fits. Behind a '*', the shortest text is tried first, and then one more character.
bool fits(std::string_view text, std::string_view pattern) {
  std::string_view text_behind, pattern_behind;
  for (bool has_star = false;;) {
    const std::size_t length = pattern.empty() ? 0 : length_of_place(pattern);
    if (pattern.starts_with('*')) {
      has_star = true;
      pattern_behind = pattern = pattern.substr(1);
      text_behind = text;
    } else if (!text.empty() && length > 0 && fits_place(text[0], pattern.substr(0, length))) {
      text.remove_prefix(1);
      pattern.remove_prefix(length);
    } else if (text.empty() && pattern.empty()) {
      return true;
    } else if (!has_star || text_behind.empty()) {
      return false;
    } else {
      text = text_behind = text_behind.substr(1);
      pattern = pattern_behind;
    }
  }
}

std::optional<std::string> with_parts_replaced(std::string_view text, std::string_view pattern, bool is_once,
                                               std::string_view other) {
  if (text.size() > kMostReplacedBytes) return std::nullopt;
  std::string result;
  for (bool is_done = false; !text.empty();) {
    std::size_t length = is_done ? 0 : text.size();
    while (length > 0 && !fits(text.substr(0, length), pattern)) --length;
    is_done = is_done || (is_once && length > 0);
    result += length == 0 ? text.substr(0, 1) : other;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string pattern_of_text(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\+@!(").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::optional<bool> fits_shell_pattern(std::string_view text, std::string_view pattern) {
  return is_followed(text, pattern) ? std::optional(fits(text, pattern)) : std::nullopt;
}

std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 std::string_view change, std::string_view other) {
  const std::size_t size = text.size();
  const bool is_at_end = change.find('%') != std::string_view::npos;
  if (!is_followed(text, pattern)) return std::nullopt;
  if (change == "/" || change == "//") return with_parts_replaced(text, pattern, change == "/", other);
  for (std::size_t i = 0; i <= size; ++i) {
    const std::size_t length = change.size() == 2 ? size - i : i;
    if (!fits(is_at_end ? text.substr(size - length) : text.substr(0, length), pattern)) continue;
    if (is_at_end) return std::string(text.substr(0, size - length)).append(other);
    return std::string(other).append(text.substr(length));
  }
  return std::string(text);
}

}  // namespace verify
