#pragma once

/// The reader of a text that parse_shell (shell_words.h) gives its commands. Its functions stand in three files:
/// shell_quotes.cpp words, shell_parser.cpp simple commands, the signs between commands and here-documents,
/// shell_blocks.cpp what begins with a keyword.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_words.h"

namespace verify {

class ShellParser {
 public:
  ShellParser(std::string_view text, int line, bool counts_lines)
      : text_(text), line_(line), counts_lines_(counts_lines), is_script_(text.starts_with("#!")) {}

  ShellScript script();
  ShellWord document();

 private:
  using Kind = ShellCommand::Kind;
  /// A kind of block, and the words in it.
  struct Block {
    const char* name;
    std::string_view second;  // "" for a kind that needs none
    std::string_view last;
  };
  static const Block kIf, kLoop, kCase, kGroup, kFunction, kSubshell;
  /// Counts what is nested in something else as long as it is read.
  struct Nested {
    explicit Nested(ShellParser& of) : parser(of) {
      if (++parser.depth_ > kMostNested) refuse(parser.line_, "nested more than 100 deep");
    }
    ~Nested() { --parser.depth_; }
    ShellParser& parser;
  };
  static constexpr int kMostNested = 100;

  [[noreturn]] static void refuse(int line, std::string problem);
  static void add(ShellWord& word, char c, bool is_quoted);
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool takes(std::string_view word);
  char next();
  std::string since(std::size_t start) const { return std::string(text_.substr(start, at_ - start)); }

  ShellWord word();
  ShellWord word_to(std::string_view ends, bool is_quoted);
  ShellWord expression(std::string_view end);
  void piece(ShellWord& word, bool is_quoted);
  void single_quotes(ShellWord& word);
  void double_quotes(ShellWord& word);
  void expansion(ShellWord& word, bool is_quoted);
  void backquotes(ShellPart& part);
  void bracket(ShellPart& part);
  void braces(ShellPart& part);
  bool name_of_parameter(ShellPart& part);
  bool change_of_parameter(ShellPart& part);
  bool begins_arithmetic() const;

  void skip_blanks(bool also_lines = false);
  void skip_separators();
  std::string_view keyword() const;
  std::string_view closing() const;
  ShellList list();
  void chain(ShellList& commands);
  ShellCommand pipeline();
  ShellCommand command();
  ShellCommand simple();
  ShellWord plain_word();
  bool argument(ShellCommand& command);
  bool assignment(std::vector<ShellAssignment>& list);
  void array(std::vector<ShellAssignment>& list);
  bool process();
  bool redirection(ShellCommand& command);
  bool here_document(ShellCommand& command);
  void read_documents();
  void refuse_bare_bracket(const ShellCommand& command) const;

  ShellCommand begun(Kind kind, std::string_view word);
  void expect(const Block& block, std::string_view word, int line);
  [[noreturn]] void refuse_end(const std::string& word) const;
  bool block(ShellCommand& command);
  ShellCommand group(Kind kind, std::string_view first, const Block& block);
  ShellCommand branch(std::string_view word);
  ShellCommand each(std::string_view word);
  ShellCommand choice();
  ShellCommand test();
  ShellCommand function();
  bool is_function() const;
  ShellWord pattern(std::string_view ends);
  ShellList body_of_loop(int line);

  struct PendingDocument {
    std::shared_ptr<HereDocument> document;
    std::string end;
    bool strips_tabs = false;
  };

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
  bool counts_lines_;
  bool is_script_;  // what has not begun is refused
  int depth_ = 0;
  std::vector<std::pair<int, std::string>> directives_;
  std::vector<PendingDocument> pending_;
};

}  // namespace verify
