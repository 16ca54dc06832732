#include "verify/run_arguments/shell_pattern.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

/// One place of a pattern: any text (*), any character (?), a character, or one of a set.
struct Piece {
  enum class Kind { any_text, any_character, character, set };
  Kind kind = Kind::character;
  char character = '\0';
  std::string set;  // pairs of first and last characters
  bool is_negated = false;
};

/// Returns the set that begins behind "[", and moves behind its "]"; nothing where it is no set that is read.
std::optional<Piece> set_at(std::string_view pattern, std::size_t& at) {
  Piece piece{.kind = Piece::Kind::set, .set = {}};
  std::size_t end = at;
  if (end < pattern.size() && (pattern[end] == '!' || pattern[end] == '^')) {
    piece.is_negated = true;
    ++end;
  }
  const std::size_t first = end;
  for (; end < pattern.size() && (pattern[end] != ']' || end == first); ++end) {
    if (pattern[end] == '[' || pattern[end] == '\\') return std::nullopt;
    const bool is_range = end + 2 < pattern.size() && pattern[end + 1] == '-' && pattern[end + 2] != ']';
    piece.set += pattern[end];
    piece.set += is_range ? pattern[end + 2] : pattern[end];
    if (is_range) end += 2;
  }
  if (end >= pattern.size()) return std::nullopt;
  at = end + 1;
  return piece;
}

std::optional<std::vector<Piece>> pieces_of(std::string_view pattern) {
  if (pattern.size() > kMostPatternBytes) return std::nullopt;
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < pattern.size();) {
    const char c = pattern[at++];
    const bool has_bracket = at < pattern.size() && pattern[at] == '(';
    if (has_bracket && std::string_view("?*+@!").find(c) != std::string_view::npos) return std::nullopt;
    if (c == '*') {
      pieces.push_back({.kind = Piece::Kind::any_text, .set = {}});
    } else if (c == '?') {
      pieces.push_back({.kind = Piece::Kind::any_character, .set = {}});
    } else if (c == '[') {
      const std::optional<Piece> set = set_at(pattern, at);
      if (!set) return std::nullopt;
      pieces.push_back(*set);
    } else {
      const bool is_escaped = c == '\\' && at < pattern.size();
      pieces.push_back({.character = is_escaped ? pattern[at++] : c, .set = {}});
    }
  }
  return pieces;
}

bool fits_one(const Piece& piece, char c) {
  if (piece.kind == Piece::Kind::any_character) return true;
  if (piece.kind == Piece::Kind::character) return piece.character == c;
  bool is_in = false;
  for (std::size_t at = 0; at + 1 < piece.set.size(); at += 2)
    is_in = is_in || (piece.set[at] <= c && c <= piece.set[at + 1]);
  return is_in != piece.is_negated;
}

/// Returns for each length from 0 on whether so much of the beginning of the text fits.
std::vector<bool> fitting_lengths(std::string_view text, const std::vector<Piece>& pieces) {
  std::vector<bool> fits(text.size() + 1, false);
  fits[0] = true;
  for (const Piece& piece : pieces) {
    std::vector<bool> next(text.size() + 1, false);
    for (std::size_t length = 0; length <= text.size(); ++length) {
      if (piece.kind == Piece::Kind::any_text) {
        next[length] = fits[length] || (length > 0 && next[length - 1]);
      } else {
        next[length] = length > 0 && fits[length - 1] && fits_one(piece, text[length - 1]);
      }
    }
    fits = std::move(next);
  }
  return fits;
}

std::optional<std::size_t> longest_of(const std::vector<bool>& lengths) {
  const auto longest = std::find(lengths.rbegin(), lengths.rend(), true);
  if (longest == lengths.rend()) return std::nullopt;
  return static_cast<std::size_t>(lengths.rend() - longest) - 1;
}

std::string with_begin_replaced(std::string_view text, const std::vector<Piece>& pieces, bool is_longest,
                                std::string_view replacement) {
  const std::vector<bool> lengths = fitting_lengths(text, pieces);
  const auto shortest = static_cast<std::size_t>(std::ranges::find(lengths, true) - lengths.begin());
  const std::optional<std::size_t> longest = longest_of(lengths);
  if (!longest) return std::string(text);
  return std::string(replacement).append(text.substr(is_longest ? *longest : shortest));
}

std::string with_end_replaced(std::string_view text, std::vector<Piece> pieces, bool is_longest,
                              std::string_view replacement) {
  std::string turned(text.rbegin(), text.rend());
  std::ranges::reverse(pieces);
  const std::vector<bool> lengths = fitting_lengths(turned, pieces);
  const auto shortest = static_cast<std::size_t>(std::ranges::find(lengths, true) - lengths.begin());
  const std::optional<std::size_t> longest = longest_of(lengths);
  if (!longest) return std::string(text);
  const std::size_t cut = is_longest ? *longest : shortest;
  return std::string(text.substr(0, text.size() - cut)).append(replacement);
}

std::string with_parts_replaced(std::string_view text, const std::vector<Piece>& pieces, bool is_once,
                                std::string_view replacement) {
  std::string result;
  bool is_done = false;
  while (!text.empty()) {
    const auto length = is_done ? std::nullopt : longest_of(fitting_lengths(text, pieces));
    if (!length || *length == 0) {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    result += replacement;
    text.remove_prefix(*length);
    is_done = is_once;
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
  const auto pieces = pieces_of(pattern);
  if (!pieces || text.size() > kMostMatchedBytes) return std::nullopt;
  return fitting_lengths(text, *pieces).back();
}

std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 PatternPlace place, std::string_view replacement) {
  const auto pieces = pieces_of(pattern);
  const bool is_anywhere = place == PatternPlace::first || place == PatternPlace::all;
  if (!pieces || text.size() > (is_anywhere ? kMostReplacedBytes : kMostMatchedBytes)) return std::nullopt;
  switch (place) {
    case PatternPlace::shortest_begin:
    case PatternPlace::longest_begin:
      return with_begin_replaced(text, *pieces, place == PatternPlace::longest_begin, replacement);
    case PatternPlace::shortest_end:
    case PatternPlace::longest_end:
      return with_end_replaced(text, *pieces, place == PatternPlace::longest_end, replacement);
    case PatternPlace::first:
    case PatternPlace::all:
      return with_parts_replaced(text, *pieces, place == PatternPlace::first, replacement);
  }
  return std::nullopt;
}

}  // namespace verify
