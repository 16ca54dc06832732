#pragma once

/// A place in the text of a shell script, and the words that begin there: quotes, escapes and expansions.
///
/// Errors  script_syntax: a quote or bracket that does not end, or one nested too deep.

#include <cstddef>
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
  /// In the text of another file, all lines have the number of the line that names the file.
  ShellWordReader(std::string_view text, int line, bool counts_lines = true)
      : text_(text), line_(line), counts_lines_(counts_lines) {}

  /// Reads all of the text as a here-document, in which quotes are literal.
  ShellWord document();
  /// Reads all of the text as an expression of arithmetic.
  ShellWord expression();

 protected:
  [[noreturn]] static void refuse(int line, std::string problem);
  /// Counts what is nested in something else as long as it is read.
  class Nested {
   public:
    explicit Nested(ShellWordReader& reader);
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ShellWordReader& reader_;
  };

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool takes(std::string_view word);
  char next();
  static void add(ShellWord& word, char c, bool is_quoted);
  /// Reads a word, up to a blank or an operator.
  ShellWord word();
  /// Reads a word inside of brackets, up to one of these characters.
  ShellWord word_to(std::string_view ends, bool is_quoted);
  /// Reads the next character or quoted text or expansion of a word.
  void piece(ShellWord& word, bool is_quoted);
  /// Returns the length of what stands here up to the bracket that closes the one that begins it; 0: none
  /// does.
  std::size_t bracketed() const;

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
  bool counts_lines_;
  int depth_ = 0;

 private:
  void single_quotes(ShellWord& word);
  void quotes_with_signs(ShellWord& word);
  void double_quotes(ShellWord& word);
  void expansion(ShellWord& word, bool is_quoted);
  void backquotes(ShellPart& part);
  void bracket(ShellPart& part);
  void parameter(ShellPart& part);
  bool name_of_parameter(ShellPart& part);
  void index_of_parameter(ShellPart& part);
  bool change_of_parameter(ShellPart& part);
};

}  // namespace verify
