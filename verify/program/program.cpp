#include "verify/program/program.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "sim/launch/launch.h"
#include "verify/output/json.h"
#include "verify/output/outcomes.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/program/command_help.h"
#include "verify/program/command_info.h"
#include "verify/program/run_from.h"
#include "verify/program/version.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

namespace {

/// Returns the value that the words give an option. They are searched before they are parsed, because a
/// refusal of the command line must also be written in the format that it asks for.
std::string value_in(const std::vector<std::string>& arguments, const std::string& option) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(option + "=")) return arguments[i].substr(option.size() + 1);
    if (arguments[i] == option && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

/// Returns the file at which GitHub shows refusals: the one of --from, or else the first scenario.
std::string file_in(const std::vector<std::string>& arguments) {
  const std::string from = value_in(arguments, "--from");
  const auto scenario =
      std::ranges::find_if(arguments, [](const std::string& word) { return word.ends_with(".ini"); });
  return !from.empty() || scenario == arguments.end() ? from : *scenario;
}

/// Returns the rank of this process if the words may ask for ranks that are processes. It is 0 for a single
/// process, and if the variables of the launcher contradict each other.
int rank_of_process(const std::vector<std::string>& arguments) {
  const bool may_be = std::ranges::any_of(arguments, [](const std::string& word) {
    return word.starts_with("--backend") || word.starts_with("--spread") || word.ends_with(".ini");
  });
  if (!may_be) return 0;
  try {
    return sim::detect_launch({}, sim::environment_of_process()).rank;
  } catch (const sim::Error&) {
    return 0;
  }
}

/// Writes one line about a refusal. The ranks other than rank 0 call this: rank 0 writes the whole
/// refusal, and they wait to write after it.
void report_of_rank(const std::string& program, int rank, const sim::Refusal& refusal, const Output& output) {
  let_rank_0_speak();
  output.err << fmt::format("{}: rank {}: refused [{}] {}: {}\n", program, rank, refusal.code, refusal.option,
                            refusal.numbers);
}

void write(const std::string& program, const sim::Refusal& refusal, const Output& output) {
  output.err << fmt::format("{}: refused [{}]\n  where  {}\n  given  {}\n  rule   {}\n  try    {}\n", program,
                            refusal.code, refusal.option, refusal.numbers, refusal.rule, refusal.hint);
}

void report(const std::string& program, const sim::Error& error, const std::vector<std::string>& arguments,
            const Output& output, const AddMembers& add_members) {
  const std::vector<sim::Refusal> further = sim::further_refusals(error);
  write(program, error.refusal(), output);
  for (const sim::Refusal& refusal : further) write(program, refusal, output);
  const std::string format = value_in(arguments, "--format");
  if (format == "github") {
    OutcomeSuite suite{
        .name = program, .file = file_in(arguments), .outcomes = {outcome_of(error.refusal())}};
    for (const sim::Refusal& refusal : further) suite.outcomes.push_back(outcome_of(refusal));
    output.out << annotations_text({suite});
  }
  if (format != "json") return;
  Json document = Json::object();
  add_refusals(document, error.refusal(), further);
  if (add_members) add_members(document);
  output.out << one_line(document);
}

/// Returns the page about the program itself that the command line asks for; empty where it asks for none.
std::string page_asked_for(const CommandLine& line, int columns) {
  const ProgramInfo& program = shardproof_program();
  if (line.help) return help_page(program, line, columns);
  if (!line.command.empty()) return "";
  if (line.settings.flag("man")) return man_page(program);
  if (!line.settings.has("completion")) return "";
  return line.settings.choice("completion") == "zsh" ? zsh_completion(program) : bash_completion(program);
}

int run(const std::vector<std::string>& arguments, const Output& output, const BackendOpeners& backends,
        const std::optional<Build>& build, const std::string& called, Json& members) {
  const CommandLine line = parse_command_line(arguments);
  line.settings.check();
  if (line.version) {
    output.out << (asks_for_json(line) ? one_line(version_json(build)) : version_text(build));
    return kVerified;
  }
  if (const std::string page = page_asked_for(line, output.columns); !page.empty()) {
    output.out << page;
    return kVerified;
  }
  if (line.command.empty()) {
    output.err << overview(shardproof_program(), output.columns) << "\n";
    refuse_by("missing_command", "command line");
  }
  const CommandInfo& command = command_named(shardproof_program(), line.command);
  require_read_by(line, command.reader);
  return run_from({line, backends, output, called}, command.run, members);
}

}  // namespace

int exit_code_of(const std::string& program, const std::vector<std::string>& arguments, const Output& output,
                 const std::function<int()>& work, const AddMembers& add_members) {
  try {
    const int code = work();
    if (output.out.flush()) return code;
    output.err << program << ": the result could not be written to standard output\n";
    return kRefused;
  } catch (const sim::Error& error) {
    const int rank = rank_of_process(arguments);
    if (rank == 0) {
      report(program, error, arguments, output, add_members);
    } else {
      report_of_rank(program, rank, error.refusal(), output);
    }
    const bool is_absent =
        error.refusal().code == "backend_unavailable" || error.refusal().code == "cuda_unavailable";
    return is_absent ? kUnavailable : kRefused;
  } catch (const std::bad_alloc&) {
    output.err << program << ": out of memory\n";
    return kRefused;
  } catch (const std::exception& error) {
    output.err << program << ": stopped by the system: " << sim::printable_text(sim::text_of(error)) << "\n";
    return kRefused;
  }
}

int run_program(const std::vector<std::string>& arguments, const Output& output,
                const BackendOpeners& backends, const std::optional<Build>& build,
                const std::string& called) {
  Json members;
  return exit_code_of(
      "shardproof", arguments, output,
      [&] { return run(arguments, output, backends, build, called, members); },
      [&](Json& document) { add_members(document, members); });
}

}  // namespace verify
