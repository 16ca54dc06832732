#include "verify/program/program.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/launch/launch.h"
#include "verify/options/command_line.h"
#include "verify/options/command_requests.h"
#include "verify/options/nearest_name.h"
#include "verify/options/option_readers.h"
#include "verify/options/refusals.h"
#include "verify/output/json.h"
#include "verify/output/report_json.h"
#include "verify/program/commands.h"

namespace verify {

namespace {

struct Command {
  const char* name;
  const char* help;
  Reader reader;  // marks the options that it reads
  int (*run)(const Call& call);
};

constexpr std::array<Command, 7> kCommands = {{
    {"replay", "prove scenarios end to end, one row a check; without a scenario, all of scenarios/",
     Reader::replay, run_replay},
    {"groups", "show every process group of a layout", Reader::groups, run_groups},
    {"layers", "show which layers live on which pipeline rank", Reader::layers, run_layers},
    {"schedule", "show a pipeline schedule: what each rank computes, sends and receives, and when",
     Reader::schedule, run_schedule},
    {"shards", "show a gradient buffer: parameters, padding, buckets, and who owns what under ZeRO-1",
     Reader::shards, run_shards},
    {"check", "prove sharded layers over random worlds and shapes; a failure is shrunk", Reader::check,
     run_check},
    {"list", "list scenarios, checks, cases, properties and group kinds", Reader::list, run_list},
}};

std::string usage() {
  std::string text = "usage: shardproof COMMAND [SCENARIO...] [--options]\n\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<10}{}\n", command.name, command.help);
  text +=
      "  test, benchmarks, format, lint    of the script ./shardproof alone: it says what they do in its "
      "first lines\n";
  return text;
}

/// Whether the words ask for JSON. They are searched before they are parsed, because a refusal of the command
/// line must also be written in the format that it asks for.
bool words_ask_for_json(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--format=json") return true;
    if (arguments[i] == "--format" && i + 1 < arguments.size() && arguments[i + 1] == "json") return true;
  }
  return false;
}

/// Returns the rank of this process if the words may ask for ranks that are processes. It is 0 for a single
/// process, and if the variables of the launcher contradict each other.
int rank_of_process(const std::vector<std::string>& arguments) {
  const bool may_be = std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
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

void report(const std::string& program, const sim::Error& error, bool json, const Output& output) {
  const std::vector<sim::Refusal> further = further_refusals(error);
  write(program, error.refusal(), output);
  for (const sim::Refusal& refusal : further) write(program, refusal, output);
  if (!json) return;
  Json document = Json::object();
  add_refusals(document, error.refusal(), further);
  output.out << one_line(document);
}

const Command& command_named(const std::string& name) {
  const auto found =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return name == c.name; });
  if (found != kCommands.end()) return *found;
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string nearest = nearest_name(name, names);
  sim::refuse({.code = "unknown_command",
               .option = name,
               .numbers = "there is no such command",
               .rule = fmt::format("the commands are {}", fmt::join(names, ", ")),
               .hint = nearest.empty() ? "shardproof --help" : "shardproof " + nearest});
}

int run(const std::vector<std::string>& arguments, const Output& output, const BackendOpeners& backends) {
  const CommandLine line = parse_command_line(arguments);
  require_readable(line);
  if (line.version) {
    output.out << (asks_for_json(line) ? "{\"version\":\"" SHARDPROOF_VERSION "\"}\n"
                                       : "shardproof " SHARDPROOF_VERSION "\n");
    return kVerified;
  }
  if (line.help) {
    output.out << usage() << "\n" << option_help();
    return kVerified;
  }
  if (line.command.empty()) {
    output.err << usage() << "\n";
    sim::refuse({.code = "missing_command",
                 .option = "command line",
                 .numbers = "no command is given",
                 .rule = "a call is shardproof COMMAND [SCENARIO...] [--options]",
                 .hint = "shardproof replay, or shardproof --help"});
  }
  const Command& command = command_named(line.command);
  require_read_by(line, command.reader);
  return command.run({line, backends, output});
}

}  // namespace

int exit_code_of(const std::string& program, const std::vector<std::string>& arguments, const Output& output,
                 const std::function<int()>& work) {
  try {
    const int code = work();
    if (output.out.flush()) return code;
    output.err << program << ": the result could not be written to standard output\n";
    return kRefused;
  } catch (const sim::Error& error) {
    const int rank = rank_of_process(arguments);
    if (rank == 0) {
      report(program, error, words_ask_for_json(arguments), output);
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
    output.err << program << ": stopped by the system: " << sim::printable_text(error.what()) << "\n";
    return kRefused;
  }
}

int run_program(const std::vector<std::string>& arguments, const Output& output,
                const BackendOpeners& backends) {
  return exit_code_of("shardproof", arguments, output, [&] { return run(arguments, output, backends); });
}

}  // namespace verify
