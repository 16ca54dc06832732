#pragma once

/// The commands of a shell script, as words whose parts are literal text or expansions. Nothing is expanded
/// and nothing is executed: what a word means is the business of run_script.h.
///
/// The grammar is the part of bash that launch scripts are written in: quotes, escapes, line continuations,
/// comments (and those in backquotes), variables with defaults, arrays, here-documents, [[ ... ]], ((...)),
/// functions, subshells (and what runs in one: shell_jobs.h), and the keywords of branches and loops, which
/// become commands of their own.
/// Of redirections a command, or the end of a block, has its input, and whether its output goes elsewhere.
/// Other constructs ($(...), `...`) become parts of the kind `unknown`. A command ((...)) has the words "(("
/// and one of the kind `arithmetic`.
///
/// Errors  script_syntax: a quote, bracket or here-document that does not end, or one nested too deep, and a
///         '(' without quotes among the arguments of a command.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verify {

struct ShellWord;

/// What an expansion makes of a value.
enum class ShellChange {
  none,
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
  quote,              // ${NAME@Q}
};

struct ShellPart {
  enum class Kind {
    literal,     // text
    variable,    // the value of a variable, or of the element 0 of an array
    elements,    // all elements of an array: ${NAME[@]}, ${NAME[*]}
    element,     // one element of an array: ${NAME[3]}
    keyed,       // one whose index is no number: ${NAME[key]}, ${NAME[$i]}
    count,       // the number of elements: ${#NAME[@]}
    keys,        // the indices or the keys of an array: ${!NAME[@]}
    arithmetic,  // $((...)): `text` is the expression, `expression` the same as a word
    unknown,     // what only a shell could tell: `text` is the source
  };
  Kind kind = Kind::literal;
  bool is_quoted = false;                       // a value is not split at its blanks
  bool joins = false;                           // ${NAME[*]}, "$*": in quotes, all elements are one word
  std::string text;                             // the literal, the name, the expression, or the source
  std::string source;                           // an expansion as it is written
  std::int64_t index = 0;                       // of an element
  std::shared_ptr<const ShellWord> key;         // of ${NAME[key]}
  std::shared_ptr<const ShellWord> fallback;    // of ${NAME:-fallback} and ${NAME:=fallback}; null: none
  std::shared_ptr<const ShellWord> expression;  // of $((...))
  bool assigns_fallback = false;                // ${NAME:=fallback}
  std::shared_ptr<const ShellWord> replaced;    // by this word, in ${NAME:+word}; null: none
  bool replaces_empty = false;                  // ${NAME+word}: a value that is empty is replaced, too
  ShellChange change = ShellChange::none;
  std::shared_ptr<const ShellWord> pattern;      // of a change, or the offset of a slice
  std::shared_ptr<const ShellWord> replacement;  // of a pattern, or the length of a slice; null: none
  bool is_indirect = false;                      // ${!NAME}: the value of the variable that NAME names
};

struct ShellWord {
  std::vector<ShellPart> parts;
  int line = 0;
};

/// Whether a word is this text, with nothing in it that is expanded.
inline bool is_literal(const ShellWord& word, std::string_view text) {
  return word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal &&
         word.parts[0].text == text;
}

struct ShellAssignment {
  std::string name;
  bool appends = false;                  // NAME+=...
  bool is_array = false;                 // NAME=( ... )
  bool is_local = false;                 // of a function: behind local, declare or typeset
  bool is_associative = false;           // behind declare -A
  bool is_reference = false;             // behind local -n: NAME stands for the variable of the value
  std::shared_ptr<const ShellWord> key;  // of NAME[key]=..., or of [key]=... in an array; null: none
  std::vector<ShellWord> values;
  int line = 0;
};

struct HereDocument {
  std::string text;         // as it is written
  int line = 0;             // of its first line
  bool is_literal = false;  // its last word is quoted, and nothing in it is expanded
};

/// What a keyword of the shell does; `none` for a command.
enum class ShellKeyword {
  none,
  if_begins,
  condition_ends,  // then
  elif_begins,
  else_begins,
  if_ends,
  case_begins,     // its word is the subject
  pattern_begins,  // its words are the patterns of the commands that follow
  case_ends,
  loop_begins,  // for, while, until, select; its words are the list of a `for`
  body_begins,  // do
  loop_ends,
  subshell_begins,  // "(": what is assigned up to its end is gone behind it
  subshell_ends,
  group_begins,  // "{"
  group_ends,
  function_begins,  // its word is the name; the commands up to its end are run by a call
  function_ends,
};

struct ShellCommand {
  ShellKeyword keyword = ShellKeyword::none;
  std::vector<ShellAssignment> assignments;  // those before the first word
  std::vector<ShellWord> words;
  std::vector<ShellWord> declared;  // of export and its like: what becomes an assignment, as in export "$A=1"
  bool declares_local = false;      // they are of local, declare or typeset
  std::vector<HereDocument> documents;
  std::shared_ptr<const ShellWord> input;  // behind <<< and in < <(...); null: none
  bool input_is_output = false;            // it is what stands in < <(...), as $(...)
  bool reads_file = false;                 // behind <
  bool is_redirected = false;              // its output goes elsewhere
  bool redirects_inside_test = false;      // a > or < stands before the ] of [ ... ]
  int line = 0;
  std::string loop;                // "for", "while", "until" or "select"; "" otherwise
  std::string loop_variable;       // of a `for`; "" otherwise
  std::vector<std::string> steps;  // the three expressions of for ((I = 0; I < 4; I++))
  std::string chain;               // "&&" or "||" where it stands behind one, "|" behind a pipe; "" otherwise
  bool is_negated = false;         // it stands behind a "!"
  bool is_background = false;      // it stands before an "&"
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<std::pair<int, std::string>> directives;  // "#SBATCH ..." lines, without the sign
};

/// Reads a script. `first_line` is the number of its first line, for text that stands inside of another file.
ShellScript parse_shell(std::string_view text, int first_line = 1);

}  // namespace verify
