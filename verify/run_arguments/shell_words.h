#pragma once

/// The syntax of a shell script: lists of commands, whose words have literal parts and expansions. Nothing is
/// expanded here, and nothing is executed.
///
///   for (const ShellCommand& command : parse_shell(text).commands) ...
///
/// Shapes  An `elif` is a branch in the last list of another branch. The words of [[ ... ]] and of a `case`
///         are those that are written; `source` is an expansion as it is written.
/// Errors  script_syntax: a quote, bracket, block or here-document that does not end or has not begun, and
///         more than 100 of them one in the other; bare_bracket: a '(' without quotes among the arguments of
///         a Python file. In a text that does not begin with "#!", what has not begun is passed over.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verify {

struct ShellWord;
struct ShellCommand;
using ShellList = std::vector<ShellCommand>;

/// What an expansion makes of a value.
enum class ShellChange {
  none,
  use_default,        // ${NAME:-word}
  assign_default,     // ${NAME:=word}
  use_other,          // ${NAME:+word}
  demand,             // ${NAME:?word}
  cut_begin,          // ${NAME#pattern}
  cut_longest_begin,  // ${NAME##pattern}
  cut_end,            // ${NAME%pattern}
  cut_longest_end,    // ${NAME%%pattern}
  replace,            // ${NAME/pattern/word}
  replace_all,        // ${NAME//pattern/word}
  replace_begin,      // ${NAME/#pattern/word}
  replace_end,        // ${NAME/%pattern/word}
  upper_first,        // ${NAME^}
  upper,              // ${NAME^^}
  lower_first,        // ${NAME,}
  lower,              // ${NAME,,}
  slice,              // ${NAME:offset:length}
  length,             // ${#NAME}
  keys,               // ${!NAME[@]}
};

struct ShellPart {
  enum class Kind {
    literal,     // text
    parameter,   // the value of the variable or parameter `text`
    arithmetic,  // $((word))
    output,      // $(commands)
    unknown,     // what only a shell could tell
  };
  enum class Elements { one, all, joined };  // ${NAME}, ${NAME[@]}, ${NAME[*]}
  Kind kind = Kind::literal;
  bool is_quoted = false;  // a value is not split at its blanks
  std::string text;
  std::string source;
  Elements elements = Elements::one;
  bool is_indirect = false;                // ${!NAME}
  bool replaces_empty = false;             // ${NAME:-word} and its like; not ${NAME-word}
  std::shared_ptr<const ShellWord> index;  // of ${NAME[index]}; null: none
  ShellChange change = ShellChange::none;
  std::shared_ptr<const ShellWord> word;    // of a change, or the expression
  std::shared_ptr<const ShellWord> second;  // the word behind a pattern, or the length of a slice; null: none
  std::shared_ptr<const ShellList> commands;
};

struct ShellWord {
  std::vector<ShellPart> parts;
  int line = 0;
};

/// Whether a word is this text, with nothing in it that is quoted or expanded.
bool is_literal(const ShellWord& word, std::string_view text);

struct ShellAssignment {
  std::string name;
  bool appends = false;                    // NAME+=...
  bool is_array = false;                   // NAME=( ... )
  std::shared_ptr<const ShellWord> index;  // of NAME[index]=..., and of [index]=... in an array; null: none
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
    group,       // { lists[0] }, or the commands that an & sends into the background
    subshell,    // ( lists[0] )
    pipeline,    // lists[0] | lists[1]
    branch,      // if lists[0]; then lists[1]; else lists[2]; fi
    choice,      // case words[0] in patterns[0]) lists[0] ;; esac
    each,        // for name in words; do lists[0]; done
    counted,     // for ((words[0]; words[1]; words[2])); do lists[0]; done
    repeat,      // while lists[0]; do lists[1]; done
    function,    // name() lists[0]
  };
  Kind kind = Kind::simple;
  int line = 0;
  std::string chain;         // "&&" or "||" where it stands behind one; "" otherwise
  bool is_negated = false;   // it stands behind a "!"
  bool is_opposite = false;  // `until`
  std::string name;
  std::vector<ShellAssignment> assignments;  // those before the words
  std::vector<ShellAssignment> declared;     // those behind export, local, declare and their like
  std::vector<ShellWord> words;
  std::vector<ShellList> lists;
  std::vector<ShellPattern> patterns;
  std::vector<std::shared_ptr<HereDocument>> documents;
  std::vector<ShellWord> input;             // behind <<<
  std::shared_ptr<const ShellWord> output;  // the file that its output goes to; null: none
  bool appends = false;                     // behind >>
};

struct ShellScript {
  ShellList commands;
  std::vector<std::pair<int, std::string>> directives;  // "#SBATCH ..." lines, without the sign
};

/// Reads a script. `first_line` is the number of its first line, for text that stands inside of another file.
/// All lines of a file that another one names have the number of the line that names it: they are not
/// counted.
ShellScript parse_shell(std::string_view text, int first_line = 1, bool counts_lines = true);

}  // namespace verify
