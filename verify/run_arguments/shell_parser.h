#pragma once

/// The reader of a text that parse_shell (shell_words.h) gives its commands. Its functions stand in two
/// files: shell_parser.cpp simple commands, the signs between commands and here-documents, shell_blocks.cpp
/// what begins with a keyword.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_word_reader.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

class ShellParser : public ShellWordReader {
 public:
  ShellParser(std::string_view text, int line, bool counts_lines)
      : ShellWordReader(text, line, counts_lines), is_script_(text.starts_with("#!")) {}

  ShellScript script();
  /// Reads the text of `...`.
  static ShellList commands_of(std::string_view text, int line, const ShellWordReader& around);
  /// Reads the commands of $(...), and moves the reader behind its ")".
  static ShellList commands_to_bracket(ShellWordReader& reader);

 private:
  explicit ShellParser(const ShellWordReader& reader) : ShellWordReader(reader), is_script_(true) {}

  /// The words of a kind of block.
  struct Block {
    const char* name;
    const char* named;        // where it is spoken of again
    std::string_view second;  // "" for a kind that needs none
    std::string_view last;
  };
  static const Block kIf, kLoop, kCase, kGroup, kFunction, kSubshell;

  void skip_blanks();
  void skip_separators();
  void new_line();
  std::string_view keyword() const;
  std::string_view closing() const;

  ShellList list();
  void chain(ShellList& commands);
  ShellCommand pipeline();
  ShellCommand command();
  ShellCommand simple();
  ShellWord word_or_several();
  bool argument(ShellCommand& command);
  bool is_function();
  std::optional<ShellAssignment> assignment();
  void keep(std::optional<ShellAssignment> assignment, std::vector<ShellAssignment>& list);
  std::vector<ShellAssignment> elements(ShellAssignment& array);
  void refuse_bare_bracket(const ShellCommand& command) const;
  bool redirection(ShellCommand& command);
  void here_document(ShellCommand& command);
  void process();
  void read_documents();

  ShellCommand begun(ShellCommand::Kind kind, std::string_view word);
  void expect(const Block& block, std::string_view word, int line);
  [[noreturn]] void refuse_begin(const std::string& word) const;
  std::optional<ShellCommand> block();
  ShellCommand group(ShellCommand::Kind kind, std::string_view first, const Block& block);
  std::optional<ShellCommand> arithmetic();
  std::optional<ShellCommand> branch(std::string_view word);
  ShellCommand each(std::string_view word);
  void steps(ShellCommand& loop);
  ShellCommand repeat(std::string_view word);
  ShellList body_of_loop(int line);
  ShellPattern patterns(int line);
  ShellCommand choice();
  ShellWord word_of_test(bool is_expression);
  ShellCommand test();
  ShellCommand function();

  struct PendingDocument {
    std::shared_ptr<HereDocument> document;
    std::string end;
    bool strips_tabs = false;
  };

  static constexpr std::size_t kMostPlainWords = 100;

  bool reads_file_ = false;            // the command that is read
  bool is_script_;                     // what has not begun is refused
  std::set<std::size_t> plain_words_;  // where a keyword stands that begins nothing
  ShellScript script_;
  std::vector<PendingDocument> pending_;
};

}  // namespace verify
