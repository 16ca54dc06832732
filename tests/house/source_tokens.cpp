#include "tests/house/source_tokens.h"

#include <algorithm>
#include <cctype>

namespace test {

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> texts) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

namespace {

/// Returns the place behind what begins at `at` and is no code: a comment, a directive, a string or a
/// character; `at` itself where code begins.
std::size_t behind_what_is_no_code(const std::string& text, std::size_t at) {
  const auto behind = [&](std::string_view end, std::size_t from) {
    const std::size_t found = text.find(end, from);
    return found == std::string::npos ? text.size() : found + end.size();
  };
  if (text.compare(at, 2, "//") == 0) return behind("\n", at) - 1;
  if (text.compare(at, 2, "/*") == 0) return behind("*/", at + 2);
  if (text.compare(at, 2, "R\"") == 0) {
    const std::size_t open = text.find('(', at);
    return open == std::string::npos ? text.size()
                                     : behind(")" + text.substr(at + 2, open - at - 2) + "\"", open);
  }
  if (text[at] == '#') {
    std::size_t end = behind("\n", at) - 1;
    while (end < text.size() && text[end - 1] == '\\') end = behind("\n", end + 1) - 1;
    return end;
  }
  const bool is_separator = text[at] == '\'' && at > 0 && is_in_word(text[at - 1]);  // 16'384
  if ((text[at] != '"' && text[at] != '\'') || is_separator) return at;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2U : 1U;
  return std::min(end + 1, text.size());
}

}  // namespace

Tokens tokens_of(const std::string& text) {
  const std::string_view all = text;
  Tokens tokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t code = behind_what_is_no_code(text, at);
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    if (code != at) {
      at = code;
    } else if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
    } else if (is_in_word(text[at])) {
      std::size_t end = at;
      while (end < text.size() && is_in_word(text[end])) ++end;
      tokens.push_back({all.substr(at, end - at), true, begins_line});
      at = end;
    } else {
      const std::size_t size = is_one_of(all.substr(at, 2), {"::", "->"}) ? 2 : 1;
      tokens.push_back({all.substr(at, size), false, begins_line});
      at += size;
    }
  }
  return tokens;
}

/// Returns the text of a token; "" before the first and behind the last.
std::string_view text_at(const Tokens& tokens, std::size_t at) {
  return at < tokens.size() ? tokens[at].text : std::string_view();
}

/// Returns the place behind the bracket that closes the one at `at`.
std::size_t behind_brackets(const Tokens& tokens, std::size_t at, std::string_view open,
                            std::string_view close) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].text == open) ++depth;
    if (tokens[at].text == close && --depth == 0) return at + 1;
  }
  return at;
}

}  // namespace test
