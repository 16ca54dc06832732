#include "verify/run_arguments/shell_pattern.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

/// One place of a pattern: any text (*), or a character of a set.
struct Piece {
  bool is_any_text = false;
  bool is_negated = false;
  std::string set;  // pairs of first and last characters
};

/// Reads a set, behind its "[". Returns whether it is one that is followed.
bool reads_set(std::string_view pattern, std::size_t& at, Piece& piece) {
  piece.is_negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (piece.is_negated) ++at;
  const std::size_t first = at;
  for (; at < pattern.size() && (pattern[at] != ']' || at == first); ++at) {
    if (pattern[at] == '[' || pattern[at] == '\\') return false;
    const bool is_range = at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']';
    piece.set += pattern[at];
    if (is_range) at += 2;
    piece.set += pattern[at];
  }
  return at++ < pattern.size();
}

std::optional<std::vector<Piece>> pieces_of(std::string_view pattern) {
  if (pattern.size() > kMostPatternBytes) return std::nullopt;
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < pattern.size();) {
    char c = pattern[at++];
    const bool has_bracket = at < pattern.size() && pattern[at] == '(';
    if (has_bracket && std::string_view("?*+@!").find(c) != std::string_view::npos) return std::nullopt;
    Piece& piece = pieces.emplace_back();
    piece.is_any_text = c == '*';
    piece.is_negated = c == '?';  // a character that is none of no set
    if (c == '[' && !reads_set(pattern, at, piece)) return std::nullopt;
    if (c == '*' || c == '?' || c == '[') continue;
    if (c == '\\' && at < pattern.size()) c = pattern[at++];
    piece.set = {c, c};
  }
  return pieces;
}

bool fits_one(const Piece& piece, char c) {
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
      next[length] = piece.is_any_text ? fits[length] || (length > 0 && next[length - 1])
                                       : length > 0 && fits[length - 1] && fits_one(piece, text[length - 1]);
    }
    fits = std::move(next);
  }
  return fits;
}

/// Returns how much of the beginning of a text fits; none where nothing does.
std::optional<std::size_t> fitting(std::string_view text, const std::vector<Piece>& pieces, bool is_longest) {
  const std::vector<bool> lengths = fitting_lengths(text, pieces);
  const auto shortest = std::ranges::find(lengths, true);
  if (shortest == lengths.end()) return std::nullopt;
  const auto longest = std::find(lengths.rbegin(), lengths.rend(), true);
  return static_cast<std::size_t>(is_longest ? lengths.rend() - longest - 1 : shortest - lengths.begin());
}

std::string with_parts_replaced(std::string_view text, const std::vector<Piece>& pieces, bool is_once,
                                std::string_view replacement) {
  std::string result;
  bool is_done = false;
  while (!text.empty()) {
    const std::size_t length = is_done ? 0 : fitting(text, pieces, true).value_or(0);
    if (length == 0) result += text.front();
    if (length > 0) result += replacement;
    is_done = is_done || (is_once && length > 0);
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
  const auto pieces = pieces_of(pattern);
  if (!pieces || text.size() > kMostMatchedBytes) return std::nullopt;
  return fitting_lengths(text, *pieces).back();
}

std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 ShellChange change, std::string_view replacement) {
  using enum ShellChange;
  auto pieces = pieces_of(pattern);
  if (!pieces || text.size() > kMostMatchedBytes) return std::nullopt;
  if (change == replace || change == replace_all)
    return with_parts_replaced(text, *pieces, change == replace, replacement);
  const bool is_longest = change != cut_begin && change != cut_end;
  const bool is_at_begin = change == cut_begin || change == cut_longest_begin || change == replace_begin;
  std::string turned(text);
  if (!is_at_begin) {
    std::ranges::reverse(turned);
    std::ranges::reverse(*pieces);
  }
  const auto fits = fitting(turned, *pieces, is_longest);
  if (!fits) return std::string(text);
  if (is_at_begin) return std::string(replacement).append(text.substr(*fits));
  return std::string(text.substr(0, text.size() - *fits)).append(replacement);
}

}  // namespace verify
