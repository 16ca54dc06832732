#pragma once

/// A place in the text of a shell script, and the words that begin there: quotes, escapes and expansions.
///
/// Errors  script_syntax: a quote or bracket that does not end, or one nested too deep.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "verify/run_arguments/shell_words.h"

namespace verify {

bool is_shell_blank(char c);
/// Whether a character ends a word: a newline, ; & | ( ) < or >.
bool is_shell_operator(char c);

bool begins_shell_name(char c);
bool is_of_shell_name(char c);

class ShellWordReader {
 public:
  ShellWordReader(std::string_view text, int line, int depth);

  /// Reads a word, up to a blank or an operator.
  ShellWord word();
  /// Reads all of the text as one word, in which blanks are literal.
  ShellWord whole_word(bool is_quoted);
  /// Reads all of the text as a here-document, in which quotes are literal.
  ShellWord document();

 protected:
  [[noreturn]] static void refuse(int line, std::string problem);

  bool at_end() const { return at_ == text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  char next();
  void add(ShellWord& word, char c, bool is_quoted) const;
  /// Returns the part of $((...)) or ((...)), whose text between the outermost brackets is "(...)".
  ShellPart arithmetic(std::string_view inner, std::string source, bool is_quoted) const;
  /// Returns the text from an opening bracket to the one that closes it, without the two.
  std::string_view balanced(char open, char close);
  /// Reads the next character or quoted text or expansion of a word.
  void piece(ShellWord& word, bool is_quoted);

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;

 private:
  void single_quotes(ShellWord& word);
  void quotes_with_signs(ShellWord& word);
  std::optional<char> sign_behind_backslash();
  void double_quotes(ShellWord& word);
  void escape(ShellWord& word);
  void expansion(ShellWord& word, bool is_quoted);
  void braces(ShellWord& word, bool is_quoted);
  static std::size_t end_at(std::string_view text, char character);
  bool change(ShellPart& part, std::string_view inner, int line) const;
  std::string_view backquoted();

  int depth_;
};

}  // namespace verify
