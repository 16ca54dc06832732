#include "verify/run/launched_program.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <unistd.h>

#include "verify/output/refusal_table.h"
#include "verify/run_arguments/launch_words.h"
#include "verify/run_arguments/launch_world.h"

namespace verify {

namespace {

using Words = std::span<const std::string>;

bool is_program_file(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) && access(path.c_str(), X_OK) == 0;
}

/// Returns the file that a shell would start for a word.
std::filesystem::path found_on_path(const std::string& word) {
  const char* folders = std::getenv("PATH");
  if (word.find('/') != std::string::npos && is_program_file(word)) return word;
  if (word.find('/') == std::string::npos && folders != nullptr) {
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');) {
      const std::filesystem::path path = std::filesystem::path(folder.empty() ? "." : folder) / word;
      if (is_program_file(path)) return path;
    }
  }
  refuse_by("run_program_not_started", word, "there is no such program");
}

std::string first_word(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  return word;
}

/// Returns the interpreter that the beginning of a script names; "" for another script. Pip writes long paths
/// as "#!/bin/sh" and, in the second line, "'''exec' /usr/bin/python3 ...".
std::string named_interpreter(const std::filesystem::path& script) {
  constexpr std::string_view kSign = "#!", kExec = "'''exec' ";
  std::ifstream file(script, std::ios::binary);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  if (!first.starts_with(kSign)) return "";
  std::string named = first_word(first.substr(kSign.size()));
  if (base_name(named) == "env") named = first_word(first.substr(first.find(named) + named.size()));
  if (base_name(named) == "sh" && second.starts_with(kExec)) {
    const std::string rest = second.substr(kExec.size());
    named = rest.starts_with('"') ? rest.substr(1, rest.find('"', 1) - 1) : first_word(rest);
  }
  return is_interpreter(named) ? named : "";
}

std::string interpreter_of(const std::string& launcher) {
  std::string named = named_interpreter(found_on_path(launcher));
  if (named.empty()) refuse_by("run_program_missing/launcher", "the words after --", launcher);
  return named;
}

bool has_any(Words words, std::initializer_list<std::string_view> searched) {
  return std::ranges::find_first_of(words, searched) != words.end();
}

/// Returns the value of the last option of this name, whose words may be joined by "_" as well.
std::optional<std::string> value_of(Words options, const std::string& name) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string word = options[i].substr(0, options[i].find('='));
    std::ranges::replace(word, '_', '-');
    if (word != name) continue;
    if (word.size() < options[i].size()) {
      value = options[i].substr(word.size() + 1);
    } else if (i + 1 < options.size()) {
      value = options[i + 1];
    }
  }
  return value;
}

/// Returns the variables that torchrun sets alike for all ranks.
std::vector<std::pair<std::string, std::string>> variables_of(Words options) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"TORCHELASTIC_RUN_ID", value_of(options, "--rdzv-id").value_or("none")},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", value_of(options, "--max-restarts").value_or("0")}};
  if (const auto port = value_of(options, "--master-port")) variables.emplace_back("MASTER_PORT", *port);
  return variables;
}

/// Returns what the launcher says of its ranks.
LaunchedRanks ranks_of(const std::string& launcher, Words options) {
  ShellFields fields = {{launcher, 0}};
  for (const std::string& word : options) fields.push_back({word, 0});
  LaunchWorld world;
  world.read(fields, "");
  RunArguments run;
  world.take(ShellValues({}), run);
  LaunchedRanks ranks{.launcher = launcher, .ranks = run.world_size, .ranks_of_node = run.gpus_per_node};
  if (!run.unresolved.empty()) ranks.unknown = run.unresolved.front().text;
  if (ranks.ranks > std::numeric_limits<int>::max()) {
    ranks.unknown = fmt::format("{}", *std::exchange(ranks.ranks, std::nullopt));
  } else if (ranks.ranks && !ranks.ranks_of_node) {
    ranks.ranks_of_node = 1;  // as torchrun without --nproc-per-node
  }
  return ranks;
}

/// Reads the words behind a launcher.
LaunchedProgram launched_by(const std::string& launcher, const std::string& interpreter, Words words) {
  const std::size_t program = options_of_torchrun(words);
  const Words options = words.first(program);
  std::vector<std::string> command = {interpreter};
  if (has_any(options, {"--no-python", "--no_python"})) command.clear();
  if (has_any(options, {"-m", "--module"})) command.emplace_back("-m");
  command.insert(command.end(), words.begin() + static_cast<std::ptrdiff_t>(program), words.end());
  LaunchedProgram launched{.python = python_command(command), .launched = ranks_of(launcher, options)};
  launched.launched->gives_local_rank =
      launcher == "torch.distributed.launch" && !has_any(options, {"--use-env", "--use_env"});
  launched.launched->variables = variables_of(options);
  return launched;
}

}  // namespace

LaunchedProgram launched_program(const std::vector<std::string>& words) {
  if (!words.empty() && base_name(words.front()) == "torchrun")
    return launched_by("torchrun", interpreter_of(words.front()), Words(words).subspan(1));
  PythonCommand python = python_command(words);
  const bool is_module = python.program.front() == "-m";
  const std::string& module = is_module ? python.program[1] : python.program.front();
  if (is_module && (module == "torch.distributed.run" || module == "torch.distributed.launch"))
    return launched_by(module, python.interpreter.front(), Words(python.program).subspan(2));
  return {std::move(python)};
}

RankCounts rank_counts(const LaunchedProgram& program, std::optional<std::int64_t> given) {
  const auto counts = [](std::int64_t ranks, std::int64_t of_node) {
    return RankCounts{static_cast<int>(ranks), static_cast<int>(of_node)};
  };
  if (!program.launched) {
    if (!given) refuse_by("missing_option", "--ranks", 2);
    return counts(*given, *given);
  }
  const LaunchedRanks& launched = *program.launched;
  if (!given && !launched.ranks)
    refuse_by("run_ranks/unknown", "--ranks", launched.unknown, launched.launcher);
  const std::int64_t ranks = given.value_or(launched.ranks.value_or(1));
  if (launched.ranks && *launched.ranks != ranks)
    refuse_by("run_ranks/launcher", "--ranks", ranks, launched.launcher, *launched.ranks);
  const std::int64_t of_node = launched.ranks_of_node.value_or(ranks);
  if (ranks % of_node != 0) refuse_by("run_ranks/nodes", "--ranks", ranks, launched.launcher, of_node);
  return counts(ranks, of_node);
}

}  // namespace verify
