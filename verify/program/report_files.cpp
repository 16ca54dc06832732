#include "verify/program/report_files.h"

#include <cstddef>

#include "verify/report/replay_forms.h"

namespace verify {

namespace {

/// The files that the command reads, and words that may name some.
std::vector<std::string> inputs_of(const CommandLine& line) {
  std::vector<std::string> inputs = line.scenarios;
  inputs.insert(inputs.end(), line.program.begin(), line.program.end());
  for (const char* option : {"from", "text", "machine", "against"})
    if (line.settings.has(option)) inputs.push_back(line.settings.text(option, ""));
  return inputs;
}

}  // namespace

std::optional<OutputFile> output_file(const CommandLine& line, const char* option) {
  if (!line.settings.has(option)) return std::nullopt;
  OutputFile file(option, line.settings.text(option, ""));
  for (const std::string& input : inputs_of(line)) file.require_is_no_input(input);
  return file;
}

JUnitFile::JUnitFile(const CommandLine& line)
    : name_("shardproof " + line.command), file_(output_file(line, "junit")) {}

void JUnitFile::write(const std::vector<OutcomeSuite>& suites) const {
  if (file_) file_->write(junit_text(name_, suites));
}

void write_annotations(const CommandLine& line, std::vector<OutcomeSuite> suites, std::ostream& out) {
  if (line.settings.choice("format") != "github") return;
  for (OutcomeSuite& suite : suites)
    if (suite.file.empty()) suite.file = line.settings.text("from", "");
  out << annotations_text(suites);
}

ReportFiles::ReportFiles(const CommandLine& line) {
  const std::string& command = line.command;
  add("report", line, [command](const auto& reports) { return report_html(reports, command); });
  add("junit", line, [command](const auto& reports) { return report_junit(reports, command); });
  add("trace", line, trace_json);
  const Settings& settings = line.settings;
  if (!settings.has("flight-recorder")) return;
  const bool as_json = settings.choice("flight-recorder-format") == "json";
  most_dumped_calls_ = settings.number("flight-recorder-entries").value_or(kDumpedCalls);
  dumps_.emplace(settings.text("flight-recorder", ""), as_json ? DumpFormat::json : DumpFormat::pickle);
}

void ReportFiles::add(const char* option, const CommandLine& line, TextOf text_of) {
  std::optional<OutputFile> file = output_file(line, option);
  if (!file) return;
  for (const auto& [other, of_other] : files_) file->require_differs_from(other);
  files_.emplace_back(*std::move(file), std::move(text_of));
}

void ReportFiles::write(const std::vector<ScenarioReport>& reports) const {
  for (const auto& [file, text_of] : files_) file.write(text_of(reports));
  if (!dumps_) return;
  for (const ScenarioReport& report : reports)
    if (report.trace) write_dumps(*report.trace);
}

KeepRun ReportFiles::dump_writer() const {
  if (!dumps_) return {};
  return [this](const TracedRun& run) { write_dumps(run); };
}

void ReportFiles::write_dumps(const TracedRun& traced) const {
  RunDumpWriter writer(traced.layout, traced.run, traced.timeline, most_dumped_calls_);
  for (std::size_t rank = 0; rank < writer.size(); ++rank) dumps_->write(writer.dump_of(rank));
}

}  // namespace verify
