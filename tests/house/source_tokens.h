#pragma once

/// The words and signs of a source, without comments, directives, strings and characters.
///
/// Shapes  a sign is one character, except :: and ->. Tokens view the text that they were read from.

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace test {

struct Token {
  std::string_view text;
  bool is_word = false;
  bool begins_line = false;  // in the first column, where what a header declares begins
};
using Tokens = std::vector<Token>;

Tokens tokens_of(const std::string& text);

bool is_in_word(char c);
bool is_one_of(std::string_view text, std::initializer_list<std::string_view> texts);

/// Returns the text of a token; "" before the first and behind the last.
std::string_view text_at(const Tokens& tokens, std::size_t at);

/// Returns the place behind the bracket that closes the one at `at`.
std::size_t behind_brackets(const Tokens& tokens, std::size_t at, std::string_view open,
                            std::string_view close);

}  // namespace test
