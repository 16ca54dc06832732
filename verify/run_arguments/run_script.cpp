#include "verify/run_arguments/run_script.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <span>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_branches.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_word_reader.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

constexpr int kMostNesting = 8;  // of here-documents, of `bash -c` and of calls
constexpr std::size_t kMostCommands = 1'000'000;
constexpr int kMostOpenReads = 200;

using Fields = std::vector<ShellField>;

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool has_blank(std::string_view text) { return text.find_first_of(" \t\n") != std::string_view::npos; }

/// Whether a program takes a command as one word.
bool is_shell(std::string_view word) {
  const std::string_view name = base_name(word);
  return name == "bash" || name == "sh" || name == "ssh" || name == "pdsh";
}

bool only_starts(std::string_view word) { return word == "sbatch" || word == "source" || word == "."; }

bool is_option(std::string_view word) { return word.starts_with('-'); }

bool only_prints(std::string_view word) { return word == "echo" || word == "printf"; }

/// Returns the variables that a command ((...)) assigns.
std::vector<std::string> names_assigned_in(const ShellCommand& command) {
  if (command.words.size() != 2 || command.words[0].parts.empty()) return {};
  const std::vector<ShellPart>& parts = command.words[1].parts;
  const bool is_arithmetic = parts.size() == 1 && parts[0].kind == ShellPart::Kind::arithmetic &&
                             command.words[0].parts.front().text == "((";
  return is_arithmetic ? names_assigned_by(parts[0].text) : std::vector<std::string>();
}

/// Returns NAME=expression of ((...)) and `let` as an assignment; none where it assigns in another way.
std::optional<ShellAssignment> arithmetic_assignment(std::string_view text, int line) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || text.find('=', equals + 1) != std::string_view::npos)
    return std::nullopt;
  std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
  name = name.substr(0, name.find_last_not_of(" \t") + 1);
  const bool has_quotes = value.find_first_of("'\"\\`") != std::string_view::npos;
  const bool is_plain = !has_quotes && !name.empty() && begins_shell_name(name.front()) &&
                        std::ranges::all_of(name, is_of_shell_name) &&
                        value.find(',') == std::string_view::npos && names_assigned_by(value).empty();
  if (!is_plain) return std::nullopt;
  return ShellAssignment{.name = std::string(name),
                         .appends = false,
                         .is_array = false,
                         .is_local = false,
                         .is_associative = false,
                         .key = {},
                         .values = {ShellWordReader(fmt::format("$(({}))", value), line, 0).whole_word(true)},
                         .line = line};
}

/// Whether a word gives torchrun its processes.
bool is_of_torchrun(std::string_view word) {
  const std::string name = run_argument_name(word.substr(0, word.find('=')));
  return name == "nnodes" || name == "nproc-per-node";
}

/// Returns the option that gives a variable this value, with a blank before it; "" where the value is not
/// known, or is too long for a hint.
std::string option_to_set(const std::string& name, const ShellField& value) {
  constexpr std::size_t kMostOfAHint = 80;
  if (value.has_unknown() || value.text.size() > kMostOfAHint) return "";
  const bool is_plain = value.text.find_first_of(" \t\n'\"$;&|<>*?(){}") == std::string::npos;
  const bool is_quotable = value.text.find('\'') == std::string::npos;
  if (!is_plain && !is_quotable) return "";
  const std::string text = sim::printable_text(value.text);
  return is_plain ? fmt::format(" --set {}={}", name, text) : fmt::format(" --set '{}={}'", name, text);
}

/// A command that starts a training script: the words before the script, and its arguments.
struct Launch {
  Fields before;
  Fields arguments;
  std::string script;  // the Python file; "" where the text is arguments alone
  int line = 0;
  bool is_apart = false;  // arguments alone, which begin a command of their own outside of here-documents
  std::map<std::string, std::string> environment;  // what stands before the command
};

/// Whether the name of the script says that it trains: pretrain_gpt.py, my.train.
bool is_named_training(const Launch& launch) {
  const std::string_view name = base_name(launch.script);
  for (std::size_t at = name.find("train"); at != std::string::npos; at = name.find("train", at + 1)) {
    const bool begins_a_word = at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0;
    if (begins_a_word || name.substr(0, at).ends_with("pre")) return true;
  }
  return false;
}

/// Returns the training script of a command: a Python file, or a module behind -m of Python or torchrun.
Fields::const_iterator script_of(const Fields& words) {
  bool takes_module = false;  // -m may stand here
  bool is_module = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view name = base_name(word->text);
    const bool starts_others = name == "torchrun" || name.starts_with("torch.distributed");
    if (name.ends_with(".py") && !has_blank(word->text) && !is_flag(word->text)) return word;
    if (is_module && !starts_others) return word;
    is_module = takes_module && (name == "-m" || name == "--module");
    takes_module = (takes_module && !is_module) || starts_others || name.starts_with("python");
  }
  return words.end();
}

/// Whether a word is an argument that says something about the training.
bool says_training(const ShellField& word) {
  if (!is_flag(word.text)) return false;
  const ArgumentRow* row = find_argument(run_argument_name(word.text.substr(0, word.text.find('='))));
  return row != nullptr && row->use != ArgumentUse::without_effect;
}

bool trains(const Launch& launch) { return std::ranges::any_of(launch.arguments, says_training); }

/// Returns the training script of a command whose name is not known, as in `$LAUNCH $SCRIPT --num-layers 4`:
/// the last word that is not known before the first argument, where arguments follow that say something about
/// the training. The value of an option is none.
Fields::const_iterator unknown_script_of(const Fields& words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_value =
        word != words.begin() && is_flag((word - 1)->text) && (word - 1)->text.find('=') == std::string::npos;
    const bool ends = word + 1 != words.end() && is_flag((word + 1)->text);
    const bool is_script = word->text.starts_with(kUnknownBegin) && ends && !is_value;
    if (is_script && std::any_of(word, words.end(), says_training)) return word;
  }
  return words.end();
}

/// Returns the argument of Megatron that a key of a configuration is named for, as an option with its value:
/// "--tensor-model-parallel-size 2" of "model.tensor_model_parallel_size=2"; "" for other words.
std::string option_of_override(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || is_option(word)) return "";
  std::string_view key = word.substr(0, equals);
  if (key.find_first_of("/ \"'") != std::string_view::npos) return "";
  key.remove_prefix(key.rfind('.') + 1);
  const ArgumentRow* row =
      key.find('_') == std::string_view::npos ? nullptr : find_argument(run_argument_name(key));
  if (row == nullptr || row->use != ArgumentUse::used) return "";
  return fmt::format("--{} {}", run_argument_name(key), word.substr(equals + 1));
}

/// Returns the index of the keyword that ends what begins here, or that of the last command.
std::size_t end_of(std::span<const ShellCommand> commands, std::size_t begin, ShellKeyword begins,
                   ShellKeyword ends) {
  int open = 0;
  for (std::size_t i = begin; i < commands.size(); ++i) {
    if (commands[i].keyword == begins) ++open;
    if (commands[i].keyword == ends && --open == 0) return i;
  }
  return commands.size();
}

/// Whether a text that is not known looks like the command of a training: "run=srun python x.py --a".
bool looks_like_a_launch(std::string_view text) {
  return text.find(" --") != std::string_view::npos &&
         (text.find(".py") != std::string_view::npos || text.find(" -m ") != std::string_view::npos);
}

class ScriptReader {
 public:
  explicit ScriptReader(const RunVariables& set) : values_(set) {}

  void read(std::string_view text, int first_line, int depth);
  RunArguments arguments();

 private:
  using Commands = std::span<const ShellCommand>;

  /// A shell script that the file starts.
  struct Started {
    std::string script;   // "" where the file starts none
    std::string options;  // " --set TP=2": what the file gives it
    int line = 0;
    bool is_sourced = false;  // its variables are those of the file, too
  };

  void read(Commands commands, int depth);
  std::optional<Fields> list_of_loop(Commands commands, std::size_t begin);
  void read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs);
  void read_input(const ShellCommand& command, const Fields& words, ShellRuns runs);
  void read(const ShellCommand& command, int depth);
  void read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth);
  void read_allocation(const Fields& words);
  std::string text_of(const HereDocument& document);
  void read_documents(const ShellCommand& command, const Fields& words, int depth);
  void assign(const ShellCommand& command, ShellRuns runs);
  void assign(const ShellAssignment& assignment, bool is_certain);
  void assign_by_arithmetic(const ShellCommand& command, const Fields& words, ShellRuns runs);
  bool calls_function(const Fields& words, ShellRuns runs, int depth);
  void read_functions_without_a_call();
  void keep_started(const Fields& words, int line);
  void read_nested(std::string_view text, int line, int depth);
  void read_command_text(std::string_view text, int line, int depth);
  void keep_what_is_not_known(const Fields& words);
  void find_launch(const Fields& words, ShellRuns runs, int line, int depth);
  void take_assigned_arguments();
  void take(const Fields& words, RunArguments& run);
  void take_world(RunArguments& run);
  void take_environment(RunArguments& run) const;
  void keep_those_that(bool (*has_property)(const Launch&));
  void keep_overrides(const Fields& arguments);
  void refuse_overrides() const;
  void refuse_arguments_apart() const;
  void refuse_what_is_not_known() const;

  ShellValues values_;
  ShellBranches branches_;
  LaunchWorld world_;
  std::vector<Launch> launches_;
  std::vector<std::string> given_to_command_;  // the variables that stand before a command that is read
  int open_documents_ = 0;                     // here-documents that are read
  bool starts_script_ = false;                 // a command does, with arguments or without
  int open_reads_ = 0;                         // lists of commands that are read, one inside of the other
  int ended_ = 0;                              // the line of the `exit` that has ended the script; 0: none
  int open_calls_ = 0;                         // functions that are read where they are called
  bool has_returned_ = false;                  // the function that is read has come to its `return`
  Fields not_known_;                           // words that look like a training, but are not known
  Fields overrides_;                           // the options that keys of a configuration stand for
  Started started_;                            // the last one

  struct Function {
    std::vector<ShellCommand> commands;
    bool is_called = false;
  };
  std::map<std::string, Function> functions_;
  std::size_t commands_ = 0;  // that were read
};

void ScriptReader::read(std::string_view text, int first_line, int depth) {
  const ShellScript script = parse_shell(text, first_line);
  for (const auto& [line, directive] : script.directives) {
    Fields words;
    for (const ShellCommand& command : parse_shell(directive, line).commands) {
      const Fields expanded = values_.expand(command.words);
      words.insert(words.end(), expanded.begin(), expanded.end());
    }
    read_allocation(words);
  }
  read(script.commands, depth);
}

void ScriptReader::read(Commands commands, int depth) {
  if (++open_reads_ > kMostOpenReads) {
    sim::refuse({.code = "script_syntax",
                 .option = commands.empty() ? "--from" : fmt::format("line {}", commands.front().line),
                 .numbers = fmt::format("subshells, loops or calls nested more than {} deep", kMostOpenReads),
                 .rule = "a launch script is nested a few levels deep",
                 .hint = "the command line alone"});
  }
  for (std::size_t i = 0; i < commands.size() && ended_ == 0 && !has_returned_; ++i) {
    const ShellCommand& command = commands[i];
    if (command.keyword == ShellKeyword::function_begins) {
      const std::size_t end = end_of(commands, i, ShellKeyword::function_begins, ShellKeyword::function_ends);
      const Fields name = values_.expand(command.words);
      const Commands body = commands.subspan(i + 1, end - i - 1);
      if (name.size() == 1) functions_[name.front().text] = {{body.begin(), body.end()}, false};
      i = end;
    } else if (command.keyword == ShellKeyword::subshell_begins) {
      const std::size_t end = end_of(commands, i, ShellKeyword::subshell_begins, ShellKeyword::subshell_ends);
      ShellValues::Scope before = values_.scope(command.line);
      branches_.follow(command, values_);
      read(commands.subspan(i + 1, end - i - 1), depth);
      values_.leave(std::move(before));
      has_returned_ = false;
      if (std::exchange(ended_, 0) != 0) branches_.ended(std::nullopt);
      if (end < commands.size()) branches_.follow(commands[end], values_);
      i = end;
    } else if (const std::optional<Fields> list = list_of_loop(commands, i)) {
      const std::size_t end = end_of(commands, i, ShellKeyword::loop_begins, ShellKeyword::loop_ends);
      for (const ShellField& value : *list) {
        values_.define(command.loop_variable, value.text, command.line);
        read(commands.subspan(i + 1, end - i - 1), depth);
      }
      branches_.ended(std::nullopt);
      i = end;
    } else {
      read(command, depth);
    }
  }
  --open_reads_;
}

/// Returns the list of a `for` that begins here, where it certainly runs once for each of these values.
std::optional<std::vector<ShellField>> ScriptReader::list_of_loop(Commands commands, std::size_t begin) {
  const ShellCommand& loop = commands[begin];
  const bool has_list = loop.keyword == ShellKeyword::loop_begins && !loop.loop_variable.empty() &&
                        !loop.words.empty() && branches_.around() == ShellRuns::yes;
  if (!has_list) return std::nullopt;
  const std::size_t end = end_of(commands, begin, ShellKeyword::loop_begins, ShellKeyword::loop_ends);
  for (const ShellCommand& command : commands.subspan(begin + 1, end - begin - 1)) {
    for (const char* word : {"break", "continue", "exit", "return"})
      if (!command.words.empty() && is_literal(command.words.front(), word)) return std::nullopt;
  }
  Fields list = values_.expand(loop.words);
  const auto is_plain = [&](const ShellField& word) {
    return !word.has_unknown() && word.text.find_first_of(kPatternSigns) == std::string::npos;
  };
  if (list.empty() || !std::ranges::all_of(list, is_plain)) return std::nullopt;
  return list;
}

/// Reads the commands of a function where it is called. Returns whether the words are a call.
bool ScriptReader::calls_function(const Fields& words, ShellRuns runs, int depth) {
  const auto found = words.empty() ? functions_.end() : functions_.find(words.front().text);
  if (found == functions_.end() || depth == kMostNesting) return false;
  found->second.is_called = true;
  const std::vector<ShellCommand> commands = found->second.commands;  // a call may define it anew
  const ShellBranches around = branches_;
  branches_.enter(runs);
  values_.begin_call({words.begin() + 1, words.end()});
  ++open_calls_;
  read(commands, depth + 1);
  --open_calls_;
  has_returned_ = false;
  values_.end_call();
  branches_ = around;
  branches_.ended(std::nullopt);
  return true;
}

/// Of a file in which no command is found, the functions that nothing here calls: something may call them by
/// their name.
void ScriptReader::read_functions_without_a_call() {
  std::vector<std::vector<ShellCommand>> bodies;
  for (const auto& [name, function] : functions_)
    if (!function.is_called) bodies.push_back(function.commands);
  for (const std::vector<ShellCommand>& body : bodies) read(body, kMostNesting);
}

void ScriptReader::read(const ShellCommand& command, int depth) {
  if (command.keyword != ShellKeyword::none) {
    branches_.follow(command, values_);
    if (!command.loop_variable.empty())
      values_.forget(command.loop_variable, command.line, "it takes several values in a loop");
    return;
  }
  const ShellRuns runs = branches_.runs(command);
  if (runs == ShellRuns::no) {
    for (const ShellAssignment& assignment : command.assignments) values_.leave_unassigned(assignment);
    return;
  }
  if (++commands_ > kMostCommands) {
    sim::refuse({.code = "run_file_size",
                 .option = fmt::format("line {}", command.line),
                 .numbers = fmt::format("more than {} commands", kMostCommands),
                 .rule = "a launch script runs few commands",
                 .hint = "the command line alone"});
  }
  const Fields words = values_.expand(command.words);
  if (words.empty() || command.assignments.empty()) {
    assign(command, runs);
    return read(command, words, runs, depth);
  }
  // Assignments before a word are those of the command alone, which is read as if it ran.
  std::vector<std::pair<std::string, std::optional<Fields>>> before;
  for (const ShellAssignment& assignment : command.assignments)
    before.emplace_back(assignment.name, values_.kept(assignment.name, command.line));
  assign(command, branches_.around());
  const std::size_t outer = given_to_command_.size();
  for (const auto& [name, value] : before) given_to_command_.push_back(name);
  read(command, words, runs, depth);
  given_to_command_.resize(outer);
  for (auto kept = before.rbegin(); kept != before.rend(); ++kept)
    values_.give_back(kept->first, std::move(kept->second));
}

void ScriptReader::assign(const ShellCommand& command, ShellRuns runs) {
  for (const ShellAssignment& assignment : command.assignments) {
    assign(assignment, runs == ShellRuns::yes || branches_.gives_default(command, assignment.name));
  }
}

void ScriptReader::assign(const ShellAssignment& assignment, bool is_certain) {
  if (is_certain) {
    values_.assign(assignment);
  } else {
    values_.assign_perhaps(assignment, branches_.asked());
  }
}

/// Follows ((NAME=expression)) and `let NAME=expression`.
void ScriptReader::assign_by_arithmetic(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  std::vector<std::string> expressions;
  const std::vector<std::string> names = names_assigned_in(command);
  if (!names.empty()) expressions = {command.words[1].parts[0].text};
  if (!words.empty() && words.front().text == "let") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) expressions.push_back(word->text);
  }
  for (const std::string& expression : expressions) {
    if (const auto assignment = arithmetic_assignment(expression, command.line)) {
      assign(*assignment, runs == ShellRuns::yes);
      continue;
    }
    for (const std::string& name : names_assigned_by(expression))
      values_.forget(name, command.line, "it is assigned by arithmetic");
  }
}

/// Reads a command, whose words are these.
void ScriptReader::read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth) {
  if (!words.empty()) read_builtin(command, words, runs);
  if (calls_function(words, runs, depth)) return;
  assign_by_arithmetic(command, words, runs);
  find_launch(words, runs, command.line, depth);
  read_documents(command, words, depth);
  const bool is_certain = command.chain.empty() || (runs == ShellRuns::yes && command.chain != "|");
  const std::optional<bool> success = is_certain ? shell_condition(command, values_) : std::nullopt;
  if (success) return branches_.ended(success);
  branches_.ended(success, values_.unknown_variables(words),
                  is_certain ? name_tested_as_empty(command, values_) : "");
}

/// Follows the commands of the shell that change variables, or end the script.
void ScriptReader::read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  const std::string& name = words.front().text;
  const bool is_certain = runs == ShellRuns::yes && command.chain != "|";
  if (name == "shift") {
    const auto count = words.size() > 1 ? whole_number(words[1].text) : std::int64_t{1};
    const bool is_known = is_certain && count && *count >= 0;
    values_.shift(is_known ? std::optional(static_cast<std::size_t>(*count)) : std::nullopt, command.line);
  } else if (name == "unset") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      const std::string variable = word->text.substr(0, word->text.find('['));
      const bool is_whole = variable == word->text;
      if (is_option(variable)) continue;
      if (is_certain && is_whole) {
        values_.unset(variable);
      } else {
        values_.forget(variable, command.line, "it may have been unset");
      }
    }
  } else if (name == "read" || name == "mapfile" || name == "readarray") {
    read_input(command, words, runs);
  } else if (name == "exit" && is_certain && command.chain.empty()) {
    ended_ = command.line;
  } else if (name == "return" && open_calls_ > 0) {
    const bool fails = words.size() > 1 && words[1].text != "0";
    has_returned_ = is_certain;
    if (!is_certain && !fails) branches_.may_return();  // where it fails, the run has not gone this way
  }
}

/// Follows `read`: the one variable of `read -r -d ''` gets the whole here-document. What others read is not
/// known.
void ScriptReader::read_input(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  std::vector<std::string> names;
  bool is_raw = false, is_whole = false;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const std::string& text = word->text;
    const bool takes_delimiter = is_option(text) && text.ends_with('d');
    is_raw = is_raw || (is_option(text) && text.find('r') != std::string::npos);
    if (takes_delimiter && word + 1 != words.end()) {
      ++word;
      is_whole = word->text.empty();
    } else if (!is_option(text)) {
      names.push_back(text);
    } else if (text != "-r") {
      names.emplace_back();  // an option that changes what is read
    }
  }
  const bool is_one = words.front().text == "read" && names.size() == 1 && is_whole &&
                      command.documents.size() == 1 && runs == ShellRuns::yes && command.chain != "|";
  for (const std::string& name : names) {
    const bool is_name = !name.empty() && std::ranges::all_of(name, is_of_shell_name);
    if (!is_one && is_name) values_.forget(name, command.line, "it is read from the input");
    if (!is_one || !is_name) continue;
    std::string text = text_of(command.documents.front());
    if (!is_raw && text.find('\\') != std::string::npos) {
      values_.forget(name, command.line, "it is read from the input");
      continue;
    }
    const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
    text = text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
    values_.define(name, std::move(text), command.documents.front().line);
  }
}

/// Returns the text of a here-document as the command gets it.
std::string ScriptReader::text_of(const HereDocument& document) {
  if (document.is_literal) return document.text;
  return values_.whole(ShellWordReader(document.text, document.line, 0).document()).text;
}

/// Reads how many processes `sbatch` or an #SBATCH line asks for.
void ScriptReader::read_allocation(const Fields& words) {
  world_.read(words, "srun");
  for (const auto& [name, value] : world_.slurm_variables()) values_.define(name, value.text, value.line);
}

/// Reads here-documents, whose text may be a script.
void ScriptReader::read_documents(const ShellCommand& command, const Fields& words, int depth) {
  const std::string program = words.empty() ? "" : words.front().text;
  if (command.documents.empty() || program == "read") return;
  if (base_name(program) == "sbatch") read_allocation(words);
  ++open_documents_;
  for (const HereDocument& document : command.documents) read_nested(text_of(document), document.line, depth);
  --open_documents_;
}

/// Reads the text of a here-document or of `bash -c`, which may be no script at all.
void ScriptReader::read_nested(std::string_view text, int line, int depth) {
  const bool may_launch =
      text.find("--") != std::string_view::npos || text.find(".sh") != std::string_view::npos;
  if (may_launch) read_command_text(text, line, depth);
}

void ScriptReader::read_command_text(std::string_view text, int line, int depth) {
  if (depth == kMostNesting) return;
  const ShellBranches around = branches_;
  const int open_reads = open_reads_;
  try {
    read(text, line, depth + 1);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
  }
  branches_ = around;
  open_reads_ = open_reads;
  ended_ = 0;  // it ends a shell of its own
}

void ScriptReader::find_launch(const Fields& words, ShellRuns runs, int line, int depth) {
  if (words.empty() || only_prints(words.front().text)) return;
  keep_what_is_not_known(words);
  if (words.front().text == "eval") {
    std::string text;
    for (auto word = words.begin() + 1; word != words.end(); ++word)
      text += (text.empty() ? "" : " ") + word->text;
    const ShellBranches around = branches_;
    branches_.enter(runs);
    read_command_text(text, words.back().line, depth);
    branches_ = around;
    return;
  }
  if (is_flag(words.front().text)) {
    const bool goes_on = !launches_.empty() && launches_.back().script.empty();
    if (!goes_on) launches_.push_back({.before = {}, .arguments = {}, .script = "", .line = line});
    Launch& launch = launches_.back();
    launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
    launch.is_apart = launch.is_apart || open_documents_ == 0;
    return;
  }
  const bool starts_shell = std::ranges::any_of(words, [](const ShellField& word) {
    return is_shell(word.text) || only_starts(word.text) || word.text.ends_with(".sh");
  });
  auto script = script_of(words);
  if (script == words.end() && !starts_shell) script = unknown_script_of(words);
  const auto dashes =
      std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
  if (dashes != words.rend() && dashes.base() > script) {  // a launcher of somebody's own, and its command
    const Fields behind(dashes.base(), words.end());
    if (script_of(behind) != behind.end()) return find_launch(behind, runs, line, depth);
  }
  if (script != words.end()) {
    starts_script_ = true;
    Launch launch{.before = {words.begin(), script},
                  .arguments = {script + 1, words.end()},
                  .script = values_.shown(script->text),
                  .line = line};
    for (const std::string& name : given_to_command_) {
      const std::optional<Fields> value = values_.kept(name, line);
      if (value && value->size() == 1 && !value->front().has_unknown())
        launch.environment[name] = value->front().text;
    }
    const auto& arguments = launch.arguments;
    const bool has_arguments = std::any_of(arguments.begin(), arguments.end(), [](const ShellField& word) {
      return is_flag(word.text) || word.has_unknown();
    });
    keep_overrides(arguments);
    if (has_arguments) launches_.push_back(std::move(launch));
    return;
  }
  if (base_name(words.front().text) == "sbatch") {
    const auto wrapped =
        std::ranges::find_if(words, [](const ShellField& word) { return word.text.starts_with("--wrap"); });
    if (wrapped != words.end()) {
      const bool is_one_word = wrapped->text.starts_with("--wrap=");
      const auto command = is_one_word || wrapped + 1 == words.end() ? wrapped : wrapped + 1;
      read_allocation({words.begin(), wrapped});
      return read_nested(is_one_word ? command->text.substr(7) : command->text, command->line, depth);
    }
  }
  keep_started(words, line);
  // A shell inside of the command gets the text of another one, which the launcher before it starts.
  const auto shell =
      std::find_if(words.begin(), words.end(), [](const ShellField& word) { return is_shell(word.text); });
  if (shell == words.end()) return;
  for (auto word = shell; word != words.end(); ++word) {
    if (!has_blank(word->text)) continue;
    const std::size_t before = launches_.size();
    read_nested(word->text, word->line, depth);
    if (launches_.size() > before) {
      Fields& first = launches_.back().before;
      first.insert(first.begin(), words.begin(), shell);
    }
  }
}

/// Remembers the words that may be a training, but whose value nobody knows.
void ScriptReader::keep_what_is_not_known(const Fields& words) {
  const auto script = script_of(words);
  for (auto word = words.begin(); word != script; ++word) {
    const std::vector<Unresolved> unknown = values_.unresolved(word->text);
    if (std::ranges::none_of(unknown, [](const Unresolved& one) { return looks_like_a_launch(one.text); }))
      continue;
    values_.charge(word->text.size() + sizeof(ShellField), word->line);
    not_known_.push_back(*word);
  }
}

/// Remembers the shell script that a command starts.
void ScriptReader::keep_started(const Fields& words, int line) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].text.ends_with(".sh") || has_blank(words[i].text)) continue;
    const bool is_started = i == 0 || is_shell(words[i - 1].text) || only_starts(words[i - 1].text);
    if (!is_started) continue;
    const bool is_sourced = i > 0 && (words[i - 1].text == "source" || words[i - 1].text == ".");
    started_ = {std::string(base_name(values_.shown(words[i].text))), "", line, is_sourced};
    for (const std::string& name : given_to_command_) {
      const std::optional<Fields> value = values_.kept(name, line);
      if (value && value->size() == 1) started_.options += option_to_set(name, value->front());
    }
    for (std::size_t argument = i + 1; argument < words.size(); ++argument)
      started_.options += option_to_set(fmt::format("{}", argument - i), words[argument]);
  }
}

/// Of a file without a command, the variables that hold arguments. Those of torchrun say the world.
void ScriptReader::take_assigned_arguments() {
  Launch launch;
  for (const std::string& name : values_.names()) {
    Fields words;
    for (const ShellField& field : values_.value(name)) {
      std::size_t at = 0;
      while ((at = field.text.find_first_not_of(" \t\n", at)) != std::string::npos) {
        const std::size_t end = std::min(field.text.find_first_of(" \t\n", at), field.text.size());
        words.push_back({field.text.substr(at, end - at), field.line});
        at = end;
      }
    }
    const auto is_argument = [](const ShellField& word) { return is_flag(word.text); };
    const auto begin = std::find_if(words.begin(), words.end(), is_argument);
    const bool holds_arguments =
        begin != words.end() && std::ranges::all_of(words.begin(), begin, &ShellField::has_unknown);
    if (!holds_arguments) continue;
    if (std::any_of(begin, words.end(), [](const ShellField& word) { return is_of_torchrun(word.text); })) {
      launch.before.push_back({"torchrun", begin->line});
      launch.before.insert(launch.before.end(), begin, words.end());
      continue;
    }
    launch.line = launch.line == 0 ? begin->line : launch.line;
    launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
  }
  if (!launch.arguments.empty()) launches_.push_back(std::move(launch));
}

bool takes_many(std::string_view argument) {
  const ArgumentShape shape = shape_of_argument(argument);
  return shape == ArgumentShape::list || shape == ArgumentShape::maybes;
}

/// Whether a word has a '/' outside of what is not known: ${DATA}/a is a path, and no bundle of arguments.
bool names_a_file(std::string_view text) {
  bool is_known = true;
  return std::ranges::any_of(text, [&](char c) {
    if (c == kUnknownBegin || c == kUnknownEnd) is_known = c == kUnknownEnd;
    return is_known && c == '/';
  });
}

/// Takes the arguments of the training script: each flag with the words up to the next one.
void ScriptReader::take(const Fields& words, RunArguments& run) {
  RunArgument* current = nullptr;
  const auto keep_unresolved = [&](const ShellField& word) {
    for (Unresolved& unknown : values_.unresolved(word.text)) {
      if (current != nullptr) unknown.argument = current->name;
      run.unresolved.push_back(std::move(unknown));
    }
    if (run.unresolved.size() <= kMostRunArguments) return;
    sim::refuse({.code = "run_file_size",
                 .option = fmt::format("line {}", word.line),
                 .numbers = fmt::format("more than {} expansions that are not known", kMostRunArguments),
                 .rule = "the values of a launch script are short",
                 .hint = "the command line alone"});
  };
  for (const ShellField& word : words) {
    if (is_flag(word.text)) {
      const std::size_t equals = word.text.find('=');
      run.given.push_back({run_argument_name(values_.shown(word.text.substr(0, equals))), {}, word.line});
      current = &run.given.back();
      const std::string written = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      const bool is_of_deepspeed = written.starts_with("deepspeed");  // it writes its own names so
      if (written.find('_') != std::string::npos && !is_of_deepspeed && !is_known_with_underscores(written) &&
          find_argument(current->name) != nullptr)
        run.with_underscores.push_back({written, {}, word.line});
      if (equals != std::string::npos) current->values.push_back(values_.shown(word.text.substr(equals + 1)));
      keep_unresolved(word);
      continue;
    }
    // A variable that stands alone behind a complete argument may hold more of them, and so does one whose
    // text begins with a flag.
    const bool is_complete = current == nullptr || !current->values.empty() ||
                             shape_of_argument(current->name) == ArgumentShape::flag;
    const bool holds_flags = values_.shown(word.text).find("=--") != std::string::npos;
    const bool is_of_list = current != nullptr && !current->values.empty() && takes_many(current->name);
    const bool is_another = is_of_list && names_a_file(word.text);
    const bool stands_alone = word.has_unknown() && !is_another && (is_complete || holds_flags);
    if (stands_alone) current = nullptr;
    keep_unresolved(word);
    if (current == nullptr) continue;
    current->values.push_back(values_.shown(word.text));
  }
}

/// Returns the value of a variable that a text hands to a program in another way than by an assignment: in
/// JSON ("NAME": "1"), or behind an option of a launcher (-x NAME=1, --env NAME=1, --export=ALL,NAME=1).
std::optional<std::string> value_handed_on(std::string_view text, std::string_view name) {
  constexpr std::string_view kBefore = "\"\\', =";
  constexpr std::string_view kBetween = "\"\\':= ";
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::string_view line = text.substr(text.rfind('\n', at) + 1, at - text.rfind('\n', at) - 1);
    const std::size_t begin = line.find_first_not_of(" \t");
    const bool is_comment = begin != std::string_view::npos && line[begin] == '#';
    const bool is_alone = begin == std::string_view::npos || line.ends_with("export ");
    if (is_comment || is_alone || kBefore.find(line.back()) == std::string_view::npos) continue;
    const std::size_t end = at + name.size();
    const std::size_t value = text.find_first_not_of(kBetween, end);
    std::size_t stop = value;
    while (stop < text.size() && std::isdigit(static_cast<unsigned char>(text[stop])) != 0) ++stop;
    if (value != std::string_view::npos && value > end && stop > value)
      return std::string(text.substr(value, stop - value));
  }
  return std::nullopt;
}

/// Takes the world that a run of slime gives its actors, which are the ranks that train. Returns whether
/// there is one.
bool takes_world_of_actors(RunArguments& run) {
  const auto of = [&](std::string_view name) -> const RunArgument* {
    const auto last = std::find_if(run.given.rbegin(), run.given.rend(),
                                   [&](const RunArgument& argument) { return argument.name == name; });
    return last == run.given.rend() || last->values.size() != 1 ? nullptr : &*last;
  };
  const RunArgument *nodes = of("actor-num-nodes"), *gpus = of("actor-num-gpus-per-node");
  const auto count = nodes == nullptr ? std::nullopt : whole_number(nodes->values.front());
  const auto per_node = gpus == nullptr ? std::nullopt : whole_number(gpus->values.front());
  std::int64_t ranks = 0;
  if (!count || !per_node || *count < 1 || *per_node < 1 || __builtin_mul_overflow(*count, *per_node, &ranks))
    return false;
  run.world_size = ranks;
  run.gpus_per_node = per_node;
  run.world_size_source = fmt::format("--actor-num-nodes {} x --actor-num-gpus-per-node {}, line {}", *count,
                                      *per_node, gpus->line);
  return true;
}

void ScriptReader::take_world(RunArguments& run) {
  if (takes_world_of_actors(run)) return;
  run.gpus_per_node = world_.gpus_per_node();
  if (const auto processes = world_.processes()) {
    run.world_size = processes;
    run.world_size_source = world_.source();
    return;
  }
  for (const ShellField& factor : world_.unknown()) {
    const std::string option = factor.text.substr(0, factor.text.find('='));
    std::vector<Unresolved> unknown = values_.unresolved(factor.text);
    if (unknown.empty()) {
      unknown.push_back({.text = factor.text,
                         .variable = {},
                         .argument = {},
                         .line = factor.line,
                         .reason = "it is not a whole number from 1 on"});
    }
    for (Unresolved& entry : unknown) {
      entry.argument = run_argument_name(option);
      entry.is_of_world = true;
      run.unresolved.push_back(std::move(entry));
    }
  }
}

/// Takes the variables whose values are known. Those that are not exported do no harm: no rule reads them.
void ScriptReader::take_environment(RunArguments& run) const {
  for (const std::string& name : values_.names()) {
    const std::vector<ShellField>& value = values_.value(name);
    if (value.size() == 1 && !value.front().has_unknown()) run.environment[name] = value.front().text;
  }
}

/// Keeps the commands of this property alone, if there are any.
void ScriptReader::keep_those_that(bool (*has_property)(const Launch&)) {
  if (std::none_of(launches_.begin(), launches_.end(), has_property)) return;
  std::erase_if(launches_, [&](const Launch& launch) { return !has_property(launch); });
}

/// Remembers the keys of a configuration that a command gives its program.
void ScriptReader::keep_overrides(const Fields& arguments) {
  Fields found;
  for (const ShellField& word : arguments) {
    const std::string option = option_of_override(values_.shown(word.text));
    if (!option.empty()) found.push_back({option, word.line});
  }
  if (!found.empty()) overrides_ = std::move(found);
}

/// Refuses a file whose command gives its program keys of a configuration, and no argument.
void ScriptReader::refuse_overrides() const {
  if (overrides_.empty() || std::ranges::any_of(launches_, trains)) return;
  std::string sizes;
  for (const ShellField& option : overrides_) {
    const bool is_size = option.text.find("-parallel-size ") != std::string::npos &&
                         option.text.find_first_of("$`") == std::string::npos;
    if (is_size && sizes.find(option.text) == std::string::npos) sizes += " " + option.text;
  }
  sim::refuse(
      {.code = "run_overrides",
       .option = fmt::format("line {}", overrides_.front().line),
       .numbers = fmt::format("{} as a key of a configuration",
                              sim::printable_text(overrides_.front().text.substr(0, 80))),
       .rule = "a command gives Megatron's own arguments; what a configuration becomes, its program "
               "alone can tell",
       .hint = fmt::format("the log of the run, or the layout on the command line, as in --world-size N{}",
                           sim::printable_text(sizes.substr(0, 300)))});
}

/// Refuses arguments that a shell would take for a command: the line before them does not go on.
void ScriptReader::refuse_arguments_apart() const {
  const auto apart = std::ranges::find_if(launches_, [](const Launch& l) { return l.is_apart && trains(l); });
  if (!starts_script_ || apart == launches_.end()) return;
  sim::refuse({.code = "arguments_apart",
               .option = fmt::format("line {}", apart->line),
               .numbers = fmt::format("'{}' begins a command of its own",
                                      sim::printable_text(values_.shown(apart->arguments.front().text))),
               .rule = "a command goes on in the next line only behind a '\\' that is the last character of "
                       "its line; an empty line or a comment ends it, and so does a line break in $VARIABLE "
                       "inside of bash -c \"...\"",
               .hint = "a '\\' at the end of each line of the command but the last, and no comment inside"});
}

/// Refuses a script without a command that is known, where a word that is not known may be the command.
void ScriptReader::refuse_what_is_not_known() const {
  if (not_known_.empty()) return;
  const std::vector<Unresolved> unknown = values_.unresolved(not_known_.back().text);
  if (unknown.empty()) return;
  const Unresolved& first = unknown.front();
  sim::refuse({.code = "run_without_arguments",
               .option = fmt::format("line {}", first.line),
               .numbers = fmt::format("the command is '{}', and {}",
                                      sim::printable_text(first.text.substr(0, 100)), first.reason),
               .rule = "nothing is executed: the command that starts the training must be in the file",
               .hint = first.variable.empty() ? "the command line alone, as a text file"
                                              : fmt::format("--set {}=VALUE", first.variable)});
}

RunArguments ScriptReader::arguments() {
  RunArguments run;
  if (launches_.empty()) read_functions_without_a_call();
  refuse_overrides();
  const bool has_command = !launches_.empty();
  if (!has_command) take_assigned_arguments();
  if (launches_.empty()) {
    refuse_what_is_not_known();
    sim::refuse({.code = "run_without_arguments",
                 .option = "--from",
                 .numbers = ended_ == 0 ? "a text without a command that gives arguments to a Python file"
                                        : fmt::format("the script ends with the `exit` of line {}, before a "
                                                      "command that gives arguments to a Python file",
                                                      ended_),
                 .rule = "a launch script or a command line holds '--flag value' behind its training script",
                 .hint = started_.script.empty()
                             ? "the run's log, or the command line that starts the run"
                             : fmt::format("--from {}{}, which line {} starts", started_.script,
                                           started_.options, started_.line)});
  }
  refuse_arguments_apart();
  keep_those_that(trains);
  keep_those_that(is_named_training);
  const Launch& launch = launches_.back();
  run.script = base_name(launch.script);
  if (launches_.size() > 1) {
    run.notes.push_back(fmt::format("the file has {} commands with arguments; the last one, line {}, is read",
                                    launches_.size(), launch.line));
  }
  if (!has_command) {
    run.notes.push_back(fmt::format(
        "the file has no command; the arguments that it assigns are read{}",
        started_.script.empty()
            ? ""
            : fmt::format(", and may be used by {}, which line {} starts", started_.script, started_.line)));
  }
  world_.read(launch.before, "");
  take(launch.arguments, run);
  take_world(run);
  const auto is_asked = [](const Unresolved& unknown) { return unknown.reason == kNotAssigned; };
  if (has_command && started_.is_sourced && std::ranges::any_of(run.unresolved, is_asked)) {
    run.notes.push_back(
        fmt::format("{}, which line {} sources, is not read: a file that has its lines in the "
                    "place of that line says what it assigns",
                    started_.script, started_.line));
  }
  take_environment(run);
  for (const ShellField& word : not_known_) {
    for (Unresolved& unknown : values_.unresolved(word.text)) run.unresolved.push_back(std::move(unknown));
  }
  for (const auto& [name, value] : launch.environment) run.environment[name] = value;
  const auto visible = run.environment.find("CUDA_VISIBLE_DEVICES");
  run.contradictions = world_.contradictions(visible == run.environment.end() ? "" : visible->second);
  return run;
}

}  // namespace

RunArguments read_run_script(std::string_view text, const RunVariables& set) {
  ScriptReader reader(set);
  reader.read(text, 1, 0);
  RunArguments run = reader.arguments();
  run.kind = RunFileKind::script;
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto handed_on =
      run.environment.contains(kConnections) ? std::nullopt : value_handed_on(text, kConnections);
  if (handed_on) run.environment[kConnections] = *handed_on;
  return run;
}

}  // namespace verify
