#include "verify/program/run_from.h"

#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "verify/megatron_rules/effective_values.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/output_file.h"
#include "verify/requests/command_requests.h"
#include "verify/views/run_view.h"

namespace verify {

namespace {

/// The file of --from-as, whose path is checked before any work begins.
std::optional<OutputFile> scenario_file(const CommandLine& line) {
  const std::vector<std::string> words = line.settings.given("from-as");
  if (words.empty()) return std::nullopt;
  if (words.size() != 2 || words[0] != "scenario") {
    sim::refuse({.code = "from_as_form",
                 .option = "--from-as",
                 .numbers = fmt::format("{} words are given", words.size()),
                 .rule = "--from-as takes the word 'scenario' and the path of a file",
                 .hint = "--from-as scenario run.ini"});
  }
  OutputFile file("from-as", words[1], OutputFile::Scenario::may_be);
  if (!line.run->path.empty()) file.require_is_no_input(line.run->path);
  return file;
}

std::string scenario_text(const RunOfFile& run) {
  return fmt::format("# Source: the arguments of {}\n{}", source_name(run), run.settings.as_scenario());
}

std::optional<std::int64_t> world_of(const RunOfFile& run) { return run.settings.number("world-size"); }

/// Writes the file of --from-as, and runs the command.
int judge_run(const CommandLine& line, const Call& call, int (*command)(const Call& call),
              const Output& output) {
  const std::optional<OutputFile> file = scenario_file(line);
  const bool asks_itself = command == run_memory && !file;  // for all that it needs at once
  if (!asks_itself) require_judgeable(*line.run, line.settings);
  if (file) {
    require_modelled(*line.run, Unproved::groups);
    file->write(scenario_text(*line.run));
  }
  return command({line, call.backends, output, call.called});
}

/// Shows what becomes of the arguments behind the answer, also where that is a refusal.
int run_as_text(const CommandLine& line, const Call& call, int (*command)(const Call& call)) {
  const auto show_lists = [&] { call.output.out << run_lists(*line.run, call.output.columns); };
  call.output.out << run_title(*line.run);
  try {
    const int code = judge_run(line, call, command, call.output);
    show_lists();
    return code;
  } catch (const sim::Error&) {
    show_lists();
    throw;
  }
}

}  // namespace

void RunMembers::add_to(Json& document) const {
  if (from.is_null()) return;
  document["from"] = from;
  document["effective"] = effective;
}

int run_from(const Call& call, int (*command)(const Call& call), RunMembers& members) {
  CommandLine line = call.line;
  line.run = requested_run(line.settings);
  if (line.run == nullptr) return command(call);
  if (!asks_for_json(line)) return run_as_text(line, call, command);
  members.from = run_json(*line.run);
  members.effective = effective_values(line.run->values, world_of(*line.run));
  std::ostringstream text;
  const Output inner{text, call.output.err, false, call.output.progress, call.output.columns};
  const int code = judge_run(line, call, command, inner);
  Json document = parse_json(text.str());
  members.add_to(document);
  call.output.out << one_line(document);
  return code;
}

}  // namespace verify
