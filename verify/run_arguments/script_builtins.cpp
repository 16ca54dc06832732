// The commands of the shell itself that change variables, take a text apart, or end something.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "verify/run_arguments/script_reader.h"
#include "verify/run_arguments/shell_assignment.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_filters.h"
#include "verify/run_arguments/shell_input.h"
#include "verify/run_arguments/shell_output.h"
#include "verify/run_arguments/shell_printf.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

constexpr const char* kOptionIndex = "OPTIND";

bool is_option(std::string_view word) { return word.starts_with('-'); }

/// Returns the words behind the name of a command.
std::vector<std::string> texts_behind(const std::vector<ShellField>& words) {
  std::vector<std::string> texts;
  for (auto word = words.begin() + 1; word != words.end(); ++word) texts.push_back(word->text);
  return texts;
}

}  // namespace

bool reads_array(std::string_view word) { return word == "mapfile" || word == "readarray"; }

bool is_option_of_shell(std::string_view word) {
  return word.size() > 1 && (word[0] == '-' || word[0] == '+') && word != "--";
}

bool ends_by_failure_behind(std::span<const std::string> words, bool before) {
  for (auto word = words.begin(); word != words.end() && is_option_of_shell(*word); ++word) {
    const bool is_on = word->front() == '-';
    const bool names_option = word->ends_with('o') && word + 1 != words.end();
    const bool has_letter = !word->starts_with("--") && word->find('e') != std::string::npos;
    if (names_option) ++word;
    if (has_letter || (names_option && *word == "errexit")) before = is_on;
  }
  return before;
}

/// Whether a command succeeds; none: it is not known.
std::optional<bool> ScriptReader::success_of(const ShellCommand& command, const Fields& words) {
  const auto told = [&](std::optional<bool> success) {
    return success && command.is_negated ? std::optional(!*success) : success;
  };
  const std::string& name = words.empty() ? "" : words.front().text;
  if (name == "read" || name == "getopts") return told(input_success_);
  if (name == "grep" || name == "egrep") return success_of_grep(command, words);
  const bool assigns = name == "let" || !names_assigned_in(command).empty();
  return assigns ? told(arithmetic_success_) : shell_condition(command, values_);
}

/// Whether a `grep` finds what it looks for in its input: `echo $MODEL | grep -q moe`.
std::optional<bool> ScriptReader::success_of_grep(const ShellCommand& command, const Fields& words) {
  const bool is_piped = command.chain == "|";
  const std::optional<std::string> text = is_piped ? piped_ : own_input(command);
  const std::optional<bool> success = text ? found_by_grep(words, *text) : std::nullopt;
  const bool is_negated = is_piped ? is_pipe_negated_ : command.is_negated;
  return success && is_negated ? std::optional(!*success) : success;
}

/// Keeps the text that a `grep` gets from the pipe before it.
void ScriptReader::follow_pipe(Commands commands, std::size_t at) {
  piped_.reset();
  const ShellCommand& command = commands[at];
  const bool is_grep = !command.words.empty() && (is_literal(command.words.front(), "grep") ||
                                                  is_literal(command.words.front(), "egrep"));
  const bool has_other_input = command.input != nullptr || !command.documents.empty() || command.reads_file;
  if (command.chain != "|" || !is_grep || has_other_input) return;
  std::size_t begin = at;
  while (begin > 0 && commands[begin].chain == "|") --begin;
  std::vector<ShellCommand> before(commands.begin() + static_cast<std::ptrdiff_t>(begin),
                                   commands.begin() + static_cast<std::ptrdiff_t>(at));
  is_pipe_negated_ = before.front().is_negated;
  before.front().is_negated = false;
  before.front().chain.clear();
  const bool are_plain =
      std::ranges::all_of(before, [](const ShellCommand& one) { return one.keyword == ShellKeyword::none; });
  const ShellOutput output = are_plain ? shell_output(before, values_) : ShellOutput();
  if (output.text) piped_ = *output.text + output.line_breaks;
}

/// Follows the commands of the shell that change variables, or end the script.
void ScriptReader::read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  const std::string& name = words.front().text;
  const bool is_certain = runs == ShellRuns::yes && command.chain != "|";
  if (name == "shift") {
    const auto count = words.size() > 1 ? whole_number(words[1].text) : std::int64_t{1};
    const bool is_known = is_certain && count && *count >= 0;
    values_.shift(is_known ? std::optional(static_cast<std::size_t>(*count)) : std::nullopt, command.line);
  } else if (name == "set" && words.size() > 1 && is_option_of_shell(words[1].text)) {
    ends_by_failure_ = is_certain && ends_by_failure_behind(texts_behind(words), ends_by_failure_);
  } else if (name == "set" && words.size() > 1 && words[1].text == "--") {
    values_.set_arguments(is_certain ? std::optional(Fields(words.begin() + 2, words.end())) : std::nullopt,
                          command.line);
  } else if (name == "unset") {
    const std::string option = words.size() > 1 && is_option(words[1].text) ? words[1].text : "";
    if (option == "-f") return;
    const bool is_of_reference = option == "-n";
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      const std::string variable = word->text.substr(0, word->text.find('['));
      const bool is_whole = variable == word->text;
      if (is_option(variable)) continue;
      if (is_certain && is_whole && is_of_reference) {
        values_.unset_reference(variable);
      } else if (is_certain && is_whole) {
        values_.unset(variable, command.line);
      } else {
        values_.forget(variable, command.line, "it may have been unset");
      }
    }
  } else if (name == "printf" && words.size() > 2 && words[1].text == "-v") {
    Fields printed = words;
    printed.erase(printed.begin() + 1, printed.begin() + 3);
    const std::optional<std::string> text = is_certain ? printed_text(printed) : std::nullopt;
    if (text) values_.define(words[2].text, *text, command.line);
    if (!text) values_.forget(words[2].text, command.line, "it is printed into it");
  } else if (name == "read") {
    read_input(command, words, is_certain);
  } else if (reads_array(name)) {
    read_array(command, words, is_certain);
  } else if (name == "getopts") {
    read_option(command, words, is_certain);
  } else if (name == "exit" && is_certain) {
    ended_ = {command.line, false};
  } else if (name == "break" || name == "continue") {
    const std::int64_t loops = words.size() > 1 ? whole_number(words[1].text).value_or(1) : 1;
    if (runs != ShellRuns::yes) return branches_.may_leave(loops);
    leaves_ = std::min(std::max<std::int64_t>(loops, 1), branches_.known_loops());
    continues_ = name == "continue";
  } else if (name == "return" && open_calls_ > 0) {
    const bool fails = words.size() > 1 && words[1].text != "0";
    has_returned_ = is_certain;
    if (!is_certain && !fails) branches_.may_return();  // where it fails, the run has not gone this way
  }
}

/// Follows `read`: its variables get the words of a line, and the one of `read -d ''` gets all of the text.
void ScriptReader::read_input(const ShellCommand& command, const Fields& words, bool is_certain) {
  const ReadRequest asked = read_request(words);
  const std::optional<Fields> separators = values_.kept("IFS", command.line);
  const bool knows_separators = !separators || std::ranges::none_of(*separators, &ShellField::has_unknown);
  std::optional<ReadText> own;
  std::optional<ReadText>* const input = input_of(command, own);
  const bool is_followed = is_certain && asked.is_followed && knows_separators && input != nullptr && *input;
  InputLine line;
  if (is_followed) line = take_line(**input, asked.is_whole);
  // What is not known may hold any number of words, and without -r a backslash is none of the text.
  const bool is_one = asked.is_whole && !asked.is_array && asked.names.size() == 1;
  const bool is_known = is_followed && (asked.is_raw || line.text.find('\\') == std::string::npos) &&
                        (is_one || line.text.find(kUnknownBegin) == std::string::npos);
  if (!is_known) {
    constexpr const char* kReason = "it is read from the input";
    for (const std::string& name : asked.names) values_.forget(name, command.line, kReason);
    if (asked.names.empty()) values_.forget("REPLY", command.line, kReason);
    if (input != nullptr) input->reset();
    return;
  }
  input_success_ = line.is_ended;
  if (asked.names.empty()) return values_.define("REPLY", line.text, command.line);
  const std::string signs = separators && separators->size() == 1 ? separators->front().text : " \t\n";
  std::string_view rest = line.text;
  if (asked.is_array) {
    Fields fields;
    while (const auto word = next_of_input(rest, signs)) fields.push_back({*word, command.line});
    return values_.define(asked.names.front(), std::move(fields));
  }
  for (std::size_t i = 0; i + 1 < asked.names.size(); ++i)
    values_.define(asked.names[i], next_of_input(rest, signs).value_or(""), command.line);
  // A separator at the end of the last word is no part of it, where nothing but this word is left.
  std::string_view behind = rest;
  const std::string last = next_of_input(behind, signs).value_or("");
  values_.define(asked.names.back(), behind.empty() ? last : without_blanks(rest, signs), command.line);
}

/// Follows `mapfile` and `readarray`.
void ScriptReader::read_array(const ShellCommand& command, const Fields& words, bool is_certain) {
  const ArrayRequest asked = array_request(words);
  std::optional<ReadText> own;
  std::optional<ReadText>* const input = input_of(command, own);
  const bool is_known = is_certain && asked.is_followed && input != nullptr && *input &&
                        (*input)->rest().find(kUnknownBegin) == std::string_view::npos;
  if (!is_known) {
    if (input != nullptr) input->reset();
    return values_.forget(asked.name, command.line, "it is read from the input");
  }
  Fields fields;
  for (std::string& element : elements_of_input((*input)->rest(), asked))
    fields.push_back({std::move(element), command.line});
  (*input)->taken = (*input)->text.size();
  values_.define(asked.name, std::move(fields));
}

/// Returns the text that a command reads: its own, which it fills in, or that of the block around it; null
/// where there is none that is known to the file.
std::optional<ReadText>* ScriptReader::input_of(const ShellCommand& command, std::optional<ReadText>& own) {
  const bool has_own = command.input != nullptr || !command.documents.empty() || command.reads_file;
  if (has_own) {
    if (std::optional<std::string> text = own_input(command)) own = ReadText{std::move(*text)};
    return &own;
  }
  return inputs_.empty() || command.chain == "|" ? nullptr : &inputs_.back();
}

/// Returns the text of a here-string, a here-document or of < <(...); nothing where it is not known.
std::optional<std::string> ScriptReader::own_input(const ShellCommand& command) {
  const bool is_one = (command.input != nullptr) != (command.documents.size() == 1) && !command.reads_file;
  if (!is_one || command.documents.size() > 1) return std::nullopt;
  if (command.input == nullptr) return values_.text_of(command.documents.front());
  if (!command.input_is_output) return values_.whole(*command.input).text + "\n";
  const ShellOutput output = shell_output(command.input->parts.front().text, command.line, values_);
  return output.text ? std::optional(*output.text + output.line_breaks) : std::nullopt;
}

/// Follows `getopts`, where the arguments are known.
void ScriptReader::read_option(const ShellCommand& command, const Fields& words, bool is_certain) {
  if (words.size() < 3) return;
  const auto is_plain = [](const ShellField& word) { return !word.has_unknown() && !word.may_be_many; };
  const Fields given = words.size() > 3
                           ? Fields(words.begin() + 3, words.end())
                           : values_.expand(ShellWordReader("\"$@\"", command.line, 0).whole_word(false));
  const std::optional<Fields> index = values_.kept(kOptionIndex, command.line);
  const auto place = !index               ? std::optional<std::int64_t>(1)
                     : index->size() == 1 ? whole_number(index->front().text)
                                          : std::nullopt;
  if (!is_certain || !place || *place < 1 || !is_plain(words[1]) || !std::ranges::all_of(given, is_plain)) {
    for (const std::string& name : {words[2].text, std::string("OPTARG"), std::string(kOptionIndex)})
      values_.forget(name, command.line, "it is an option among arguments that are not known");
    return;
  }
  std::vector<std::string> arguments;
  for (const ShellField& argument : given) arguments.push_back(argument.text);
  const auto begin = static_cast<std::size_t>(*place);
  if (option_place_.index != begin) option_place_ = {begin, 0};
  const FoundOption found = next_option(words[1].text, arguments, option_place_);
  option_place_ = found.behind;
  values_.define(words[2].text, found.name, command.line);
  values_.define("OPTARG", found.value.value_or(""), command.line);
  values_.define(kOptionIndex, std::to_string(found.behind.index), command.line);
  input_success_ = found.is_there;
}

}  // namespace verify
