#pragma once

/// The files that replay and run write in addition to their result: the page, the JUnit file, the trace and
/// the dumps of the flight recorder. Their paths are checked before any work begins.
///
/// Errors  report_file, junit_file, trace_file: a file cannot be written, or is an input or another one of
///         these; flight_recorder_folder (dump_writer.h).

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "verify/output/outcomes.h"
#include "verify/output/output_file.h"
#include "verify/recordings/dump_writer.h"
#include "verify/recordings/run_dump_writer.h"
#include "verify/replay/backend_replay.h"
#include "verify/replay/scenario_report.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

/// Returns the file of an option, if the command line has it. It is none that the command reads: a scenario,
/// a word of a program, or the file of --from, --text, --machine or --against.
std::optional<OutputFile> output_file(const CommandLine& line, const char* option);

/// The file of --junit, if the command line has it.
class JUnitFile {
 public:
  explicit JUnitFile(const CommandLine& line);
  void write(const std::vector<OutcomeSuite>& suites) const;

 private:
  std::string name_;
  std::optional<OutputFile> file_;
};

/// Writes annotations if --format github asks for them. A suite without a file has that of --from.
void write_annotations(const CommandLine& line, std::vector<OutcomeSuite> suites, std::ostream& out);

class ReportFiles {
 public:
  explicit ReportFiles(const CommandLine& line);

  void write(const std::vector<ScenarioReport>& reports) const;
  /// Returns what writes the dumps of a run on a backend; nothing where no dumps are asked for.
  KeepRun dump_writer() const;

 private:
  using TextOf = std::function<std::string(const std::vector<ScenarioReport>&)>;

  void add(const char* option, const CommandLine& line, TextOf text_of);
  void write_dumps(const TracedRun& traced) const;

  std::vector<std::pair<OutputFile, TextOf>> files_;
  std::optional<DumpFolderWriter> dumps_;
  std::int64_t most_dumped_calls_ = kDumpedCalls;
};

}  // namespace verify
