// The commands of the shell itself: they change variables, print something, or end something.

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "verify/run_arguments/script_reader.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && begins_shell_name(text.front()) && std::ranges::all_of(text, is_of_shell_name);
}

/// Returns the letters of the options behind the name of a command, and moves `at` behind them.
std::string options_of(const ShellFields& words, std::size_t& at) {
  std::string letters;
  for (at = 1; at < words.size() && words[at].text.size() > 1 && words[at].text.front() == '-'; ++at)
    letters += words[at].text.substr(1);
  return letters;
}

/// Returns the number behind the name of a command, or `otherwise`; none where it is not known.
std::optional<std::int64_t> count_of(const ShellFields& words, std::int64_t otherwise) {
  return words.size() > 1 ? whole_number(words[1].text) : otherwise;
}

}  // namespace

ScriptReader::Builtin ScriptReader::builtin(std::string_view name) {
  struct Row {
    std::string_view name;
    Builtin follow;
  };
  using Reader = ScriptReader;
  static constexpr Row kRows[] = {
      {":", &Reader::succeed},
      {"true", &Reader::succeed},
      {"false", &Reader::fail},
      {"[", &Reader::test},
      {"test", &Reader::test},
      {"echo", &Reader::echo},
      {"cat", &Reader::print_input},
      {"tee", &Reader::print_input},
      {"pwd", &Reader::print_path},
      {"dirname", &Reader::print_path},
      {"basename", &Reader::print_path},
      {"cd", &Reader::change_folder},
      {"export", &Reader::declare},
      {"declare", &Reader::declare},
      {"local", &Reader::declare},
      {"readonly", &Reader::declare},
      {"typeset", &Reader::declare},
      {"unset", &Reader::unset},
      {"shift", &Reader::shift},
      {"set", &Reader::set},
      {"read", &Reader::forget_read},
      {"mapfile", &Reader::forget_read},
      {"readarray", &Reader::forget_read},
      {"getopts", &Reader::forget_read},
      {"printf", &Reader::forget_read},
      {"let", &Reader::compute},
      {"eval", &Reader::evaluate},
      {"source", &Reader::source},
      {".", &Reader::source},
      {"exit", &Reader::exit},
      {"return", &Reader::leave},
      {"break", &Reader::leave},
      {"continue", &Reader::leave},
  };
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  return row == std::end(kRows) ? nullptr : row->follow;
}

void ScriptReader::fail(const ShellCommand& /*command*/, const Words& /*words*/) {
  values_.state.status.success = false;
}

void ScriptReader::test(const ShellCommand& command, const Words& words) {
  std::vector<ShellWord> tested(command.words.begin() + 1, command.words.end());
  if (words[0].text == "[" && !tested.empty()) tested.pop_back();
  values_.state.status = shell_test(tested, false, values_);
}

/// Adds to the output of the substitution that is followed. `asked` would tell a text that is not known.
void ScriptReader::print(const std::optional<std::string>& text, const std::string& asked) {
  ShellState& state = values_.state;
  if (substitutions_ == 0) return;
  if (!text && state.output_asked.empty()) state.output_asked = asked;
  if (!text) state.output.reset();
  if (!state.output) return;
  *state.output += *text;
  values_.charge(text->size(), 0);
  if (state.output->size() > kMostShellValueBytes) state.output.reset();
}

void ScriptReader::echo(const ShellCommand& /*command*/, const Words& words) {
  std::size_t at = 0;
  const std::string options = options_of(words, at);
  const bool has_options = options.find_first_not_of("ne") == std::string::npos;
  std::string text;
  for (std::size_t i = has_options ? at : 1; i < words.size(); ++i)
    text += (i > (has_options ? at : 1) ? " " : "") + words[i].text;
  const bool has_signs =
      has_options && options.find('e') != std::string::npos && text.find('\\') != std::string::npos;
  if (!has_options || options.find('n') == std::string::npos) text += '\n';
  print(has_signs ? std::nullopt : std::optional(text), "");
}

/// Follows `pwd`, `dirname` and `basename`.
void ScriptReader::print_path(const ShellCommand& /*command*/, const Words& words) {
  const std::optional<std::string>& folder = values_.state.folder;
  const std::string path = words.size() == 2 ? words[1].text : "";
  const bool is_plain = words.size() == 2 && !words[1].has_unknown() && !path.empty() &&
                        path.front() != '-' && path.back() != '/';
  const std::size_t slash = path.rfind('/');
  std::optional<std::string> text;
  if (words[0].text == "pwd" && words.size() == 1 && folder && !folder->empty()) text = *folder;
  if (words[0].text == "dirname" && is_plain)
    text = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (words[0].text == "basename" && is_plain) text = path.substr(slash + 1);
  print(text ? std::optional(*text + "\n") : text, values_.variable_of(words));
}

/// Returns the text that a command gets from a here-document, a here-string or a pipe; none where it is not
/// known.
std::optional<std::string> ScriptReader::input_of(const ShellCommand& command) {
  if (command.documents.size() == 1) return values_.text_of(*command.documents.front());
  if (command.input.size() == 1) return values_.whole(command.input.front()).text + "\n";
  return piped_;
}

/// Follows `cat` and `tee`, which print what they get, and write it to files.
void ScriptReader::print_input(const ShellCommand& command, const Words& words) {
  const std::optional<std::string> input = input_of(command);
  const bool is_tee = words[0].text == "tee";
  print(is_tee || words.size() == 1 ? input : std::nullopt, values_.variable_of(words));
  for (std::size_t i = 1; is_tee && i < words.size() && values_.state.folder; ++i) {
    const std::string file =
        words[i].has_unknown() ? "" : files_.path_of(words[i].text, *values_.state.folder);
    if (!file.empty() && !words[i].text.starts_with('-')) values_.state.files[file] = input;
  }
}

/// Follows `cd`. It succeeds where the folder is there, and otherwise that is not known.
void ScriptReader::change_folder(const ShellCommand& /*command*/, const Words& words) {
  ShellState& state = values_.state;
  const bool is_known = words.size() == 2 && !words[1].has_unknown() && state.folder && words[1].text != "-";
  const std::string folder = is_known ? files_.path_of(words[1].text, *state.folder) : "";
  state.status.success.reset();
  state.folder.reset();
  if (folder.empty()) return;
  state.folder = folder;
  if (files_.has_folder(folder)) state.status.success = true;
}

void ScriptReader::declare(const ShellCommand& command, const Words& words) {
  std::size_t at = 0;
  const std::string options = options_of(words, at);
  for (const ShellAssignment& assignment : command.declared) {
    if (assignment.index == nullptr) declare(assignment.name, words[0].text, options, true, command.line);
    values_.assign(assignment);
    if (words[0].text == "export" || options.find('x') != std::string::npos)
      values_.export_variable(assignment.name);
  }
  for (; at < words.size(); ++at) {
    const std::string& text = words[at].text;
    const std::size_t equals = text.find('=');
    const std::string name =
        text.substr(0, equals - (equals != std::string::npos && text[equals - 1] == '+' ? 1 : 0));
    if (words[at].has_unknown() && (equals == std::string::npos || !is_name(name)))
      launches_.keep_assigning(words[at], command.line);
    if (!is_name(name)) continue;
    declare(name, words[0].text, options, equals != std::string::npos, command.line);
    ShellAssignment assignment{.name = name, .appends = name.size() != equals, .line = command.line};
    assignment.values.push_back(
        {{{.is_quoted = true, .text = text.substr(std::min(equals, text.size() - 1) + 1), .source = {}}},
         command.line});
    if (equals != std::string::npos) values_.assign(assignment);
    if (words[0].text == "export" || options.find('x') != std::string::npos) values_.export_variable(name);
  }
}

/// Follows what `local`, `declare` and their like say of a variable.
void ScriptReader::declare(const std::string& name, const std::string& word, const std::string& options,
                           bool is_assigned, int line) {
  const auto has = [&](char letter) { return options.find(letter) != std::string::npos; };
  const bool is_local = word != "export" && word != "readonly" && !has('g') && values_.state.calls.size() > 1;
  if (is_local) values_.hide(name);
  if (has('n')) values_.state.references.insert(name);
  if (has('n')) values_.forget_all(line);
  if (has('i')) values_.state.integers.insert(name);
  const bool is_there = values_.state.variables->contains(name);
  using ValueKind = ShellValue::Kind;
  if (has('A') && (is_local || !is_there)) values_.keep(name, {.kind = ValueKind::table});
  if (has('a') && (is_local || !is_there)) values_.keep(name, {.kind = ValueKind::array});
  if (is_local && !is_assigned && !has('A') && !has('a')) values_.keep(name, {.kind = ValueKind::unset});
}

void ScriptReader::unset(const ShellCommand& command, const Words& words) {
  std::size_t at = 0;
  const std::string options = options_of(words, at);
  for (; at < words.size() && options != "f"; ++at) {
    const std::string& name = words[at].text;
    if (is_name(name) && options != "n") {
      if (!values_.is_locked(name)) values_.unset(name);
    } else if (words[at].has_unknown() || options == "n") {
      values_.forget_all(command.line);
    } else {
      values_.forget(name.substr(0, name.find('[')), command.line, "an element of it may have been unset");
    }
  }
}

void ScriptReader::shift(const ShellCommand& /*command*/, const Words& words) {
  values_.shift(count_of(words, 1));
}

/// Follows `set`, which gives the script other arguments, or changes options.
void ScriptReader::set(const ShellCommand& /*command*/, const Words& words) {
  ShellState& state = values_.state;
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    const bool is_option = word.size() > 1 && (word[0] == '-' || word[0] == '+') && word != "--";
    if (!is_option) {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(at) + (word == "--" ? 1 : 0);
      ShellArguments& arguments = state.calls.back().arguments;
      arguments = {.are_known = true, .fields = {first, words.end()}, .name = arguments.name};
      return;
    }
    const bool is_on = word[0] == '-';
    const bool has_name = word.ends_with('o') && at + 1 < words.size();
    const std::string name = has_name ? words[++at].text : "";
    if (word.find('e') != std::string::npos || name == "errexit") state.ends_by_failure = is_on;
    if (word.find('a') != std::string::npos || name == "allexport") state.exports_all = is_on;
  }
}

/// Of what `read`, `mapfile`, `getopts` and `printf` do nothing is followed, but read -d '' with a
/// here-document.
void ScriptReader::forget_read(const ShellCommand& command, const Words& words) {
  values_.state.status.success.reset();
  const bool prints = words[0].text == "printf";
  const bool has_variable = words.size() > 2 && words[1].text == "-v";
  if (prints && !has_variable) return print(std::nullopt, values_.variable_of(words));
  const bool is_whole = words.size() > 3 && words[0].text == "read" && words[words.size() - 2].text.empty() &&
                        words[words.size() - 3].text.ends_with('d') && command.documents.size() == 1;
  if (is_whole) {
    std::string text = values_.text_of(*command.documents.front());
    const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
    text = text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
    const bool is_raw = words[1].text.find('r') != std::string::npos || text.find('\\') == std::string::npos;
    if (is_raw) values_.define(words.back().text, std::move(text), command.line);
    values_.state.status.success = false;
    if (is_raw) return;
  }
  for (const char* name : {"REPLY", "OPTARG", "OPTIND", "MAPFILE"})
    if (values_.state.variables->contains(name)) values_.forget(name, command.line, "it is read");
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (word->has_unknown()) values_.forget_all(command.line);
    if (is_name(word->text) && !values_.is_locked(word->text))
      values_.forget(word->text, command.line,
                     prints ? "it is printed into it" : "it is read from the input");
  }
}

void ScriptReader::compute(const ShellCommand& command, const Words& words) {
  std::optional<std::int64_t> number;
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    number = values_.number_of(word->text, command.line);
  values_.state.status.success = number ? std::optional(*number != 0) : std::nullopt;
}

/// Ends the script, or the shell that is followed in it.
void ScriptReader::exit(const ShellCommand& command, const Words& words) {
  if (words.size() > 1) values_.state.status.success = words[1].text == "0";
  if (leaves(Target::Kind::shell, 1, false)) return;
  ended_ = {command.line, words.empty()};
  values_.state.goes_on = false;
  values_.state.has_exited = true;
}

/// Follows `return`, `break` and `continue`.
void ScriptReader::leave(const ShellCommand& /*command*/, const Words& words) {
  const auto count = count_of(words, 1);
  if (words[0].text != "return") {
    leaves(Target::Kind::loop, count.value_or(1), words[0].text == "continue");
    return;
  }
  if (words.size() > 1) values_.state.status.success = count ? std::optional(*count == 0) : std::nullopt;
  leaves(Target::Kind::call, 1, false);
}

}  // namespace verify
