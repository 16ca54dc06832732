#include "verify/requests/requested_run.h"

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/run_document.h"
#include "verify/run_arguments/run_file.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr const char* kCommand = "--command";

/// Returns the number after a word of a name: 2 after "tp" in "gpt3_tp2_pp4.sh".
std::optional<std::int64_t> number_after(std::string_view word, std::string_view name) {
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const std::string_view rest = name.substr(at + word.size());
    const auto number = whole_number(rest.substr(0, rest.find_first_not_of("0123456789")));
    const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0;
    if (begins && number) return number;
  }
  return std::nullopt;
}

/// Returns what the name of a file says of sizes, and its arguments do not.
std::vector<std::string> contradictions_of_name(const std::string& path, const RunValues& values) {
  static constexpr std::pair<const char*, const char*> kSizesOfNames[] = {
      {"tp", "tensor-model-parallel-size"},
      {"pp", "pipeline-model-parallel-size"},
      {"cp", "context-parallel-size"},
      {"ep", "expert-model-parallel-size"}};
  std::vector<std::string> notes;
  for (const auto& [word, option] : kSizesOfNames) {
    const auto said = number_after(word, path.substr(path.rfind('/') + 1));
    const std::int64_t given = values.number(option).value_or(1);
    if (said && *said != given)
      notes.push_back(fmt::format("the name of the file says {}{}, and its arguments say --{} {}", word,
                                  *said, option, given));
  }
  return notes;
}

/// Returns why a variable has no value, and which one of a similar name has one.
std::string reason_without_value(const Unresolved& unknown, const RunArguments& run) {
  constexpr std::size_t kShortest = 4;  // TP and PP are no misspelling of each other
  const bool is_long = unknown.variable.size() >= kShortest;
  const std::string similar = is_long ? nearest_name(unknown.variable, run.variables) : "";
  const std::string reason =
      run.kind == RunFileKind::command ? "it is not assigned in the command" : kNotAssigned;
  return similar.empty() ? reason : fmt::format("{}, but {} is", reason, sim::printable_text(similar));
}

RunVariables requested_variables(const Settings& line) {
  RunVariables variables;
  for (const std::string& given : line.given("set")) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0) refuse_by("bad_set", "--set", given);
    variables[given.substr(0, equals)] = given.substr(equals + 1);
  }
  return variables;
}

/// Refuses options that are about a run, where none is given.
void refuse_without_run(const Settings& line) {
  for (const char* option : {"set", "from-as"}) {
    if (line.has(option)) refuse_by("option_without_effect/run", fmt::format("--{}", option));
  }
}

/// Reads the text of --command. Its readers refuse texts of --from, and so name that option.
RunArguments read_command(const std::string& text, const RunVariables& variables) {
  return sim::with_refusals_named([&] { return read_run_text(text, variables); },
                                  [](sim::Refusal refusal) {
                                    if (refusal.option == "--from") refusal.option = kCommand;
                                    return refusal;
                                  });
}

}  // namespace

RunArguments requested_run(const Settings& line) {
  const bool is_command = line.has("command");
  if (!line.has("from") && !is_command) {
    refuse_without_run(line);
    return {};
  }
  if (line.has("from") && is_command) refuse_by("two_runs", "--from, --command");
  const std::string path = line.text("from", "");
  RunVariables variables = requested_variables(line);
  RunArguments run =
      is_command ? read_command(line.text("command", ""), variables) : read_run_file(path, variables);
  if (run.is_given()) return run;  // a document, which names itself
  run.name = is_command               ? "the command"
             : path == kStandardInput ? "standard input"
                                      : sim::printable_text(path);
  run.set = std::move(variables);
  if (is_command && run.kind == RunFileKind::script) run.kind = RunFileKind::command;
  for (Unresolved& unknown : run.unresolved)
    if (unknown.reason == kNotAssigned) unknown.reason = reason_without_value(unknown, run);
  for (std::string& note : contradictions_of_name(path, RunValues(run))) run.notes.push_back(std::move(note));
  return run;
}

std::string option_of_run(const Settings& settings) {
  return settings.has("command") ? kCommand : "--from " + sim::printable_text(settings.text("from", ""));
}

std::optional<RunAs> requested_form(const Settings& line) {
  const std::vector<std::string> words = line.given("from-as");
  if (words.empty()) return std::nullopt;
  if (words.size() == 2 && (words[0] == "scenario" || words[0] == "run"))
    return RunAs{.is_scenario = words[0] == "scenario", .path = words[1]};
  refuse_by("from_as_form", "--from-as", fmt::join(words, " "));
}

std::string text_of(const RunAs& form, const RunOfFile& run) {
  if (!form.is_scenario) return text_of_document(run.document);
  return fmt::format("# Source: the arguments of {}\n{}", run.document.name, run.settings.as_scenario());
}

}  // namespace verify
