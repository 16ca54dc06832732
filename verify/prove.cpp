#include "verify/prove.h"

#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/cases/case_list.h"
#include "verify/cases/case_rules.h"
#include "verify/checks/case_replay.h"
#include "verify/output/json.h"
#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/command_help.h"
#include "verify/program/command_info.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"
#include "verify/program/version.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

int run_replay(const std::string& called, const CommandLine& line, const CaseList& cases,
               const Output& output) {
  const CaseOptions options = case_request(line, Reader::replay_of_project);
  const std::vector<Fault> faults = parsed_faults(options.plants);
  auto [row, finding] = replay_case(options, faults, cases);
  if (const std::string unmet = text_of_unmet(faults); row.holds && !unmet.empty())
    row = {row.check, false, unmet};
  const char* verdict = row.holds ? "verified" : finding ? "broken" : "falsified";
  if (asks_for_json(line)) {
    Json json = {{"verdict", verdict}, {"check", row.check}, {"holds", row.holds}, {"detail", row.detail}};
    if (finding) json["finding"] = finding_json(*finding);
    output.out << one_line(json);
  } else {
    const std::string reproduce = fmt::format(
        "{} replay{}{}", called, line.scenarios.empty() ? "" : " " + quoted_for_shell(line.scenarios.front()),
        arguments_of(line));
    output.out << fmt::format("{}  {}\n\n{}{}\n", row.holds ? "ok" : "FAILED",
                              sim::printable_text(row.detail),
                              finding ? sim::text_of(*finding, reproduce) + "\n" : "", verdict);
  }
  if (finding) return kBroken;
  return row.holds ? kVerified : kFalsified;
}

/// Returns a hint in which each call of shardproof is one of this program. Its page of help lists the cases.
std::string own_hint(const std::string& hint, const std::string& called) {
  constexpr std::string_view kList = "shardproof list", kOther = "shardproof ";
  if (hint == kList) return called + " --help";
  std::string own;
  std::size_t begin = 0;
  for (std::size_t at = hint.find(kOther); at != std::string::npos; at = hint.find(kOther, begin)) {
    own += hint.substr(begin, at - begin) + called + " ";
    begin = at + kOther.size();
  }
  return own + hint.substr(begin);
}

int run(const std::string& called, const std::vector<std::string>& arguments, const CaseList& cases,
        const Output& output) {
  require_cases(cases);
  CommandLine line = parse_command_line(arguments);
  line.settings.check();
  const ProgramInfo program = project_program(called, cases);
  if (line.help) {
    output.out << help_page(program, line, output.columns);
    return kVerified;
  }
  if (line.version) {
    output.out << (asks_for_json(line) ? one_line(version_json({})) : version_text({}));
    return kVerified;
  }
  if (line.command.empty()) line.command = "check";
  const CommandInfo& command = command_named(program, line.command);
  if (command.reader == Reader::replay_of_project) return run_replay(called, line, cases, output);
  require_read_by(line, command.reader);
  if (command.reader == Reader::exam_of_project) return exam_cases({line, {}, output, called}, cases, {});
  return check_cases({line, {}, output, called}, cases);
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
