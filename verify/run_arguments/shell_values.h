#pragma once

/// The values of a script's variables, as far as they can be known without executing it, and the words of its
/// commands with these values in the place of expansions.
///
/// Shapes  A value is a list of fields; a variable that is no array has one. What is not known stands in a
///         field as a mark, which begins with kUnknownBegin and ends with kUnknownEnd and holds the index of
///         an entry of unresolved().
/// Errors  run_file_size: a value or a word of more than 1 MiB, words and values of more than 64 MiB in all,
///         a word or a command of more than kMostRunArguments words, or too many expansions that are not
///         known.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_output.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

inline constexpr char kUnknownBegin = '\x01';
inline constexpr char kUnknownEnd = '\x02';
/// Where they are not quoted, a shell makes other words of what holds them.
inline constexpr std::string_view kPatternSigns = "*?[{";

/// They separate words, unless IFS says otherwise.
inline constexpr const char* kShellBlanks = " \t\r\n";
inline constexpr std::size_t kMostShellValueBytes = std::size_t{1} << 20U;

/// Why a variable has no value.
inline constexpr const char* kNotAssigned = "it is not assigned in the file";

struct ShellField {
  std::string text;
  int line = 0;
  bool may_be_many = false;  // a shell may make several fields of it, or none
  bool has_unknown() const { return text.find(kUnknownBegin) != std::string::npos; }
};

class ShellValues {
  struct Call;

 public:
  explicit ShellValues(const RunVariables& set);

  void assign(const ShellAssignment& assignment);
  /// Follows an assignment in a branch that may run. `asked` is the variable that would tell it, or "". A
  /// value that is only made longer (X="$X ...") keeps what it had.
  void assign_perhaps(const ShellAssignment& assignment, const std::string& asked);
  /// Follows an assignment in a branch that is not taken. A variable that it would give arguments is one of
  /// the script's own, and is empty as long as nothing else gives it a value.
  void leave_unassigned(const ShellAssignment& assignment);
  /// Gives a variable a value that the file says in another way than by an assignment.
  void define(const std::string& name, std::string value, int line);
  void define(const std::string& name, std::vector<ShellField> fields);
  /// Returns the value that a variable has, to give it back later; none: it is not assigned.
  std::optional<std::vector<ShellField>> kept(const std::string& name, int line);
  void give_back(const std::string& name, std::optional<std::vector<ShellField>> value);
  void unset(const std::string& name, int line);
  /// `unset -n`: the name stands for no other variable any more.
  void unset_reference(const std::string& name) { references_.erase(name); }
  /// Returns the variable that a name stands for: itself, or that of a `local -n`; "" where it is not known.
  std::string referred(const std::string& name) const;
  /// Counts bytes that somebody copies of the values.
  void charge(std::size_t bytes, int line);

  using Table = std::map<std::string, std::string>;  // the elements of an associative array, by their keys
  /// All values, and the arguments.
  struct Scope {
    std::map<std::string, std::vector<ShellField>> values;
    std::vector<std::string> order;
    std::map<std::string, Table> tables;
    std::map<std::string, std::string> references;
    std::vector<Call> calls;
    std::optional<std::vector<std::vector<ShellField>>> arguments;
    std::optional<std::int64_t> shifted;
  };

  /// A subshell: when it ends, the values and the arguments from before are there again.
  class Subshell {
   public:
    Subshell(ShellValues& values, int line) : values_(values), before_(values.scope(line)) {}
    ~Subshell() { values_.leave(std::move(before_)); }
    Subshell(const Subshell&) = delete;
    Subshell& operator=(const Subshell&) = delete;

   private:
    ShellValues& values_;
    Scope before_;
  };

  /// A variable that takes several values in turn.
  void forget(const std::string& name, int line, const std::string& reason);

  /// The commands of a function, whose output is asked for where it is called in $(...).
  using Commands = std::shared_ptr<const std::vector<ShellCommand>>;
  void define_function(const std::string& name, Commands commands) { functions_[name] = std::move(commands); }
  /// Returns the commands of a function; null where there is none of this name.
  Commands function(const std::string& name) const;

  /// The call of a function: until it ends, $1, $2 and so on are these arguments. Then its local variables
  /// have the values from before again. A function called with "$@" alone has the arguments around it.
  class CallScope {
   public:
    CallScope(ShellValues& values, const std::vector<ShellField>& arguments) : values_(values) {
      values_.begin_call(arguments);
    }
    ~CallScope() { values_.end_call(); }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

   private:
    ShellValues& values_;
  };
  /// `shift` of the arguments of the function that is called, or of the script. A count that is not known
  /// leaves no argument known.
  void shift(std::optional<std::size_t> count, int line);
  /// `set -- ...`: the arguments of the function, or of the script, are these from now on; none: they may be.
  void set_arguments(std::optional<std::vector<ShellField>> arguments, int line);

  std::vector<ShellField> expand(const ShellWord& word);
  std::vector<ShellField> expand(const std::vector<ShellWord>& words);
  /// The word as a pattern (shell_pattern.h). What is quoted in it stands for itself.
  std::string pattern(const ShellWord& word);
  /// The word as one field, as if all of it were quoted.
  ShellField whole(const ShellWord& word) { return {joined(word), word.line}; }
  /// The text of a here-document as its command gets it.
  std::string text_of(const HereDocument& document);

  /// The assigned variables, in the order of their first assignment.
  const std::vector<std::string>& names() const { return order_; }
  const std::vector<ShellField>& value(const std::string& name) const { return values_.at(name); }

  /// Whether nothing in the file gives a variable a value, or gives it that of such a variable.
  bool is_given_nothing(const std::string& name) const;

  /// Returns the variables that would tell what is not known in expanded words.
  std::vector<std::string> unknown_variables(const std::vector<ShellField>& words) const;

  /// Sentences that warn where another reading is possible.
  const std::vector<std::string>& notes() const { return notes_; }

  /// What the marks in a text stand for.
  std::vector<Unresolved> unresolved(std::string_view text) const;
  /// The text with the source of each expansion in the place of its mark.
  std::string shown(std::string_view text) const;

 private:
  Scope scope(int line);
  void leave(Scope before);
  using Fields = std::vector<ShellField>;

  void begin_call(const Fields& arguments);
  void end_call();
  void forget_all(int line);
  Fields fields_of(const ShellPart& part, int line);
  Fields fields_of_arguments(const ShellPart& part, int line);
  Fields fields_of_variable(const ShellPart& part, int line);
  Fields fields_of_table(const ShellPart& part, const Table& table, int line);
  Fields changed(const ShellPart& part, Fields fields, int line);
  std::optional<std::string> changed_text(const ShellPart& part, const std::string& text, int line);
  std::optional<Fields> sliced(const ShellPart& part, const Fields& fields, int line);
  std::optional<std::int64_t> number_of(const ShellWord& word, int line);
  Fields fields_of(const ShellAssignment& assignment);
  void assign_element(const ShellAssignment& assignment);
  bool assigns_table(const ShellAssignment& assignment);
  Fields* list(const std::string& name);
  std::string given_name(const std::string& name) const;
  std::optional<std::int64_t> index_or_negative(const std::string& key) const;
  std::optional<std::int64_t> index_of(const std::string& key) const;
  Fields expand_nested(const ShellWord& word, int line);
  ShellOutput output_of(const ShellPart& part, int line);
  void keep(const ShellAssignment& assignment, Fields fields);
  /// Returns the first variable that would tell what is not known in expanded words; "" where none would.
  std::string first_variable(const Fields& words) const;
  bool keep_with_more(const ShellAssignment& assignment, const std::string& asked, const Fields& fields);
  /// Returns the unknown that is the whole of a text; null for other texts.
  const Unresolved* whole_unknown(std::string_view text) const;
  void keep_outer(const ShellAssignment& assignment);
  /// Returns the value of a variable; null where it is not known.
  const Fields* known(const std::string& name) const;
  static void refuse_size(int line, const char* what);
  void keep_note(const std::string& note);
  void note_first_element(const ShellPart& part, const Fields& value, int line);
  std::string mark(std::string source, std::string variable, int line, std::string reason);
  std::string joined(const ShellWord& word);
  std::optional<std::string> separators() const;

  struct Call {
    std::vector<Fields> arguments;                       // each a value
    std::map<std::string, std::optional<Fields>> outer;  // the values of its local variables from before
    std::map<std::string, std::string> references;       // those from before
    bool hands_on = false;  // its arguments are those around it, behind so many of them:
    std::size_t shifted = 0;
  };
  /// Returns the arguments that $1 and its like are of, and adds what is shifted before them; null where they
  /// are those of the script.
  const std::vector<Fields>* arguments(std::size_t& shifted) const;

  std::map<std::string, Fields> set_;        // by --set
  std::optional<std::int64_t> shifted_ = 0;  // arguments of the script; none: it is not known how many
  std::vector<Call> calls_;
  std::optional<std::vector<Fields>> arguments_;   // of the script, behind `set --`
  std::map<std::string, std::string> references_;  // names that stand for other variables
  std::map<std::string, Commands> functions_;
  std::map<std::string, Fields> values_;
  std::map<std::string, Table> tables_;
  std::set<std::string> left_unassigned_;
  std::vector<std::string> order_;
  std::vector<Unresolved> unknowns_;
  std::vector<std::string> notes_;
  std::size_t first_of_arguments_ = 0;  // a "$@" among the unknowns before this one is of other arguments
  std::size_t expanded_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace verify
