// What stands in a `case`, in [[ ... ]] and behind `for`.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_braces.h"
#include "verify/run_arguments/shell_lexer.h"

namespace verify {

/// Reads the subject of a `case`, and the patterns that follow.
void ShellLexer::read_case(int line) {
  skip_blanks();
  std::vector<ShellWord> subject;
  subject.push_back(word());
  add_keyword(ShellKeyword::case_begins, std::move(subject), line);
  ++cases_;
  while (!at_end() && (is_shell_blank(peek()) || peek() == '\n')) next();
  if (looking_at("in")) at_ += 2;
  read_patterns();
}

/// Reads the rest of a pattern with brackets, as in +([0-9])b, which shell_pattern.h knows as not followed.
void ShellLexer::read_extended_pattern(ShellWord& pattern) {
  while (peek() == '(' && !pattern.parts.empty()) {
    const std::string& before = pattern.parts.back().text;
    const bool is_extended = pattern.parts.back().kind == ShellPart::Kind::literal && !before.empty() &&
                             std::string_view("?*+@!").find(before.back()) != std::string_view::npos;
    if (!is_extended) return;
    for (const char c : fmt::format("({})", balanced('(', ')'))) add(pattern, c, false);
    for (ShellPart& part : word().parts) pattern.parts.push_back(std::move(part));
  }
}

/// Reads "a | b)", or the `esac` that ends a case.
void ShellLexer::read_patterns() {
  std::vector<ShellWord> patterns;
  const auto skip = [&] {
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (peek() != '\n') return;
      next();
      if (!pending_.empty()) read_documents();
    }
  };
  skip();
  const int begun = line_;
  if (looking_at("esac") && !is_of_shell_name(peek(4))) return;  // the next word ends the case
  if (peek() == '(') next();
  while (!at_end() && peek() != ')') {
    if (peek() == '|' || is_shell_blank(peek())) {
      next();
    } else if (is_shell_operator(peek())) {
      break;  // no pattern of a case
    } else {
      patterns.push_back(word());
      read_extended_pattern(patterns.back());
    }
    if (patterns.size() > kMostRunArguments) refuse(begun, "a case of too many patterns");
  }
  if (peek() == ')') next();
  add_keyword(ShellKeyword::pattern_begins, std::move(patterns), begun);
}

/// Reads the word behind =~, of which operators are a part, up to a blank outside of its brackets.
ShellWord ShellLexer::regular_expression() {
  ShellWord expression{.parts = {}, .line = line_};
  int open = 0;
  while (!at_end() && (open > 0 || (!is_shell_blank(peek()) && peek() != '\n'))) {
    if (open == 0 && (peek() == ')' || looking_at("&&"))) break;
    if (peek() == '(') ++open;
    if (peek() == ')') --open;
    if (is_shell_operator(peek()) || is_shell_blank(peek())) {
      add(expression, next(), false);
    } else {
      piece(expression, false);
    }
  }
  return expression;
}

/// Reads the rest of [[ ... ]], in which operators are words.
void ShellLexer::read_test() {
  const int begun = line_;
  for (;;) {
    while (!at_end() && (is_shell_blank(peek()) || peek() == '\n')) next();
    if (at_end()) refuse(begun, "a '[[' without its ']]'");
    ShellWord next_word{.parts = {}, .line = line_};
    if (is_literal(command_.words.back(), "=~") && !command_.words.back().parts[0].is_quoted) {
      next_word = regular_expression();
    } else if (is_shell_operator(peek())) {
      const char c = peek();
      add(next_word, next(), false);
      if (peek() == c && (c == '&' || c == '|')) add(next_word, next(), false);
    } else {
      next_word = word();
    }
    const auto& parts = next_word.parts;
    const bool ends = parts.size() == 1 && !parts[0].is_quoted && parts[0].text == "]]";
    command_.words.push_back(std::move(next_word));
    if (ends) return;
    if (command_.words.size() > kMostRunArguments) refuse(begun, "a '[[' of too many words");
  }
}

/// Reads ((I = 0; I < 4; I++)) behind `for`.
void ShellLexer::read_steps_of_loop(ShellCommand& loop) {
  std::string_view inner = balanced('(', ')');
  inner.remove_prefix(1);
  if (inner.ends_with(')')) inner.remove_suffix(1);
  for (std::size_t at = 0; at <= inner.size();) {
    const std::size_t end = std::min(inner.find(';', at), inner.size());
    loop.steps.emplace_back(inner.substr(at, end - at));
    at = end + 1;
  }
}

/// Reads "NAME in words" behind `for`.
void ShellLexer::read_list_of_loop() {
  ShellCommand& loop = script_.commands.back();
  skip_blanks();
  if (looking_at("((")) return read_steps_of_loop(loop);
  while (is_of_shell_name(peek())) loop.loop_variable += next();
  skip_blanks();
  if (loop.loop_variable.empty() || !looking_at("in") || is_of_shell_name(peek(2))) return;
  at_ += 2;
  for (skip_blanks(); !at_end() && !is_shell_operator(peek()); skip_blanks()) {
    for (ShellWord& one : words_of_braces(word())) loop.words.push_back(std::move(one));
    if (loop.words.size() > kMostRunArguments) refuse(loop.line, "a loop over too many words");
  }
}

}  // namespace verify
