#pragma once

/// The reader of a text that parse_shell (shell_words.h) gives its commands. Its functions stand in files by
/// what they read: shell_words.cpp the words of a command, the signs between commands and the keywords,
/// shell_redirections.cpp what a command reads and where its output goes, shell_declarations.cpp assignments,
/// and shell_compounds.cpp what stands in a `case`, in [[ ... ]] and behind `for`.

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_word_reader.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

class ShellLexer : public ShellWordReader {
 public:
  ShellLexer(std::string_view text, int line) : ShellWordReader(text, line, 0) {}

  ShellScript script();

 private:
  void skip_blanks();
  void skip_comment();
  void end_command();
  void operate();
  void redirect();
  void redirect_input();
  void refuse_bare_bracket();
  ShellCommand& redirected();
  void skip_word();
  void skip_substituted_process();
  void read_documents();
  void begin_command();
  void read_word_of_command();
  bool read_arithmetic();
  bool takes_brace(const std::string& text, int line);
  bool takes_name_of_function(const ShellWord& word);
  ShellWord regular_expression();
  void read_test();
  void read_case(int line);
  void read_patterns();
  void read_extended_pattern(ShellWord& pattern);
  void read_list_of_loop();
  void read_steps_of_loop(ShellCommand& loop);
  void add_keyword(ShellKeyword keyword, std::vector<ShellWord> words, int line);
  bool read_assignment();
  void declare(const ShellWord& word);
  void keep_array(ShellAssignment assignment);
  std::vector<ShellWord> array_values();
  bool takes_keyword(const ShellWord& word);

  struct PendingDocument {
    std::string end;
    std::size_t command = 0;  // the index that the command gets to which it belongs
    bool strips_tabs = false;
    bool is_literal = false;
  };

  int cases_ = 0;            // those that are open
  std::string chain_;        // between the last command and the next one
  bool is_joining_ = false;  // a line that ends with && goes on in the next one
  bool negates_ = false;
  bool declares_ = false;
  bool is_local_ = false;
  bool is_associative_ = false;
  bool is_reference_ = false;
  bool is_integer_ = false;
  std::set<std::string> integers_;  // variables of `declare -i`, whose values are arithmetic
  bool redirects_errors_ = false;
  bool names_function_ = false;        // the next word does, behind `function`
  std::optional<ShellWord> function_;  // the name of one whose body begins next
  std::vector<bool> braces_;           // those that are open: whether each is of a function
  ShellScript script_;
  ShellCommand command_;
  std::vector<PendingDocument> pending_;
};

}  // namespace verify
