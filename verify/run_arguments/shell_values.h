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
///         in all, a command of more than kMostRunArguments words, or too many expansions that are not known.

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
inline constexpr std::string_view kShellBlanks = " \t\n";
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

/// Appends the words of a field, between which there are blanks.
void append_words(const ShellField& field, ShellFields& words);

struct ShellValue {
  enum class Kind { text, array, unset };
  Kind kind = Kind::text;
  ShellFields fields;
  std::optional<bool> is_exported = false;  // none: it is not known
  std::size_t order = 0;                    // of the first assignment
};
using ShellValuePointer = std::shared_ptr<const ShellValue>;
using ShellVariables = std::map<std::string, ShellValuePointer>;

/// What $0, $1 and so on are.
struct ShellArguments {
  bool are_known = false;  // if not: the caller's arguments, from number `shifted` on
  ShellFields fields;
  std::optional<std::int64_t> shifted = 0;  // none: that is not known
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
  std::shared_ptr<ShellVariables> variables = std::make_shared<ShellVariables>();  // copies share them
  std::map<std::string, std::shared_ptr<const ShellList>> functions;               // null: it is not known
  std::vector<ShellCall> calls = {{}};
  std::map<std::string, std::optional<std::string>> files;  // that the script has written; none: not known
  std::set<std::string> own;           // variables that a branch which is not taken would give arguments
  std::map<std::string, bool> opaque;  // of declare -A, -i and -n: whether it stands for another variable
  ShellStatus status;
  std::optional<std::string> output = "";   // of the substitution that is followed; none: it is not known
  std::string output_asked;                 // the variable that would tell it
  std::optional<std::string> folder = "";   // "": that of the script; none: it is not known
  int line_of_any = 0;                      // any variable may have been assigned there; 0: nowhere
  std::optional<bool> exports_all = false;  // set -a
  bool goes_on = true;                      // no `exit`, `return`, `break` or `continue` has run
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
  void forget(const std::string& name, int line, const std::string& reason);
  void forget_all(int line);
  void export_variable(const std::string& name);
  /// Gives variables other values; null: none.
  void give_back(const ShellVariables& values);
  /// Returns the values that variables have, for give_back().
  ShellVariables kept(const std::vector<std::string>& names) const;

  /// Returns the value that the file, or --set, gives a variable or $1 and its like; null where none does.
  ShellValuePointer find(const std::string& name);
  /// A variable of --set has its value throughout, unless that is empty and the script gives it a default.
  bool is_locked(const std::string& name) const { return set_.contains(name) && !open_.contains(name); }
  void open(const std::string& name);
  /// Returns the arguments of the script that --set gives, as far as they are there; none where it gives
  /// none.
  std::optional<ShellFields> given_arguments() const;
  /// The name that --set has for a variable: an argument of the script has another number before a `shift`.
  std::string name_outside(const std::string& name) const;
  /// Computes an expression (shell_arithmetic.cpp), whose names are variables. `asked` gets the one that
  /// would tell a number that is not known.
  std::optional<std::int64_t> number_of(const std::string& expression, int line,
                                        std::string* asked = nullptr);

  ShellFields expand(const std::vector<ShellWord>& words);
  /// The word as a pattern (shell_condition.h). What is quoted in it stands for itself.
  std::string pattern(const ShellWord& word);
  /// The word as one field, as if all of it were quoted.
  ShellField whole(const ShellWord& word);
  /// The text of a here-document as its command gets it.
  std::string text_of(const HereDocument& document);

  /// Makes one state of those in which branches have ended. `before` is that from before them; `asked` would
  /// tell which one runs. In a loop, what is not known before stays the same.
  ShellState joined(std::vector<ShellState> states, const ShellState& before, const std::string& asked,
                    bool is_loop = false);

  /// Makes a mark for what is not known. `appended` are the words that it may be, if it is no other ones.
  std::string mark(std::string source, std::string variable, int line, std::string reason,
                   std::vector<std::string> appended = {});
  /// What the marks in a text stand for.
  std::vector<Unresolved> unresolved(std::string_view text) const;
  /// The text with the source of each expansion in the place of its mark.
  std::string shown(std::string_view text) const;
  /// The first variable that would tell what is not known; "" where none would.
  std::string variable_of(const ShellFields& fields) const;

  /// Counts bytes that somebody copies of the values.
  void charge(std::size_t bytes, int line);
  /// Notes that the script does not come to its training without a value from outside.
  void need(const std::string& name, int line);
  const std::vector<Unresolved>& needed() const { return needed_; }
  int line_of_default = 0;  // the last one in which a default has counted

 private:
  ShellVariables& variables();
  void assign_element(const ShellAssignment& assignment);
  std::shared_ptr<ShellVariables> joined_variables(const std::vector<ShellState>& states,
                                                   const ShellState& before, const std::string& asked,
                                                   bool is_loop);

  std::map<std::string, ShellValuePointer> set_;  // by --set
  std::set<std::string> open_;                    // those that the script gives a default
  std::vector<Unresolved> unknowns_;
  std::vector<Unresolved> needed_;
  std::size_t bytes_ = 0, assigned_ = 0;
  int line_ = 0;
};

}  // namespace verify
