// Texts inside of a script that are scripts themselves, other scripts, and the commands that start something.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>

#include "sim/base/error.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/script_reader.h"

namespace verify {

namespace {

constexpr int kMostNesting = 8;  // of files and texts

}  // namespace

/// Reads how many processes `sbatch` or an #SBATCH line asks for.
void ScriptReader::read_allocation(const Words& words) {
  world_.read(words, "srun");
  for (const auto& [name, value] : world_.slurm_variables()) {
    values_.define(name, value.text, value.line);
    values_.export_variable(name);
  }
}

void ScriptReader::run_script(const ShellScript& script, bool has_directives) {
  for (const auto& [line, directive] : script.directives) {
    Words words;
    for (const ShellCommand& command : parse_shell(directive, line).commands)
      std::ranges::move(values_.expand(command.words), std::back_inserter(words));
    if (has_directives) read_allocation(words);
  }
  run(script.commands);
}

/// Runs commands in a shell that the script starts, which gets the variables that are exported, or none where it
/// is elsewhere. What the launcher before it says holds for its trainings.
void ScriptReader::run_child(const Step& commands, const Words& launcher) {
  const bool is_elsewhere =
      std::ranges::any_of(launcher, [](const ShellField& word) { return starts_elsewhere(word.text); });
  const std::size_t launches = launches_.size();
  if (children_ == kMostNesting) return;
  ++children_;
  in_shell([&] {
    auto variables = std::make_shared<ShellVariables>(*state_.variables);
    std::erase_if(*variables, [&](const auto& one) { return is_elsewhere || !one.second->is_exported; });
    state_.variables = std::move(variables);
    commands();
  });
  --children_;
  state_.status = {};
  launches_.add_launcher(launches, launcher);
}

/// Runs a text that another program gets. What is no script there is passed over.
void ScriptReader::run_text(std::string_view text, int line, const Words& launcher, bool is_document) {
  const bool may_launch =
      text.find("--") != std::string_view::npos || text.find(".sh") != std::string_view::npos;
  if (!may_launch) return;
  documents_ += is_document ? 1 : 0;
  try {
    const ShellScript script = parse_shell(text, line);
    run_child([&] { run_script(script, true); }, launcher);
  } catch (const sim::Error& error) {
    const std::string& code = error.refusal().code;
    if (code != "script_syntax" && (code != "bare_bracket" || !is_document)) throw;
  }
  documents_ -= is_document ? 1 : 0;
}

/// Runs the text that `eval` gets.
void ScriptReader::evaluate(const ShellCommand& command, const Words& words) {
  std::string text;
  for (auto word = words.begin() + 1; word != words.end(); ++word) text += word->text + " ";
  // Where the command itself is the output of another one, it may be an assignment.
  const bool is_unknown = text.starts_with(kUnknownBegin);
  const std::string source = is_unknown ? values_.unresolved(text).front().text : "";
  if (source.find_first_of("(`") != std::string::npos) launches_.keep_assigning(words[1], command.line);
  ShellScript script;
  try {
    script = parse_shell(text, words.back().line);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
    values_.forget_all(command.line);
  }
  state_.status = {};
  run(script.commands);
}

/// Returns a file that a script names, where it can be read.
std::optional<ScriptReader::File> ScriptReader::file(const ShellField& written, int line) {
  if (!state_.folder || written.has_unknown()) return std::nullopt;
  const std::string path = files_.path_of(written.text, *state_.folder);
  const bool is_open = std::ranges::find(open_files_, path) != open_files_.end();
  if (path.empty() || is_open || std::ssize(open_files_) > kMostNesting) return std::nullopt;
  const auto made = state_.files.find(path);
  const bool is_made = made != state_.files.end();
  const std::optional<std::string> text = is_made ? made->second : files_.text_of(path);
  if (!text) return std::nullopt;
  if (!is_made)
    launches_.keep_sentence(fmt::format("{}, which line {} names, is read", base_name(path), line));
  try {
    return File{path, parse_shell(*text, line, false)};
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

void ScriptReader::source(const ShellCommand& command, const Words& words) {
  if (words.size() < 2) return;
  const std::optional<File> file = this->file(words[1], command.line);
  if (!file) {
    state_.status = {};
    return launches_.keep_sourced(words[1], command.line);
  }
  const ShellVariables outer = values_.kept({"BASH_SOURCE"});
  const ShellArguments arguments = state_.calls.back().arguments;
  if (words.size() > 2)
    state_.calls.back().arguments = {.are_known = true, .fields = {words.begin() + 2, words.end()}};
  values_.define("BASH_SOURCE", file->path, 0);
  open_files_.push_back(file->path);
  enter(Target::Kind::call, [&] { run_script(file->script, false); });
  open_files_.pop_back();
  values_.give_back(outer);
  if (words.size() > 2) state_.calls.back().arguments = arguments;
}

/// Follows a command that starts another script. Returns whether it does, and the script can be read.
bool ScriptReader::starts_file(const ShellCommand& command, const Words& words) {
  const auto script = started_script(words);
  if (script == words.end()) return false;
  const std::optional<File> file = this->file(*script, command.line);
  if (!file) return false;
  const Words before(words.begin(), script);
  const bool is_allocated = !before.empty() && base_name(before.front().text) == "sbatch";
  if (is_allocated) read_allocation(before);
  open_files_.push_back(file->path);
  const auto commands = [&] {
    state_.calls = {{}};
    state_.calls.back().arguments = {.are_known = true, .fields = {script + 1, words.end()}};
    for (const char* name : {"0", "BASH_SOURCE"}) values_.define(name, file->path, 0);
    run_script(file->script, is_allocated);
  };
  run_child(commands, before);
  open_files_.pop_back();
  return true;
}

/// Follows a command that hands a text to a shell: bash -c "...", ssh host "...", sbatch --wrap "...".
bool ScriptReader::starts_text(const Words& words) {
  const bool is_allocated = base_name(words.front().text) == "sbatch";
  bool takes_text = false, is_found = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_wrap = is_allocated && word->text.starts_with("--wrap");
    const bool is_whole = is_wrap && word->text.starts_with("--wrap=");
    const bool is_option =
        word->text.starts_with('-') && !word->text.starts_with("--") && word->text.ends_with('c');
    const bool is_behind_shell =
        std::any_of(words.begin(), word, [](const ShellField& one) { return is_shell(one.text); });
    if (is_wrap) read_allocation({words.begin(), word});
    const bool is_text = is_whole || (takes_text && has_blank(word->text));
    if (is_text) run_text(word->text.substr(is_whole ? 7 : 0), word->line, {words.begin(), word}, false);
    is_found = is_found || is_text;
    takes_text = is_wrap || (is_shell(word->text) ? starts_elsewhere(word->text)
                                                  : takes_text || (is_option && is_behind_shell));
  }
  return is_found;
}

/// Follows a command that is none of the shell's own, and may start the training.
void ScriptReader::start(const ShellCommand& command, const Words& words) {
  state_.status = {.asked = values_.variable_of(words)};
  print(std::nullopt, state_.status.asked);
  launches_.keep_what_is_not_known(words);
  if (is_flag(words.front().text)) return launches_.add_arguments(words, command.line, documents_ > 0);
  const auto python = training_script(words);
  const auto dashes =
      std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
  if (dashes != words.rend() && dashes.base() > python) {  // a launcher of somebody's own, and its command
    const Words behind(dashes.base(), words.end());
    if (training_script(behind) != behind.end()) return start(command, behind);
  }
  if (python != words.end()) return launches_.add(words, command.line);
  if (!starts_text(words) && !starts_file(command, words)) launches_.add(words, command.line);
  const bool is_allocated = base_name(words.front().text) == "sbatch";
  if (is_allocated && !command.documents.empty()) read_allocation(words);
  for (const auto& document : command.documents)
    run_text(values_.text_of(*document), document->line, words, true);
  for (const ShellWord& text : command.input) run_text(values_.whole(text).text, text.line, words, true);
  const bool is_of_shell =
      is_allocated || std::ranges::any_of(words, [](const ShellField& word) { return is_shell(word.text); });
  if (piped_ && is_of_shell && command.documents.empty()) run_text(*piped_, command.line, words, true);
}

/// Reads what is only found where no command is: scripts that the file writes, and functions that nothing calls.
void ScriptReader::read_what_is_not_started() {
  const ShellState end = state_;
  state_.goes_on = true;
  for (const auto& [path, text] : end.files)
    if (text) run_text(*text, 1, {}, true);
  for (const auto& [name, body] : end.functions)
    if (body != nullptr && !called_.contains(name) && launches_.size() == 0) in_shell([&] { run(*body); });
  state_ = end;
}

}  // namespace verify
