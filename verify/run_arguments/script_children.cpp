// Texts inside of a script that are scripts themselves, other scripts, and the commands that start something.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/script_reader.h"

namespace verify {

namespace {

constexpr int kMostNesting = 8;  // of files and texts

std::string joined(ShellFields::const_iterator begin, ShellFields::const_iterator end) {
  std::string text;
  for (auto word = begin; word != end; ++word) text += (word == begin ? "" : " ") + word->text;
  return text;
}

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

/// Runs commands in a shell that the script starts. What the launcher before it says holds for its trainings.
void ScriptReader::run_child(const Step& commands, const Words& launcher) {
  const bool is_elsewhere =
      std::ranges::any_of(launcher, [](const ShellField& word) { return starts_elsewhere(word.text); });
  const std::size_t launches = launches_.size();
  if (children_ == kMostNesting) return;
  ++children_;
  in_shell([&] {
    values_.leave_exported(is_elsewhere);
    values_.state.ends_by_failure = false;
    commands();
  });
  --children_;
  values_.state.status = {};
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
  if (words.size() < 2) return;
  const std::string text = joined(words.begin() + 1, words.end());
  // Where the command itself is the output of another one, it may be an assignment.
  const bool is_unknown = text.starts_with(kUnknownBegin);
  const std::string source = is_unknown ? values_.unresolved(text).front().text : "";
  if (source.find_first_of("(`") != std::string::npos) launches_.keep_assigning(words[1], command.line);
  ShellScript script;
  try {
    script = parse_shell(text, words.back().line);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
  }
  values_.state.status = {};
  run(script.commands);
}

/// Returns the commands of a file that a script names, where they can be read.
std::optional<ScriptReader::File> ScriptReader::file(const ShellField& written, int line) {
  if (!values_.state.folder || written.has_unknown()) return std::nullopt;
  const std::string path = files_.path_of(written.text, *values_.state.folder);
  const bool is_open = std::ranges::find(open_files_, path) != open_files_.end();
  if (path.empty() || is_open || std::ssize(open_files_) > kMostNesting) return std::nullopt;
  const auto made = values_.state.files.find(path);
  const bool is_made = made != values_.state.files.end();
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
    values_.state.status = {};
    return launches_.keep_sourced(words[1], command.line);
  }
  const std::shared_ptr<const ShellValue> outer = values_.find("BASH_SOURCE");
  values_.define("BASH_SOURCE", file->path, 0);
  std::optional<ShellArguments> arguments;
  if (words.size() > 2) arguments = {.are_known = true, .fields = {words.begin() + 2, words.end()}};
  open_files_.push_back(file->path);
  enter([&] { run_script(file->script, false); }, std::move(arguments));
  open_files_.pop_back();
  values_.give_back({{"BASH_SOURCE", outer}});
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
  run_child(
      [&] {
        values_.state.calls = {{}};
        values_.state.calls.back().arguments = {
            .are_known = true, .fields = {script + 1, words.end()}, .name = file->path};
        values_.define("BASH_SOURCE", file->path, 0);
        run_script(file->script, is_allocated);
      },
      before);
  open_files_.pop_back();
  return true;
}

/// Follows a command that hands a text to a shell: bash -c "...", ssh host "...", sbatch --wrap "...".
bool ScriptReader::starts_text(const Words& words) {
  const auto wrapped =
      std::ranges::find_if(words, [](const ShellField& word) { return word.text.starts_with("--wrap"); });
  if (base_name(words.front().text) == "sbatch" && wrapped != words.end()) {
    const bool is_one_word = wrapped->text.starts_with("--wrap=");
    const auto text = is_one_word || wrapped + 1 == words.end() ? wrapped : wrapped + 1;
    read_allocation({words.begin(), wrapped});
    run_text(is_one_word ? text->text.substr(7) : text->text, text->line, {words.begin(), wrapped}, false);
    return true;
  }
  bool takes_text = false, is_found = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_option = word->text.starts_with('-') && !word->text.starts_with("--");
    takes_text = is_shell(word->text) ? starts_elsewhere(word->text)
                                      : takes_text || (is_option && word->text.ends_with('c'));
    const bool is_behind_shell =
        std::any_of(words.begin(), word, [](const ShellField& one) { return is_shell(one.text); });
    if (!takes_text || !is_behind_shell || !has_blank(word->text)) continue;
    is_found = true;
    run_text(word->text, word->line, {words.begin(), word}, false);
  }
  return is_found;
}

/// Follows a command that is none of the shell's own, and may start the training.
void ScriptReader::start(const ShellCommand& command, const Words& words) {
  values_.state.status = {.asked = values_.variable_of(words)};
  print(std::nullopt, values_.state.status.asked);
  launches_.keep_what_is_not_known(words);
  if (is_flag(words.front().text)) return launches_.add_arguments(words, command.line, documents_ > 0);
  const auto python = training_script(words);
  const auto dashes =
      std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
  if (dashes != words.rend() && dashes.base() > python) {  // a launcher of somebody's own, and its command
    const Words behind(dashes.base(), words.end());
    if (training_script(behind) != behind.end()) return start(command, behind);
  }
  const bool is_python = python != words.end();
  if (is_python || (!starts_text(words) && !starts_file(command, words)))
    launches_.add(words, command.line, given_);
  if (is_python) return;
  if (base_name(words.front().text) == "sbatch" && !command.documents.empty()) read_allocation(words);
  for (const auto& document : command.documents)
    run_text(values_.text_of(*document), document->line, words, true);
  for (const ShellWord& text : command.input) run_text(values_.whole(text).text, text.line, words, true);
  const bool reads_pipe =
      piped_ && command.documents.empty() &&
      (base_name(words.front().text) == "sbatch" ||
       std::ranges::any_of(words, [](const ShellField& word) { return is_shell(word.text); }));
  if (reads_pipe) run_text(*piped_, command.line, words, true);
}

/// Reads what is only found where no command is: scripts that the file writes, and functions that nothing
/// calls.
void ScriptReader::read_what_is_not_started() {
  const ShellState end = values_.state;
  values_.state.goes_on = true;
  for (const auto& [path, text] : end.files)
    if (text) run_text(*text, 1, {}, true);
  for (const auto& [name, body] : end.functions)
    if (body != nullptr && !called_.contains(name) && launches_.size() == 0) in_shell([&] { run(*body); });
  values_.state = end;
}

}  // namespace verify
