#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/color.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/tensor/cpu_device.h"
#include "verify/commands.h"
#include "verify/counted.h"
#include "verify/progress.h"
#include "verify/replay.h"
#include "verify/report_json.h"
#include "verify/scenario.h"
#include "verify/text_table.h"

namespace verify {

namespace {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::verified:
      return "verified";
    case Verdict::falsified:
      return "falsified";
    case Verdict::refused:
      return "refused";
    case Verdict::broken:
      return "broken";
  }
  return "";
}

std::string reproduce_line(const ScenarioReport& report, const Settings& overrides) {
  return fmt::format("./shardproof replay{}{}",
                     report.path.empty() ? "" : " " + quoted_for_shell(report.path),
                     overrides.as_command_line());
}

std::size_t count_of(const std::vector<ScenarioReport>& reports, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(reports.begin(), reports.end(),
                    [&](const ScenarioReport& report) { return report.verdict() == verdict; }));
}

Verdict overall(const std::vector<ScenarioReport>& reports) {
  if (count_of(reports, Verdict::falsified) > 0) return Verdict::falsified;
  if (count_of(reports, Verdict::broken) > 0) return Verdict::broken;
  return count_of(reports, Verdict::refused) > 0 ? Verdict::refused : Verdict::verified;
}

fmt::text_style style(bool good, bool colour) {
  if (!colour) return {};
  return fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red);
}

/// Where the bytes go: one row a kind, over all sites.
std::string ledger_text(const std::vector<sim::LedgerRow>& ledger) {
  TextTable table({{"ledger"},
                   {"calls", Align::right},
                   {"elements", Align::right},
                   {"bytes inside a node", Align::right},
                   {"across nodes", Align::right},
                   {"most on a rank", Align::right}});
  for (auto row = ledger.begin(); row != ledger.end();) {
    sim::LedgerRow sum{.kind = row->kind};
    for (; row != ledger.end() && row->kind == sum.kind; ++row) {
      sum.calls += row->calls;
      sum.elements += row->elements;
      sum.bytes_inside += row->bytes_inside;
      sum.bytes_across += row->bytes_across;
      sum.most_bytes += row->most_bytes;
    }
    table.add({sum.kind, fmt::format("{}", sum.calls), fmt::format("{}", sum.elements),
               fmt::format("{}", sum.bytes_inside), fmt::format("{}", sum.bytes_across),
               fmt::format("{}", sum.most_bytes)});
  }
  return table.text("  ");
}

std::string as_text(const ScenarioReport& report, const Settings& overrides, bool colour) {
  std::string text =
      fmt::format("{}  ({})\n", report.name, report.source.empty() ? "no source given" : report.source);
  TextTable table({{""}, {""}, {""}});
  for (const CheckResult& check : report.checks) {
    table.add({check.holds ? "ok" : "FAILED", check.check, check.detail}, style(check.holds, colour));
  }
  for (const sim::Warning& warning : report.warnings) table.add({"warning", warning.name, warning.message});
  if (report.refusal) {
    table.add({"REFUSED", report.refusal->code, report.refusal->option + ": " + report.refusal->numbers},
              style(false, colour));
    table.add({"", "rule", report.refusal->rule});
    table.add({"", "try", report.refusal->hint});
  }
  text += table.text("  ");
  if (!report.ledger.empty()) text += ledger_text(report.ledger);
  for (const sim::Finding& finding : report.findings) {
    text += "\n" + sim::text_of(finding, reproduce_line(report, overrides));
  }
  if (report.verdict() != Verdict::verified && report.findings.empty())
    text += "  reproduce: " + reproduce_line(report, overrides) + "\n";
  return text + "\n";
}

std::string summary(const std::vector<ScenarioReport>& reports, bool colour) {
  std::int64_t checks = 0;
  std::int64_t warnings = 0;
  for (const ScenarioReport& report : reports) {
    checks += static_cast<std::int64_t>(report.checks.size());
    warnings += static_cast<std::int64_t>(report.warnings.size());
  }
  const bool good = overall(reports) == Verdict::verified;
  const auto total = static_cast<std::int64_t>(reports.size());
  return fmt::format(style(good, colour), "{}: {}, {}; {} verified, {} falsified, {} broken, {} refused, {}",
                     verdict_name(overall(reports)), counted(total, "scenario"), counted(checks, "check"),
                     count_of(reports, Verdict::verified), count_of(reports, Verdict::falsified),
                     count_of(reports, Verdict::broken), count_of(reports, Verdict::refused),
                     counted(warnings, "warning")) +
         "\n";
}

nlohmann::ordered_json as_json(const ScenarioReport& report, const Settings& overrides) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& check : report.checks) {
    checks.push_back({{"check", check.check}, {"holds", check.holds}, {"detail", check.detail}});
  }
  nlohmann::ordered_json document = {
      {"scenario", report.name},     {"path", report.path},
      {"source", report.source},     {"verdict", verdict_name(report.verdict())},
      {"checks", std::move(checks)}, {"warnings", warnings_json(report.warnings)}};
  nlohmann::ordered_json ledger = nlohmann::ordered_json::array();
  for (const sim::LedgerRow& row : report.ledger) ledger.push_back(ledger_json(row));
  document["ledger"] = std::move(ledger);
  if (!report.findings.empty()) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const sim::Finding& finding : report.findings) findings.push_back(finding_json(finding));
    document["findings"] = std::move(findings);
  }
  if (report.refusal) {
    document["error"] = refusal_json(*report.refusal);
  }
  if (report.verdict() != Verdict::verified) document["reproduce"] = reproduce_line(report, overrides);
  return document;
}

/// A scenario file that cannot be read is reported as refused, and the others are still replayed.
ScenarioReport replay_file(const std::string& path, const Settings& overrides, sim::Device& device) {
  try {
    Scenario scenario = read_scenario(path);
    scenario.settings = scenario.settings.overridden_by(overrides);
    return replay(scenario, device);
  } catch (const sim::Error& error) {
    return {path, path, "", {}, {}, error.refusal(), {}, {}, {}};
  }
}

}  // namespace

int run_replay(const CommandLine& line, const Output& output) {
  const Settings& overrides = line.settings;
  std::vector<ScenarioReport> reports;
  sim::CpuDevice device;
  if (line.scenarios.empty() && overrides.has("world-size")) {
    reports.push_back(replay({"", "command line", "options given", overrides}, device));
  } else {
    const std::vector<std::string> paths = line.scenarios.empty() ? scenario_files() : line.scenarios;
    Progress progress(output.err, output.progress, paths.size(), "scenarios");
    for (const std::string& path : paths) {
      progress.step(reports.size(), path);
      reports.push_back(replay_file(path, overrides, device));
    }
  }
  if (reports.empty()) {
    sim::refuse({.code = "scenario_missing",
                 .option = scenario_folder(),
                 .numbers = "no .ini file in it",
                 .rule = "replay without a scenario replays all of scenarios/",
                 .hint = "name a scenario file"});
  }
  if (overrides.choice("format") == "json") {
    nlohmann::ordered_json scenarios = nlohmann::ordered_json::array();
    for (const ScenarioReport& report : reports) scenarios.push_back(as_json(report, overrides));
    const nlohmann::ordered_json document = {{"verdict", verdict_name(overall(reports))},
                                             {"scenarios", std::move(scenarios)}};
    output.out << one_line(document);
  } else {
    for (const ScenarioReport& report : reports) output.out << as_text(report, overrides, output.colour);
    output.out << summary(reports, output.colour);
  }
  switch (overall(reports)) {
    case Verdict::verified:
      return kVerified;
    case Verdict::falsified:
      return kFalsified;
    case Verdict::refused:
      return kRefused;
    case Verdict::broken:
      return kBroken;
  }
  return kRefused;
}

}  // namespace verify
