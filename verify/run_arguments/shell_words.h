#pragma once

/// The syntax of a shell script: lists of commands, whose words have literal parts and expansions. Nothing is
/// expanded here, and nothing is executed.
///
///   for (const ShellCommand& command : parse_shell(text).commands) ...
///
/// Shapes  An `elif` is a branch in the last list of another branch. `source` is an expansion as it is
///         written. All lines of a file that another one names have the number of the line that names it.
/// Errors  script_syntax: a quote, bracket, block or here-document that does not end or has not begun, and
///         more than 100 of them one in the other; bare_bracket: a '(' without quotes among the arguments of
///         a Python file. In a text that does not begin with "#!", what has not begun is passed over.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verify {

bool begins_shell_name(char c);
bool is_of_shell_name(char c);

struct ShellWord;
struct ShellCommand;
using ShellList = std::vector<ShellCommand>;

struct ShellPart {
  enum class Kind {
    literal,     // text
    parameter,   // the value of the variable or parameter `text`
    arithmetic,  // $((word))
    output,      // $(commands)
    unknown,     // what only a shell could tell
  };
  Kind kind = Kind::literal;
  bool is_quoted = false;  // a value is not split at its blanks
  std::string text;
  std::string source;
  char elements = '\0';                    // '@' of ${NAME[@]} and $@, '*' of ${NAME[*]} and $*
  bool replaces_empty = false;             // ${NAME:-word} and its like; not ${NAME-word}
  std::shared_ptr<const ShellWord> index;  // of ${NAME[index]}; null: none
  std::string change;  // - = + ? # ## % %% / // /# /% ^ ^^ , ,, : after the name, "length" of ${#NAME}, or ""
  std::shared_ptr<const ShellWord> word;    // after the change, or the expression
  std::shared_ptr<const ShellWord> second;  // the word after a pattern, or the length of a slice; null: none
  std::shared_ptr<const ShellList> commands;
};

struct ShellWord {
  std::vector<ShellPart> parts;
  int line = 0;
};

/// Returns what a refusal names of a script: the line; 0: the option with the script.
std::string place_of_line(int line);

/// Whether a word is this text, with nothing in it that is quoted or expanded.
bool is_literal(const ShellWord& word, std::string_view text);

struct ShellAssignment {
  std::string name;
  bool appends = false;                    // NAME+=...
  bool is_array = false;                   // NAME=( ... )
  std::shared_ptr<const ShellWord> index;  // of NAME[index]=...; null: none
  std::vector<ShellWord> values;
  int line = 0;
};

struct HereDocument {
  std::string text;         // as it is written
  int line = 0;             // of its first line
  bool is_literal = false;  // its last word is quoted, and nothing in it is expanded
};

struct ShellPattern {
  std::vector<ShellWord> words;
  std::string ending;  // of its commands: ";;", ";&", ";;&", or "" at the end of the `case`
};

struct ShellCommand {
  enum class Kind {
    simple,      // assignments and words
    arithmetic,  // ((words[0]))
    test,        // [[ words ]]
    group,       // { lists[0] }
    subshell,    // ( lists[0] ); its name is "&" where the commands run in the background
    pipeline,    // lists[0] | lists[1]
    branch,      // if lists[0]; then lists[1]; else lists[2]; fi
    choice,      // case words[0] in patterns[0]) lists[0] ;; esac
    each,        // for name in words; do lists[0]; done
    counted,     // for ((words[0]; words[1]; words[2])); do lists[0]; done
    repeat,      // while lists[1]; do lists[0]; done; its name is "until" for that
    function,    // name() lists[0]
  };
  Kind kind = Kind::simple;
  int line = 0;
  std::string chain;        // "&&" or "||" where it stands after one; "" otherwise
  bool is_negated = false;  // it stands after a "!"
  std::string name;
  std::vector<ShellAssignment> assignments;  // those before the words
  std::vector<ShellAssignment> declared;     // those after export, local, declare and their like
  std::vector<ShellWord> words;
  std::vector<ShellList> lists;
  std::vector<ShellPattern> patterns;
  std::vector<std::shared_ptr<HereDocument>> documents;
  std::vector<ShellWord> input;   // after <<<
  std::vector<ShellWord> output;  // the file that its output goes to
  bool appends = false;           // after >>
};

struct ShellScript {
  ShellList commands;
  std::vector<std::pair<int, std::string>> directives;  // "#SBATCH ..." lines, without the sign
};

/// Reads a script. `first_line` is the number of its first line, for text that stands inside of another file.
ShellScript parse_shell(std::string_view text, int first_line = 1, bool counts_lines = true);

/// Reads a text as a here-document, in which quotes are literal.
ShellWord parse_document(std::string_view text, int line);

}  // namespace verify
