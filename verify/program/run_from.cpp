#include "verify/program/run_from.h"

#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/options/command_requests.h"
#include "verify/options/effective_values.h"
#include "verify/options/run_of_file.h"
#include "verify/output/output_file.h"
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
  file.require_is_no_input(line.run->path);
  return file;
}

std::string scenario_text(const RunOfFile& run) {
  return fmt::format("# Source: the arguments of {}\n{}", sim::printable_text(run.path),
                     run.settings.as_scenario());
}

std::optional<std::int64_t> world_of(const RunOfFile& run) { return run.settings.number("world-size"); }

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
  const RunOfFile& run = *line.run;
  const bool as_json = asks_for_json(line);
  if (as_json) {
    members.from = run_json(run);
    members.effective = effective_values(run.values, world_of(run));
  } else {
    call.output.out << run_text(run, call.output.columns);
  }
  const std::optional<OutputFile> file = scenario_file(line);
  require_judgeable(run, line.settings);
  if (file) {
    require_modelled(run, Unproved::groups);
    file->write(scenario_text(run));
  }
  if (!as_json) return command({line, call.backends, call.output, call.called});
  std::ostringstream text;
  const Output inner{text, call.output.err, false, call.output.progress, call.output.columns};
  const int code = command({line, call.backends, inner, call.called});
  Json document = parse_json(text.str());
  members.add_to(document);
  call.output.out << one_line(document);
  return code;
}

}  // namespace verify
