#include "verify/run_arguments/shell_expression.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <memory>
#include <regex.h>
#include <utility>

namespace verify {

namespace {

constexpr std::size_t kMostExpressionBytes = 200;
constexpr std::size_t kMostSearchedBytes = 1000;

/// Whether the time and the memory of an expression are bounded by the lengths of it and of the text. The
/// library compiles what stands before a + twice, so that one + behind another doubles it.
bool is_quick(const std::string& expression) {
  constexpr std::ptrdiff_t kMostDoubled = 8;
  if (std::ranges::count(expression, '+') > kMostDoubled) return false;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] == '{') return false;
    if (expression[at] != '\\') continue;
    ++at;
    if (at < expression.size() && std::isdigit(static_cast<unsigned char>(expression[at])) != 0) return false;
  }
  return true;
}

/// Returns where a set that begins at a place ends, behind its ']'; the end of the text where it does not.
std::size_t end_of_set(std::string_view text, std::size_t at) {
  ++at;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;
  for (; at < text.size(); ++at) {
    if (text[at] == ']') return at + 1;
    const bool is_class = text[at] == '[' && at + 1 < text.size() &&
                          std::string_view(":.=").find(text[at + 1]) != std::string_view::npos;
    if (!is_class) continue;
    const std::size_t end = text.find(std::string{text[at + 1], ']'}, at + 2);
    if (end != std::string_view::npos) at = end + 1;
  }
  return text.size();
}

}  // namespace

std::optional<std::vector<FoundPlace>> places_by_expression(std::string_view text,
                                                            const std::string& expression, bool goes_on) {
  if (!expression.empty() && expression.find_first_of("\\.*[]^$+?(){}|") == std::string::npos) {
    const std::size_t begin = text.find(expression);
    if (begin == std::string_view::npos) return std::vector<FoundPlace>();
    return std::vector<FoundPlace>{{begin, expression.size()}};
  }
  const bool is_short = text.size() <= kMostSearchedBytes && expression.size() <= kMostExpressionBytes;
  if (!is_short || !is_quick(expression) || text.find('\0') != std::string_view::npos) return std::nullopt;
  regex_t compiled;
  if (regcomp(&compiled, expression.c_str(), REG_EXTENDED) != 0) return std::nullopt;
  const std::unique_ptr<regex_t, void (*)(regex_t*)> owner(&compiled, regfree);
  std::vector<regmatch_t> matches(compiled.re_nsub + 1);
  const std::string searched(text);
  const int result =
      regexec(&compiled, searched.c_str(), matches.size(), matches.data(), goes_on ? REG_NOTBOL : 0);
  if (result == REG_NOMATCH) return std::vector<FoundPlace>();
  if (result != 0) return std::nullopt;
  std::vector<FoundPlace> found;
  for (const regmatch_t& match : matches) {
    FoundPlace place;
    if (match.rm_so >= 0)
      place = {static_cast<std::size_t>(match.rm_so), static_cast<std::size_t>(match.rm_eo - match.rm_so)};
    found.push_back(place);
  }
  return found;
}

std::optional<std::vector<std::string>> found_by_expression(const std::string& text,
                                                            const std::string& expression) {
  const auto places = places_by_expression(text, expression, false);
  if (!places) return std::nullopt;
  std::vector<std::string> found;
  for (const FoundPlace& place : *places)
    found.push_back(place.begin == std::string::npos ? "" : text.substr(place.begin, place.length));
  return found;
}

bool has_other_escapes(std::string_view expression) {
  constexpr std::string_view kOfLibrary = "wWsSbB";
  for (std::size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] == '[') {
      const std::size_t end = end_of_set(expression, at);
      if (expression.substr(at, end - at).find('\\') != std::string_view::npos) return true;
      at = end - 1;
    } else if (expression[at] == '\\') {
      ++at;
      const bool is_letter =
          at < expression.size() && std::isalpha(static_cast<unsigned char>(expression[at])) != 0;
      if (is_letter && kOfLibrary.find(expression[at]) == std::string_view::npos) return true;
    }
  }
  return false;
}

std::string extended_expression(std::string_view basic) {
  constexpr std::string_view kOfExtended = "(){}+?|";
  std::string extended;
  bool is_at_begin = true;  // of the expression, or of a part behind \( or \|
  bool is_behind_anchor = false;
  for (std::size_t at = 0; at < basic.size(); ++at) {
    const char c = basic[at];
    const char behind = at + 1 < basic.size() ? basic[at + 1] : '\0';
    const bool was_at_begin = std::exchange(is_at_begin, false);
    const bool was_behind_anchor = std::exchange(is_behind_anchor, false);
    if (c == '\\' && kOfExtended.find(behind) != std::string_view::npos && behind != '\0') {
      extended += behind;
      is_at_begin = behind == '(' || behind == '|';
      ++at;
    } else if (c == '\\') {
      extended += c;
      if (behind != '\0') extended += basic[++at];
    } else if (c == '[') {
      const std::size_t end = end_of_set(basic, at);
      extended += basic.substr(at, end - at);
      at = end - 1;
    } else {
      const bool ends = behind == '\0' || (behind == '\\' && at + 2 < basic.size() &&
                                           (basic[at + 2] == ')' || basic[at + 2] == '|'));
      is_behind_anchor = c == '^' && was_at_begin;
      const bool is_plain_star = c == '*' && (was_at_begin || was_behind_anchor);
      const bool is_plain_anchor = (c == '^' && !was_at_begin) || (c == '$' && !ends);
      if (is_plain_star || is_plain_anchor || kOfExtended.find(c) != std::string_view::npos) extended += '\\';
      extended += c;
    }
  }
  return extended;
}

}  // namespace verify
