#include "verify/prove.h"

#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/cases/case_list.h"
#include "verify/cases/case_rules.h"
#include "verify/checks/case_replay.h"
#include "verify/options/case_options.h"
#include "verify/options/command_requests.h"
#include "verify/options/option_readers.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/terminal.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"

namespace verify {

namespace {

/// Returns the options that a command reads, as lines of the page of help.
std::string options_for(Reader reader) {
  std::string text;
  for (const OptionInfo& option : option_vocabulary()) {
    const bool is_general = option.readers == kEverybody && std::strcmp(option.name, "format") != 0;
    if (overlap(option.readers, reader) && !is_general)
      text += fmt::format("    --{:<28}{}\n", option.name, help_of(option));
  }
  return text;
}

std::string usage(const std::string& called, const CaseList& cases) {
  std::string text = fmt::format(
      "usage: {0} [check] [--options]\n       {0} replay FILE.ini [--options]\n\n"
      "  check     prove the cases over random worlds and shapes; a failure is shrunk\n{1}"
      "  replay    one setting of one case, as check wrote it\n{2}\ncases:",
      called, options_for(Reader::check_of_project), options_for(Reader::replay_of_project));
  for (const auto& one : cases) text += " " + one->name();
  return text + "\n";
}

int run_replay(const std::string& called, const CommandLine& line, const CaseList& cases,
               const Output& output) {
  const auto [row, finding] = replay_case(case_request(line, Reader::replay_of_project), cases);
  const char* verdict = row.holds ? "verified" : finding ? "broken" : "falsified";
  if (asks_for_json(line)) {
    Json json = {{"verdict", verdict}, {"check", row.check}, {"holds", row.holds}, {"detail", row.detail}};
    if (finding) json["finding"] = finding_json(*finding);
    output.out << one_line(json);
  } else {
    const std::string reproduce = fmt::format(
        "{} replay{}{}", called, line.scenarios.empty() ? "" : " " + quoted_for_shell(line.scenarios.front()),
        arguments_of(line));
    output.out << fmt::format("{}  {}\n\n{}{}\n", row.holds ? "ok" : "FAILED", row.detail,
                              finding ? sim::text_of(*finding, reproduce) + "\n" : "", verdict);
  }
  if (finding) return kBroken;
  return row.holds ? kVerified : kFalsified;
}

/// Returns a hint that names a command of shardproof as this program has it. Its page of help lists the
/// cases.
std::string own_hint(const std::string& hint, const std::string& called) {
  constexpr std::string_view kList = "shardproof list", kOther = "shardproof ";
  if (hint == kList) return called + " --help";
  return hint.starts_with(kOther) ? called + " " + hint.substr(kOther.size()) : hint;
}

int run(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
        const Output& output) {
  require_cases(cases);
  CommandLine line = parse_command_line(arguments);
  require_readable(line);
  if (line.help) {
    output.out << usage(called, cases);
    return kVerified;
  }
  if (line.version) {
    output.out << "shardproof " SHARDPROOF_VERSION "\n";
    return kVerified;
  }
  if (line.command.empty()) line.command = "check";
  if (line.command == "replay") return run_replay(called, line, cases, output);
  if (line.command == "check") {
    require_read_by(line, Reader::check_of_project);
    return check_cases({line, {}, output}, cases, called);
  }
  sim::refuse({.code = "unknown_command",
               .option = line.command,
               .numbers = "there is no such command",
               .rule = "the commands are check, replay",
               .hint = called + " --help"});
}

}  // namespace

int prove(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
          const Output& output) {
  return exit_code_of(called, arguments, output, [&] {
    try {
      return run(called, arguments, cases, output);
    } catch (const sim::Error& error) {
      sim::Refusal refusal = error.refusal();
      refusal.hint = own_hint(refusal.hint, called);
      throw sim::Error(std::move(refusal));
    }
  });
}

int prove(int argc, char** argv, const CaseList& cases, int own_words) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto own = std::clamp<std::ptrdiff_t>(own_words, 0, std::ssize(words));
  std::string called = quoted_for_shell(argv[0]);
  for (auto word = words.begin(); word != words.begin() + own; ++word)
    called += " " + quoted_for_shell(*word);
  return prove(called, {words.begin() + own, words.end()}, cases, terminal_output());
}

}  // namespace verify
