#include "verify/program/project_commands.h"

#include <fmt/format.h>

#include "verify/cases/case.h"

namespace verify {

namespace {

/// Returns the smallest dimensions of a case, such as "tokens=1,hidden=1".
std::string smallest_dimensions(const Case& the_case) {
  std::string text;
  for (const Dimension& dimension : the_case.dimensions())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", dimension.name, dimension.least);
  return text;
}

std::vector<ExitCodeInfo> exit_codes() {
  return {{kVerified, "Everything holds."},
          {kFalsified, "A property does not hold."},
          {kRefused, "The command line, a scenario or a case was refused, or a result could not be written."},
          {kBroken, "A case broke a contract: a deadlock or a mismatch, for example."}};
}

CommandInfo check_info(const std::string& first) {
  CommandInfo info = {
      .name = "check",
      .arguments = "",
      .summary = "Proves the cases over random worlds and shapes. The word may be left out.",
      .about =
          "Draws worlds, shapes and flags for every case, and holds what the ranks compute against the "
          "reference of the case. A failure is shrunk and written as a scenario, which the command replay "
          "runs again. Under mpirun, --backend mpi holds processes against virtual ranks.",
      .reader = Reader::check_of_project,
      .examples = {{"Prove every case, each property with 20 draws.", "check --runs 20"},
                   {"Prove in exact arithmetic that a case equals its reference.",
                    fmt::format("check --case {} --property serial --dtype field", first)},
                   {"Draw other settings, on worlds of at most 4 ranks.",
                    "check --runs 20 --seed 7 --max-world 4"}},
      .exit_codes = exit_codes()};
  info.exit_codes.push_back({kUnavailable, "The backend is not in this build or on this machine."});
  info.exit_codes.push_back({kInterrupted, "An interrupt (Ctrl-C) came first, and nothing had failed."});
  return info;
}

CommandInfo exam_info(const std::string& first) {
  return {.name = "exam",
          .arguments = "[FILE.ini...]",
          .summary = "Plants faults in the cases, and says which the properties catch.",
          .about =
              "Plants faults at every call site and kernel that the cases reach, one at a time, and judges "
              "each by the properties: caught, equivalent (nothing differs) or missed. With --catalogue it "
              "plants the bugs of the files, and says which of them the expected property catches.",
          .reader = Reader::exam_of_project,
          .examples = {{"Examine all cases.", "exam"},
                       {"Examine one case.", fmt::format("exam --case {}", first)},
                       {"Plant one fault everywhere.", "exam --fault own-term"}},
          .exit_codes = exit_codes()};
}

CommandInfo replay_info(const Case& first) {
  const std::string setting = fmt::format("replay --case {} --property serial --dtype field --dimensions {}",
                                          first.name(), smallest_dimensions(first));
  return {.name = "replay",
          .arguments = "[FILE.ini]",
          .summary = "Runs one setting of one case, as check wrote it.",
          .about =
              "Runs the setting of a file that check wrote, or that of the options. It needs --case, "
              "--property, --dtype and --dimensions.",
          .reader = Reader::replay_of_project,
          .examples = {{"Run the smallest setting on one rank.", setting},
                       {"Run it on two tensor-parallel ranks.",
                        setting + " --world-size 2 --tensor-model-parallel-size 2"},
                       {"Write the result as JSON.", setting + " --format json"}},
          .exit_codes = exit_codes()};
}

}  // namespace

ProgramInfo project_program(const std::string& called, const CaseList& cases) {
  std::string names;
  for (const auto& one : cases) names += " " + one->name();
  return {.called = called,
          .purpose = "Proves sharded layers against their references, with shardproof.",
          .commands = {check_info(cases.front()->name()), exam_info(cases.front()->name()),
                       replay_info(*cases.front())},
          .cases = cases,
          .has_pages = false,
          .closing = "cases:" + names};
}

}  // namespace verify
