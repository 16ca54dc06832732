#include "verify/program/catalogue_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/interrupt.h"
#include "verify/properties/over_benches.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"

namespace verify {

namespace {

std::int64_t count_of(const std::vector<CatalogueRow>& rows, CatalogueVerdict verdict) {
  return std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.verdict == verdict; });
}

ExitCode exit_code_of(const std::vector<CatalogueRow>& rows) {
  if (count_of(rows, CatalogueVerdict::unnamed) + count_of(rows, CatalogueVerdict::missed) > 0)
    return kFalsified;
  return count_of(rows, CatalogueVerdict::not_run) > 0 ? kInterrupted : kVerified;
}

const char* verdict_of(const std::vector<CatalogueRow>& rows) {
  const ExitCode code = exit_code_of(rows);
  return code == kVerified ? "verified" : code == kFalsified ? "falsified" : "interrupted";
}

/// Returns the line that plants the faults of an entry again.
std::string check_line(const CatalogueEntry& entry, const std::string& called) {
  NamedValues options = {{"case", entry.the_case().name()},
                         {"property", entry.property().name},
                         {"dtype", std::string(sim::name_of(entry.request.dtypes.front()))},
                         {"runs", fmt::format("{}", entry.request.runs)},
                         {"seed", fmt::format("{}", entry.request.seed)}};
  for (const Fault& fault : entry.request.faults) options.emplace_back("plant", fault.text);
  return fmt::format("{} check{}", called, command_line_of(options));
}

Json json_of(const CatalogueRow& row, const std::string& called) {
  const CatalogueEntry& entry = *row.entry;
  Json faults = Json::array();
  for (const Fault& fault : entry.request.faults) faults.push_back(fault.text);
  Json json = {{"bug", entry.bug},
               {"source", entry.source},
               {"file", entry.file},
               {"case", entry.the_case().name()},
               {"faults", std::move(faults)},
               {"property", entry.property().name},
               {"dtype", std::string(sim::name_of(entry.request.dtypes.front()))},
               {"names", entry.names},
               {"verdict", name_of(row.verdict)},
               {"runs", row.runs},
               {"sentence", row.sentence},
               {"reproduce", check_line(entry, called)}};
  if (row.failure) json["setting"] = text_of(row.failure->setting);
  return json;
}

std::string text_of_failed(const CatalogueRow& row, const std::string& called) {
  const CatalogueEntry& entry = *row.entry;
  std::string text = fmt::format("\n{}: {} ({})\n", name_of(row.verdict), entry.bug, entry.file);
  if (row.verdict == CatalogueVerdict::unnamed)
    text += fmt::format("  must name  {}\n  says       {}\n", entry.names, row.sentence);
  else
    text += fmt::format("  because    {}\n", row.sentence);
  if (row.failure) text += fmt::format("  with       {}\n", text_of(row.failure->setting));
  return text + fmt::format("  reproduce  {}\n", check_line(entry, called));
}

void write_catalogue(const std::vector<CatalogueRow>& rows, bool as_json_text, const std::string& called,
                     const Output& output) {
  const std::int64_t caught = count_of(rows, CatalogueVerdict::caught);
  const std::int64_t unnamed = count_of(rows, CatalogueVerdict::unnamed);
  const std::int64_t missed = count_of(rows, CatalogueVerdict::missed);
  if (as_json_text) {
    Json json_rows = Json::array();
    for (const CatalogueRow& row : rows) json_rows.push_back(json_of(row, called));
    output.out << one_line({{"verdict", verdict_of(rows)},
                            {"seed", rows.front().entry->request.seed},
                            {"interrupted", count_of(rows, CatalogueVerdict::not_run) > 0},
                            {"caught", caught},
                            {"unnamed", unnamed},
                            {"missed", missed},
                            {"rows", std::move(json_rows)}});
    return;
  }
  TextTable table({{"bug"}, {"source"}, {"fault"}, {"property"}, {"runs", Align::right}, {"verdict"}});
  std::string failed;
  for (const CatalogueRow& row : rows) {
    table.add({row.entry->bug, row.entry->source, row.entry->faults_text(), row.entry->property().name,
               fmt::format("{}", row.runs), name_of(row.verdict)});
    const bool has_failed =
        row.verdict == CatalogueVerdict::unnamed || row.verdict == CatalogueVerdict::missed;
    if (has_failed) failed += text_of_failed(row, called);
  }
  output.out << table.text() << failed
             << fmt::format("\n{}: {}, {} caught by the expected property, {} unnamed, {} missed\n",
                            verdict_of(rows), counted(std::ssize(rows), "bug"), caught, unnamed, missed);
}

}  // namespace

int exam_catalogue(const Call& call, const CaseList& cases, const std::vector<std::string>& files) {
  const CommandLine& line = call.line;
  const CaseOptions options = case_options(line.settings);
  const std::vector<CatalogueEntry> entries = read_catalogue(files, options, cases);
  std::vector<Bench> benches(benches_for(options.threads));
  const InterruptKept interrupt;
  std::optional<Progress> progress;
  const std::vector<CatalogueRow> rows =
      run_catalogue(entries, benches, [&](std::size_t done, const CatalogueEntry& next) {
        if (!progress) progress.emplace(call.output.err, call.output.progress, entries.size(), "bugs");
        progress->step(done, next.bug);
        return !interrupt.is_asked();
      });
  progress.reset();
  write_catalogue(rows, asks_for_json(line), call.called, call.output);
  return exit_code_of(rows);
}

}  // namespace verify
