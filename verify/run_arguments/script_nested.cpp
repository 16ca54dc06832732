// Texts inside of a script that are scripts themselves, and the commands that start something.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/script_reader.h"

namespace verify {

namespace {

bool only_prints(std::string_view word) { return word == "echo" || word == "printf"; }

}  // namespace

/// Reads how many processes `sbatch` or an #SBATCH line asks for.
void ScriptReader::read_allocation(const Fields& words) {
  world_.read(words, "srun");
  for (const auto& [name, value] : world_.slurm_variables()) values_.define(name, value.text, value.line);
}

/// Reads here-documents, whose text may be a script.
void ScriptReader::read_documents(const ShellCommand& command, const Fields& words, int depth) {
  const std::string program = words.empty() ? "" : words.front().text;
  if (command.documents.empty() || program == "read" || reads_array(program)) return;
  if (base_name(program) == "sbatch") read_allocation(words);
  ++open_documents_;
  for (const HereDocument& document : command.documents)
    read_nested(values_.text_of(document), document.line, depth);
  --open_documents_;
}

/// Reads the text of a here-document or of `bash -c`, which may be no script at all.
void ScriptReader::read_nested(std::string_view text, int line, int depth) {
  const bool may_launch =
      text.find("--") != std::string_view::npos || text.find(".sh") != std::string_view::npos;
  if (may_launch) read_command_text(text, line, depth);
}

void ScriptReader::read_command_text(std::string_view text, int line, int depth) {
  if (depth == kMostScriptNesting) return;
  const ShellBranches around = branches_;
  const int open_reads = open_reads_;
  const int open_calls = open_calls_;
  const int conditions = std::exchange(conditions_, 0);
  const bool ends_by_failure = std::exchange(ends_by_failure_, false);
  const int open_documents = open_documents_;
  const std::size_t inputs = inputs_.size(), asked_groups = asked_groups_.size();
  const std::size_t given = given_to_command_.size();
  try {
    read(text, line, depth + 1);
  } catch (const sim::Error& error) {
    const std::string& code = error.refusal().code;
    const bool may_be_text = code == "script_syntax" || (code == "bare_bracket" && open_documents > 0);
    if (!may_be_text) throw;
  }
  open_documents_ = open_documents;
  inputs_.resize(inputs);
  asked_groups_.resize(asked_groups);
  given_to_command_.resize(given);
  has_returned_ = false;
  leaves_ = 0;
  branches_ = around;
  open_reads_ = open_reads;
  open_calls_ = open_calls;
  ended_ = {};  // it ends a shell of its own
  conditions_ = conditions;
  ends_by_failure_ = ends_by_failure;
}

void ScriptReader::find_launch(const Fields& words, ShellRuns runs, int line, int depth) {
  if (words.empty() || only_prints(words.front().text)) return;
  launches_.keep_what_is_not_known(words);
  if (words.front().text == "eval") return read_evaluated(words, runs, depth);
  if (is_flag(words.front().text)) return launches_.add_arguments(words, line, open_documents_ > 0);
  const bool starts_shell = std::ranges::any_of(words, [](const ShellField& word) {
    return is_shell(word.text) || only_starts(word.text) || word.text.ends_with(".sh");
  });
  auto script = training_script(words);
  if (script == words.end() && !starts_shell) script = unknown_training_script(words);
  const auto dashes =
      std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
  if (dashes != words.rend() && dashes.base() > script) {  // a launcher of somebody's own, and its command
    const Fields behind(dashes.base(), words.end());
    if (training_script(behind) != behind.end()) return find_launch(behind, runs, line, depth);
  }
  if (script != words.end()) return launches_.add(words, script, line, given_to_command_);
  if (base_name(words.front().text) == "sbatch" && reads_wrapped(words, depth)) return;
  launches_.keep_started(words, line, given_to_command_);
  read_inner_shell(words, depth);
}

/// Reads the text that `eval` executes.
void ScriptReader::read_evaluated(const Fields& words, ShellRuns runs, int depth) {
  std::string text;
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    text += (text.empty() ? "" : " ") + word->text;
  // Where the command itself is the output of another one, it may be an assignment.
  const std::vector<Unresolved> unknown =
      text.starts_with(kUnknownBegin) ? values_.unresolved(text) : std::vector<Unresolved>();
  const bool is_output = !unknown.empty() && unknown.front().text.find_first_of("(`") != std::string::npos;
  if (is_output) launches_.keep_assigning(words[1], words[1].line);
  const ShellBranches around = branches_;
  branches_.enter(runs);
  read_command_text(text, words.back().line, depth);
  branches_ = around;
}

/// Reads the command of `sbatch --wrap`. Returns whether there is one.
bool ScriptReader::reads_wrapped(const Fields& words, int depth) {
  const auto wrapped =
      std::ranges::find_if(words, [](const ShellField& word) { return word.text.starts_with("--wrap"); });
  if (wrapped == words.end()) return false;
  const bool is_one_word = wrapped->text.starts_with("--wrap=");
  const auto command = is_one_word || wrapped + 1 == words.end() ? wrapped : wrapped + 1;
  read_allocation({words.begin(), wrapped});
  read_nested(is_one_word ? command->text.substr(7) : command->text, command->line, depth);
  return true;
}

/// Reads the text that a shell inside of a command gets: of another command, which the launcher before the
/// shell starts.
void ScriptReader::read_inner_shell(const Fields& words, int depth) {
  const auto shell =
      std::find_if(words.begin(), words.end(), [](const ShellField& word) { return is_shell(word.text); });
  for (auto word = shell; word != words.end(); ++word) {
    if (!has_blank(word->text)) continue;
    const std::size_t before = launches_.size();
    read_nested(word->text, word->line, depth);
    if (launches_.size() > before) launches_.add_launcher_of_last({words.begin(), shell});
  }
}

}  // namespace verify
