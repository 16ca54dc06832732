#include "verify/program/run_from.h"

#include <cstddef>
#include <optional>
#include <ostream>
#include <utility>

#include "verify/megatron_rules/effective_values.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/output_file.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/requested_run.h"
#include "verify/views/run_view.h"

namespace verify {

namespace {

/// Writes the file of --from-as, whose path is checked before any work begins, and runs the command.
int judge_run(const RunOfFile& run, const Call& call, int (*command)(const Call& call)) {
  const Settings& settings = call.line.settings;
  const std::optional<RunAs> form = requested_form(settings);
  std::optional<OutputFile> file;
  if (form) {
    using Scenario = OutputFile::Scenario;
    file.emplace("from-as", form->path, form->is_scenario ? Scenario::may_be : Scenario::must_not_be);
    if (settings.has("from")) file->require_is_no_input(settings.text("from", ""));
  }
  const bool asks_itself = command == run_memory && !form;  // for all that it needs at once
  if (!asks_itself) require_known_values(run, option_of_run(settings));
  if (form) {
    require_modelled(run, Unproved::groups);
    file->write(text_of(*form, run));
  }
  return command(call);
}

/// Shows what becomes of the arguments before the answer, which is the last on the screen.
int run_as_text(const RunOfFile& run, const Call& call, int (*command)(const Call& call)) {
  const bool is_verbose = call.line.settings.flag("verbose");
  call.output.out << run_title(run) << run_lists(run, call.output.columns, is_verbose) << std::flush;
  return judge_run(run, call, command);
}

}  // namespace

int run_from(const Call& call, int (*command)(const Call& call), Json& members) {
  members = Json::object();
  CommandLine line = call.line;
  line.run = requested_run(line.settings);
  if (!line.run.is_given()) return command(call);
  const RunOfFile run = under_options(run_of(line.run), line.settings);
  const bool as_json = asks_for_json(line);
  if (as_json) {
    members = {{"from", run_json(run)},
               {"effective", effective_values(run.values, run.settings.number("world-size"))}};
  }
  const Call of_run{line, call.backends, call.output, call.called, members};
  return as_json ? judge_run(run, of_run, command) : run_as_text(run, of_run, command);
}

void add_members(Json& document, const Json& members) {
  for (std::size_t i = 0; i < members.size(); ++i) document[members.names()[i]] = members.elements()[i];
}

void write_json(const Call& call, Json document) {
  add_members(document, call.run_members);
  call.output.out << one_line(document);
}

std::string last_members(const Call& call) {
  if (call.run_members.empty()) return "";
  std::string text = "," + call.run_members.dump().substr(1);
  text.pop_back();  // the brackets of the object
  return text;
}

}  // namespace verify
