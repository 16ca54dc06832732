#pragma once

/// The values of a script's variables, as far as they can be known without executing it, and the words of its
/// commands with these values in the place of expansions.
///
/// Shapes  A value is a list of fields; a variable that is no array has one. What is not known stands in a
///         field as a mark, which begins with kUnknownBegin and ends with kUnknownEnd and holds the index of
///         an entry of unresolved(). A variable to which the file gives no value may have one from outside: a
///         default of the file counts as its value, and otherwise it is not known.
/// Calls   Of branches of which one runs, each is followed on its own copy of the state; joined() then makes
///         one state of them. A value that is not the same in all of them is not known from there on.
/// Errors  run_file_size: a value or a word of more than 1 MiB, words, values and copies of more than 64 MiB
///         in all, a word or a command of more than kMostRunArguments words, or too many expansions that are
///         not known.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

inline constexpr char kUnknownBegin = '\x01';
inline constexpr char kUnknownEnd = '\x02';
inline constexpr std::size_t kMostShellValueBytes = std::size_t{1} << 20U;

/// Why a variable has no value.
inline constexpr const char* kNotAssigned = "it is not assigned in the file";

struct ShellField {
  std::string text;
  int line = 0;
  bool may_be_many = false;  // a shell may make several fields of it, or none
  bool has_unknown() const { return text.find(kUnknownBegin) != std::string::npos; }
  bool operator==(const ShellField& other) const {
    return text == other.text && may_be_many == other.may_be_many;
  }
};
using ShellFields = std::vector<ShellField>;

struct ShellValue {
  enum class Kind { text, array, table, unset };
  Kind kind = Kind::text;
  ShellFields fields;
  std::vector<std::string> keys;  // of a table: one for each field, in alphabetical order
  bool is_exported = false;
  std::size_t order = 0;  // those of the file have another number each, by their first assignment
};
using ShellVariables = std::map<std::string, std::shared_ptr<const ShellValue>>;
using ShellFunctions =
    std::map<std::string, std::shared_ptr<const ShellList>>;  // null: which one is not known

/// What $0, $1 and so on are.
struct ShellArguments {
  bool are_known = false;  // they are these; otherwise those of the script, behind so many of them:
  ShellFields fields;
  std::optional<std::int64_t> shifted = 0;  // none: that is not known
  std::string name;                         // the path of the script; "" where it has none
};

/// A call of a function. The first one is the script.
struct ShellCall {
  ShellArguments arguments;
  ShellVariables outer;  // the values from before that its local variables hide; null: none
};

/// Whether the last command has succeeded.
struct ShellStatus {
  std::optional<bool> success;          // none: it is not known
  std::string asked;                    // the variable that would tell; "" where none would
  std::set<std::string> empty_if_true;  // it has succeeded where one of them has no value from outside
  std::set<std::string> empty_if_false;
};

/// What the commands of a script change.
struct ShellState {
  std::shared_ptr<ShellVariables> variables = std::make_shared<ShellVariables>();  // shared by copies
  ShellFunctions functions;
  std::vector<ShellCall> calls = {{}};
  std::map<std::string, std::optional<std::string>> files;  // that the script has written; none: not known
  std::set<std::string> own;         // variables that a branch which is not taken would give arguments
  std::set<std::string> integers;    // of `declare -i`
  std::set<std::string> references;  // of `local -n`
  int line_of_any = 0;               // any variable may have been assigned there; 0: nowhere
  ShellStatus status;
  std::optional<std::string> output = "";  // of the substitution that is followed; none: it is not known
  std::string output_asked;                // the variable that would tell it
  std::optional<std::string> folder = "";  // "": that of the script; none: it is not known
  bool ends_by_failure = false;            // set -e
  bool exports_all = false;                // set -a
  bool goes_on = true;                     // no `exit`, `return`, `break` or `continue` has run
  bool has_exited = false;
};

class ShellValues {
 public:
  explicit ShellValues(const RunVariables& set);

  ShellState state;
  /// Returns what commands print in $(...), or nothing and the variable that would tell it.
  std::function<std::pair<std::optional<std::string>, std::string>(const ShellList& commands)> output_of;

  void assign(const ShellAssignment& assignment);
  void define(const std::string& name, std::string text, int line);
  void keep(const std::string& name, ShellValue value);
  /// Leaves no value, which is not exported either.
  void unset(const std::string& name);
  void forget(const std::string& name, int line, const std::string& reason);
  void forget_all(int line);
  void export_variable(const std::string& name);
  /// Makes a variable one of the function that is called, whose value from before end_call() gives back.
  void hide(const std::string& name);
  void end_call();
  void give_back(const ShellVariables& values);
  /// Leaves the variables that a program gets which the script starts: none where it runs elsewhere.
  void leave_exported(bool is_elsewhere);
  void shift(std::optional<std::int64_t> count);

  /// Returns the value that the file, or --set, gives a variable or $1 and its like; null where none does.
  std::shared_ptr<const ShellValue> find(const std::string& name);
  /// A variable of --set has its value throughout, unless that is empty and the script gives it a default.
  bool is_locked(const std::string& name) const { return set_.contains(name) && !open_.contains(name); }
  void open(const std::string& name);
  /// Arithmetic, whose names are variables.
  std::optional<std::int64_t> number_of(const std::string& expression, int line);
  /// Returns the variable that would tell the last number that was not known; "" where none would.
  const std::string& asked_of_number() const { return asked_; }

  ShellFields expand(const ShellWord& word);
  ShellFields expand(const std::vector<ShellWord>& words);
  /// The word as a pattern (shell_pattern.h). What is quoted in it stands for itself.
  std::string pattern(const ShellWord& word);
  /// The word as one field, as if all of it were quoted.
  ShellField whole(const ShellWord& word) { return {joined(word), word.line}; }
  /// The text of a here-document as its command gets it.
  std::string text_of(const HereDocument& document);

  /// Makes one state of those in which branches have ended. `before` is that from before them; `asked` would
  /// tell which one runs. In a loop, what is not known before stays the same.
  ShellState joined(std::vector<ShellState> states, const ShellState& before, const std::string& asked,
                    bool is_loop = false);

  std::string mark(std::string source, std::string variable, int line, std::string reason);
  /// What the marks in a text stand for.
  std::vector<Unresolved> unresolved(std::string_view text) const;
  /// The text with the source of each expansion in the place of its mark.
  std::string shown(std::string_view text) const;
  /// The first variable that would tell what is not known; "" where none would.
  std::string variable_of(std::string_view text) const;
  std::string variable_of(const ShellFields& fields) const;

  /// Counts bytes that somebody copies of the values.
  void charge(std::size_t bytes, int line);
  /// Notes that the script does not come to its training without a value from outside.
  void need(const std::string& name, int line);
  const std::vector<Unresolved>& needed() const { return needed_; }
  /// The last line in which a default has counted.
  int line_of_default() const { return line_of_default_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// A part of an expanded word.
  struct Piece {
    enum class Kind { literal, quoted, value };  // a value is split at its blanks
    Kind kind = Kind::literal;
    std::string text;
    int line = 0;
    bool begins_field = false;
    bool may_be_many = false;
  };
  using Pieces = std::vector<Piece>;

  [[noreturn]] static void refuse_size(int line, const char* what);
  ShellVariables& variables();
  std::string name_outside(const std::string& name) const;
  void assign_element(const ShellAssignment& assignment);
  bool splits_at_blanks() const;
  std::string joined(const ShellWord& word);
  ShellFields split(const Pieces& pieces, int line);
  Pieces pieces(const ShellWord& word);
  void add(const ShellPart& part, int line, Pieces& pieces);
  void add_unknown(const ShellPart& part, const std::string& asked, int line, Pieces& pieces,
                   const char* reason);
  void add_word(const ShellPart& part, Pieces& pieces);
  void add_parameter(const ShellPart& part, int line, Pieces& pieces);
  bool add_default(const ShellPart& part, bool is_outside, const ShellFields& fields, int line,
                   Pieces& pieces);
  std::optional<ShellFields> special(const ShellPart& part, int line);
  std::optional<ShellFields> chosen(const ShellPart& part, const ShellValue& value, int line);
  std::optional<ShellFields> changed(const ShellPart& part, ShellFields fields, int line);
  std::optional<std::string> changed_text(const ShellPart& part, const std::string& text, int line);
  std::optional<ShellFields> sliced(const ShellPart& part, const ShellFields& fields, int line);

  std::shared_ptr<ShellVariables> joined_variables(const std::vector<ShellState>& states,
                                                   const ShellState& before, const std::string& asked,
                                                   bool is_loop);
  ShellValue merged(const std::string& name, const ShellValue* before,
                    const std::vector<const ShellValue*>& others, const std::string& asked, bool is_loop);
  std::optional<ShellValue> extended(const std::string& name, const ShellValue& before,
                                     const std::vector<const ShellValue*>& others, const std::string& asked);
  std::vector<std::string> marks_of(const std::string& name, const ShellFields& fields,
                                    const std::string& known, const std::string& asked);

  std::map<std::string, std::shared_ptr<const ShellValue>> set_;  // by --set
  std::set<std::string> open_;                                    // those that the script gives a default
  std::vector<Unresolved> unknowns_;
  std::vector<Unresolved> needed_;
  std::vector<std::string> notes_;
  std::string asked_;  // what would tell the last number that was not known
  std::size_t bytes_ = 0, assigned_ = 0;
  int line_ = 0, line_of_default_ = 0;
};

}  // namespace verify
