#include "verify/prove.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/cases/case_list.h"
#include "verify/checks/case_replay.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/scenario.h"
#include "verify/output/json.h"
#include "verify/output/report_json.h"
#include "verify/output/terminal.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"

namespace verify {

namespace {

using Names = std::vector<std::string>;

const Names& options_of_check() {
  static const Names names = {"case",      "property", "dtype",    "runs",           "seed",
                              "max-world", "backend",  "deadline", "mpi-reductions", "format"};
  return names;
}

const Names& options_of_replay() {
  static const Names names = {
      "world-size", "tensor-model-parallel-size", "case", "property", "dtype", "seed", "dimensions",
      "format"};
  return names;
}

std::string help_of(const Names& names) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("    --{:<28}{}\n", name, option_named(name).help);
  return text;
}

std::string usage(const std::string& called, const CaseList& cases) {
  std::string text = fmt::format(
      "usage: {0} [check] [--options]\n       {0} replay FILE.ini [--options]\n\n"
      "  check     prove the cases over random worlds and shapes; a failure is shrunk\n{1}"
      "  replay    one setting of one case, as check wrote it\n{2}\ncases:",
      called, help_of(options_of_check()), help_of(options_of_replay()));
  for (const auto& one : cases) text += " " + one->name();
  return text + "\n";
}

/// Others would be silently without effect.
void check_options(const Settings& settings, const Names& names, const std::string& command) {
  for (const OptionInfo& option : option_vocabulary()) {
    const bool is_read = std::find(names.begin(), names.end(), option.name) != names.end();
    if (!is_read && settings.has(option.name)) refuse_without_effect(option.name, command);
  }
}

int run_replay(const CommandLine& line, const CaseList& cases, const Output& output) {
  const Settings settings = single_scenario(line);
  check_options(settings, options_of_replay(), line.command);
  const CheckResult row = replay_case(settings, cases);
  const std::string verdict = row.holds ? "verified" : "falsified";
  if (settings.choice("format") == "json") {
    output.out << one_line(
        {{"verdict", verdict}, {"check", row.check}, {"holds", row.holds}, {"detail", row.detail}});
  } else {
    output.out << fmt::format("{}  {}\n\n{}\n", row.holds ? "ok" : "FAILED", row.detail, verdict);
  }
  return row.holds ? kVerified : kFalsified;
}

int run(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
        const Output& output) {
  CommandLine line = parse_command_line(arguments);
  line.settings.check();
  if (line.help) {
    output.out << usage(called, cases);
    return kVerified;
  }
  if (line.version) {
    output.out << "shardproof " SHARDPROOF_VERSION "\n";
    return kVerified;
  }
  if (line.command.empty()) line.command = "check";
  if (line.command == "replay") return run_replay(line, cases, output);
  if (line.command == "check") {
    check_options(line.settings, options_of_check(), line.command);
    return check_cases(line, cases, called, nullptr, output);
  }
  sim::refuse({.code = "unknown_command",
               .option = line.command,
               .numbers = "no such command",
               .rule = "the commands are check, replay",
               .hint = called + " --help"});
}

}  // namespace

int prove(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
          const Output& output) {
  return exit_code_of(arguments, output, [&] { return run(called, arguments, cases, output); });
}

int prove(int argc, char** argv, CaseList cases, int own_words) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto own = std::clamp<std::ptrdiff_t>(own_words, 0, std::ssize(words));
  std::string called = quoted_for_shell(argv[0]);
  for (auto word = words.begin(); word != words.begin() + own; ++word)
    called += " " + quoted_for_shell(*word);
  return prove(called, {words.begin() + own, words.end()}, cases, terminal_output());
}

}  // namespace verify
