// The commands of the shell itself: they change variables, print something, or end something.

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "verify/run_arguments/script_reader.h"
#include "verify/run_arguments/shell_condition.h"

namespace verify {

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && begins_shell_name(text.front()) && std::ranges::all_of(text, is_of_shell_name);
}

/// Returns the letters of the options behind the name of a command.
std::string options_of(const ShellFields& words) {
  std::string letters;
  for (std::size_t at = 1; at < words.size() && words[at].text.starts_with('-'); ++at)
    letters += words[at].text.substr(1);
  return letters;
}

/// Returns the number behind the name of a command, or 1; none where it is not known.
std::optional<std::int64_t> count_of(const ShellFields& words) {
  return words.size() > 1 ? whole_number(words[1].text) : std::int64_t{1};
}

}  // namespace

ScriptReader::Builtin ScriptReader::builtin(std::string_view name) {
  using Reader = ScriptReader;
  struct Row {
    std::string_view names;  // each between blanks
    Builtin follow;
  };
  static constexpr Row kRows[] = {
      {" : true ", &Reader::succeed},
      {" false ", &Reader::fail},
      {" [ test ", &Reader::test},
      {" echo ", &Reader::echo},
      {" cat ", &Reader::print_input},
      {" pwd dirname basename ", &Reader::print_path},
      {" cd ", &Reader::change_folder},
      {" export declare local readonly typeset ", &Reader::declare},
      {" unset ", &Reader::unset},
      {" shift ", &Reader::shift},
      {" set ", &Reader::set},
      {" read mapfile readarray getopts printf ", &Reader::forget_read},
      {" let ", &Reader::compute},
      {" eval ", &Reader::evaluate},
      {" source . ", &Reader::source},
      {" exit ", &Reader::exit},
      {" return break continue ", &Reader::leave},
  };
  const std::string wanted = fmt::format(" {} ", name);
  const auto* const row = std::ranges::find_if(
      kRows, [&](const Row& one) { return one.names.find(wanted) != std::string_view::npos; });
  return row == std::end(kRows) ? nullptr : row->follow;
}

void ScriptReader::fail(const ShellCommand& /*command*/, const Words& /*words*/) {
  state_.status.success = false;
}

void ScriptReader::test(const ShellCommand& command, const Words& words) {
  std::vector<ShellWord> tested(command.words.begin() + 1, command.words.end());
  if (words[0].text == "[" && !tested.empty()) tested.pop_back();
  state_.status = shell_test(tested, false, values_);
}

/// Adds to the output of the substitution that is followed. `asked` would tell a text that is not known.
void ScriptReader::print(const std::optional<std::string>& text, const std::string& asked) {
  if (substitutions_ == 0) return;
  if (!text && state_.output_asked.empty()) state_.output_asked = asked;
  if (text) values_.charge(text->size(), 0);
  const bool is_known = text && state_.output && state_.output->size() < kMostShellValueBytes;
  state_.output = is_known ? std::optional(*state_.output + *text) : std::nullopt;
}

void ScriptReader::echo(const ShellCommand& command, const Words& words) {
  const std::string option = words.size() > 1 ? words[1].text : "";
  const bool has_option = option == "-n" || option == "-e" || option == "-ne" || option == "-en";
  std::string text;
  for (std::size_t i = has_option ? 2 : 1; i < words.size(); ++i) text += words[i].text + " ";
  if (!text.empty()) text.pop_back();
  const bool has_signs = option.find('e') < 3 && has_option && text.find('\\') != std::string::npos;
  if (!has_option || option == "-e") text += '\n';
  if (!has_signs) return print(text);
  print(std::nullopt, values_.variable_of(values_.expand(command.words)));
}

/// Follows `pwd`, `dirname` and `basename`.
void ScriptReader::print_path(const ShellCommand& /*command*/, const Words& words) {
  const std::string path = words.size() == 2 && !words[1].has_unknown() ? words[1].text : "";
  const bool is_plain = !path.empty() && path.front() != '-' && path.back() != '/';
  const std::size_t slash = path.rfind('/');
  std::optional<std::string> text;
  if (words[0].text == "pwd" && words.size() == 1 && state_.folder != "") text = state_.folder;
  if (words[0].text == "basename" && is_plain) text = path.substr(slash + 1);
  if (words[0].text == "dirname" && is_plain)
    text = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  if (text) *text += "\n";
  print(text, values_.variable_of(words));
}

/// Follows `cat`, which prints what it gets from a here-document, a here-string or a pipe.
void ScriptReader::print_input(const ShellCommand& command, const Words& words) {
  std::optional<std::string> input = piped_;
  if (command.documents.size() == 1) input = values_.text_of(*command.documents.front());
  if (command.input.size() == 1) input = values_.whole(command.input.front()).text + "\n";
  print(words.size() == 1 ? input : std::nullopt, values_.variable_of(words));
}

/// Follows `cd`. It succeeds where the folder is there, and otherwise that is not known.
void ScriptReader::change_folder(const ShellCommand& /*command*/, const Words& words) {
  const bool is_known = words.size() == 2 && !words[1].has_unknown() && state_.folder && words[1].text != "-";
  const std::string folder = is_known ? files_.path_of(words[1].text, *state_.folder) : "";
  state_.status.success.reset();
  state_.folder.reset();
  if (!folder.empty()) state_.folder = folder;
  if (files_.has_folder(folder)) state_.status.success = true;
}

void ScriptReader::declare(const ShellCommand& command, const Words& words) {
  const std::string options = options_of(words);
  for (const ShellAssignment& assignment : command.declared) declare(assignment, words, options);
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& text = words[at].text;
    const std::size_t equals = std::min(text.find('='), text.size());
    const bool appends = equals > 0 && equals < text.size() && text[equals - 1] == '+';
    ShellAssignment assignment{
        .name = text.substr(0, equals - (appends ? 1 : 0)), .appends = appends, .line = command.line};
    const ShellPart value{.is_quoted = true, .text = text.substr(std::min(equals + 1, text.size()))};
    if (equals < text.size()) assignment.values.push_back({{value}, command.line});
    if (is_name(assignment.name)) declare(assignment, words, options);
    if (!is_name(assignment.name) && words[at].has_unknown())
      launches_.keep_assigning(words[at], command.line);
  }
}

/// Follows what `local`, `declare` and their like say of a variable, and the value that they may give it.
void ScriptReader::declare(const ShellAssignment& assignment, const Words& words,
                           const std::string& options) {
  const std::string &name = assignment.name, &word = words[0].text;
  const auto has = [&](char letter) { return options.find(letter) != std::string::npos; };
  const bool is_local = word != "export" && word != "readonly" && !has('g') && state_.calls.size() > 1;
  const bool is_assigned = assignment.is_array || !assignment.values.empty();
  ShellVariables& outer = state_.calls.back().outer;
  if (is_local && !outer.contains(name)) outer.merge(values_.kept({name}));
  if (is_local && !is_assigned) values_.keep(name, {.kind = ShellValue::Kind::unset});
  if (has('a') && !is_assigned && !state_.variables->contains(name))
    values_.keep(name, {.kind = ShellValue::Kind::array});
  if (has('A') || has('i') || has('n')) state_.opaque[name] = has('n');
  if (has('n')) values_.forget_all(assignment.line);
  if (has('A') && !is_assigned) values_.forget(name, assignment.line, "its keys are not followed");
  if (is_assigned) values_.assign(assignment);
  if (word == "export" || has('x')) values_.export_variable(name);
}

void ScriptReader::unset(const ShellCommand& command, const Words& words) {
  const std::string options = options_of(words);
  for (std::size_t at = options.empty() ? 1 : 2; at < words.size() && options != "f"; ++at) {
    const std::string& name = words[at].text;
    if (words[at].has_unknown() || options == "n") {
      values_.forget_all(command.line);
    } else if (!is_name(name)) {
      values_.forget(name.substr(0, name.find('[')), command.line, "an element of it may have been unset");
    } else if (!values_.is_locked(name)) {
      values_.keep(name, {.kind = ShellValue::Kind::unset});
    }
  }
}

void ScriptReader::shift(const ShellCommand& /*command*/, const Words& words) {
  ShellArguments& arguments = state_.calls.back().arguments;
  ShellFields& fields = arguments.fields;
  const std::int64_t count = count_of(words).value_or(-1);
  const bool is_placed = count >= 0 && count <= std::ssize(fields) &&
                         std::none_of(fields.begin(), fields.begin() + count,
                                      [](const ShellField& field) { return field.may_be_many; });
  const bool are_plain = std::ranges::none_of(fields, &ShellField::may_be_many);
  constexpr std::int64_t kMost = 1'000'000;
  if (arguments.are_known && is_placed) {
    fields.erase(fields.begin(), fields.begin() + count);
  } else if (!arguments.are_known && arguments.shifted && count >= 0 && count < kMost) {
    *arguments.shifted = std::min(*arguments.shifted + count, kMost);
  } else if (!arguments.are_known || count < 0 || !are_plain) {
    arguments = {.shifted = std::nullopt};
  }
}

/// Follows `set`, which gives the script other arguments. Of its options, -a exports what is assigned.
void ScriptReader::set(const ShellCommand& /*command*/, const Words& words) {
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    const bool is_option = word.size() > 1 && (word[0] == '-' || word[0] == '+') && word != "--";
    if (!is_option) {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(at) + (word == "--" ? 1 : 0);
      state_.calls.back().arguments = {.are_known = true, .fields = {first, words.end()}};
      return;
    }
    const bool has_name = word.ends_with('o') && at + 1 < words.size();
    const bool is_of_export =
        word.find('a') != std::string::npos || (has_name && words[at + 1].text == "allexport");
    if (is_of_export) state_.exports_all = word[0] == '-';
    if (has_name) ++at;
  }
}

/// Of what `read`, `mapfile`, `getopts` and `printf` do nothing is followed but read -r -d '' with a here-document.
void ScriptReader::forget_read(const ShellCommand& command, const Words& words) {
  state_.status.success.reset();
  const bool prints = words[0].text == "printf";
  if (prints && options_of(words) != "v") return print(std::nullopt, values_.variable_of(words));
  const bool is_whole = words.size() > 3 && words[words.size() - 2].text.empty() &&
                        command.documents.size() == 1 && words[words.size() - 3].text.ends_with('d');
  std::string text = is_whole ? values_.text_of(*command.documents.front()) : "";
  const bool is_raw =
      options_of(words).find('r') != std::string::npos || text.find('\\') == std::string::npos;
  if (is_whole && is_raw && words[0].text == "read") {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
    values_.define(words.back().text, text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin),
                   command.line);
    state_.status.success = false;
    return;
  }
  const char* const reason = prints ? "it is printed into it" : "it is read from the input";
  for (const char* name : {"REPLY", "OPTARG", "OPTIND", "MAPFILE"})
    if (state_.variables->contains(name)) values_.forget(name, command.line, reason);
  for (const ShellField& word : words) {
    if (word.has_unknown()) values_.forget_all(command.line);
    if (is_name(word.text) && !values_.is_locked(word.text)) values_.forget(word.text, command.line, reason);
  }
}

void ScriptReader::compute(const ShellCommand& command, const Words& words) {
  std::optional<std::int64_t> number;
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    number = values_.number_of(word->text, command.line);
  state_.status.success.reset();
  if (number) state_.status.success = *number != 0;
}

/// Ends the script, or the shell that is followed in it.
void ScriptReader::exit(const ShellCommand& command, const Words& words) {
  if (words.size() > 1) state_.status.success = words[1].text == "0";
  if (leaves(Target::Kind::shell, 1, false)) return;
  line_of_exit_ = command.line;
  state_.goes_on = false;
  state_.has_exited = true;
}

/// Follows `return`, `break` and `continue`.
void ScriptReader::leave(const ShellCommand& /*command*/, const Words& words) {
  const auto count = count_of(words);
  if (words[0].text != "return") {
    leaves(Target::Kind::loop, count.value_or(1), words[0].text == "continue");
    return;
  }
  if (words.size() > 1) state_.status = {};
  if (words.size() > 1 && count) state_.status.success = *count == 0;
  leaves(Target::Kind::call, 1, false);
}

}  // namespace verify
