#include "verify/program/command_info.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/check.h"
#include "verify/cases/case.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::string_view kCommands =
#include "commands.tsv.inc"
    ;

constexpr const char* kOwn = "shardproof";
constexpr const char* kOfProject = "project";

/// What a command of the table is to the program.
struct CommandCode {
  const char* program;
  std::string name;
  Reader reader;
  int (*run)(const Call& call);
};

const std::vector<CommandCode>& command_codes() {
  static const std::vector<CommandCode> codes = {
      {kOwn, "replay", Reader::replay, run_replay},
      {kOwn, "groups", Reader::groups, run_groups},
      {kOwn, "layers", Reader::layers, run_layers},
      {kOwn, "schedule", Reader::schedule | Reader::estimated_schedule, run_schedule},
      {kOwn, "shards", Reader::shards, run_shards},
      {kOwn, "memory", Reader::memory, run_memory},
      {kOwn, "check", Reader::check, run_check},
      {kOwn, "exam", Reader::exam | Reader::exam_of_program, run_exam},
      {kOwn, "inspect", Reader::inspect, run_inspect},
      {kOwn, "run", Reader::run, run_run},
      {kOwn, "compare", Reader::compare, run_compare},
      {kOwn, "list", Reader::list, run_list},
      {kOfProject, "check", Reader::check_of_project, nullptr},
      {kOfProject, "exam", Reader::exam_of_project, nullptr},
      {kOfProject, "replay", Reader::replay_of_project, nullptr}};
  return codes;
}

void take_row(const TextRow& row, CommandInfo& command) {
  const std::string &what = row.at(2), &text = row.at(5);
  const std::string words = row.at(4) == "-" ? "" : row.at(4);
  if (what == "command") {
    command.arguments = words;
    command.summary = text;
  } else if (what == "about") {
    command.about = text;
  } else if (what == "example") {
    command.examples.push_back({.says = text, .words = words, .exit_code = std::stoi(row.at(3))});
  } else {
    SIM_CHECK(what == "exit");
    command.exit_codes.push_back({.code = std::stoi(row.at(3)), .means = text});
  }
}

/// Returns the commands of a program, as the table has them.
std::vector<CommandInfo> commands_of(std::string_view program) {
  std::vector<CommandInfo> commands;
  const std::vector<TextRow> rows = rows_of_table(kCommands);
  for (const CommandCode& code : command_codes()) {
    if (code.program != program) continue;
    CommandInfo& command =
        commands.emplace_back(CommandInfo{.name = code.name, .reader = code.reader, .run = code.run});
    for (const TextRow& row : rows)
      if (row.at(0) == program && row.at(1) == code.name) take_row(row, command);
  }
  return commands;
}

/// Returns the smallest dimensions of a case, such as "tokens=1,hidden=1".
std::string smallest_dimensions(const Case& the_case) {
  std::string text;
  for (const Dimension& dimension : the_case.dimensions())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", dimension.name, dimension.least);
  return text;
}

}  // namespace

bool takes_scenarios(const CommandInfo& command) {
  return command.arguments.find("SCENARIO") != std::string::npos;
}

const ProgramInfo& shardproof_program() {
  static const ProgramInfo program = {
      .called = "shardproof",
      .purpose = "Proves a Megatron-style model-parallel layout on the CPU, before it costs a GPU hour.",
      .commands = commands_of(kOwn),
      .cases = all_cases(),
      .has_pages = true,
      .closing =
          "The script ./shardproof of a checkout also has test, benchmarks, format and lint. "
          "verify/glossary.md explains the words."};
  return program;
}

const CommandInfo& command_named(const ProgramInfo& program, const std::string& name) {
  const auto& commands = program.commands;
  const auto found = std::ranges::find_if(commands, [&](const CommandInfo& c) { return name == c.name; });
  if (found != commands.end()) return *found;
  const std::vector<std::string> names = names_of(commands);
  const std::string nearest = nearest_name(name, names);
  const std::string help = program.called + " --help";
  refuse_by("unknown_command", name, fmt::join(names, ", "),
            nearest.empty() ? help : fmt::format("{} {}, or see {}", program.called, nearest, help));
}

ProgramInfo project_program(const std::string& called, const CaseList& cases) {
  std::string names;
  for (const auto& one : cases) names += " " + one->name();
  ProgramInfo program = {.called = called,
                         .purpose = "Proves sharded layers against their references, with shardproof.",
                         .commands = commands_of(kOfProject),
                         .cases = cases,
                         .has_pages = false,
                         .closing = "cases:" + names};
  for (CommandInfo& command : program.commands) {
    for (CommandExample& example : command.examples)
      example.words = fmt::format(fmt::runtime(example.words), fmt::arg("case", cases.front()->name()),
                                  fmt::arg("dimensions", smallest_dimensions(*cases.front())));
  }
  return program;
}

}  // namespace verify
