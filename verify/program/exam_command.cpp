#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "verify/campaign/case_request.h"
#include "verify/cases/case_list.h"
#include "verify/exam/exam.h"
#include "verify/exam/fault_catalogue.h"
#include "verify/exam/power.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/refusal_table.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/properties/bench.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

// ---- what an exam found: its tables by case and by fault, its score, and what was missed; or the document

/// Counts of some rows of an exam.
struct ExamScore {
  std::int64_t caught = 0, equivalent = 0, missed = 0;
  std::int64_t explained = 0;                 // of those that were caught
  std::int64_t site = 0, rank = 0, kind = 0;  // of those that were explained: the explanations that name it

  std::int64_t judged() const { return caught + missed; }
  void add(const ExamRow& row) {
    caught += row.verdict == FaultVerdict::caught ? 1 : 0;
    equivalent += row.verdict == FaultVerdict::equivalent ? 1 : 0;
    missed += row.verdict == FaultVerdict::missed ? 1 : 0;
    explained += row.is_explained ? 1 : 0;
    site += row.named.site ? 1 : 0;
    rank += row.named.rank ? 1 : 0;
    kind += row.named.kind ? 1 : 0;
  }
};

/// Returns a share of 1; it is 1 where there is nothing to share.
double share(std::int64_t part, std::int64_t all) {
  return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
}

ExitCode exit_code_of(const Exam& exam) {
  if (exam.count(FaultVerdict::missed) > 0 || !exam.false_alarms.empty()) return kFalsified;
  return exam.is_whole ? kVerified : kInterrupted;
}

std::string percent(std::int64_t part, std::int64_t all) {
  return fmt::format("{:.1f} %", 100 * share(part, all));
}

/// Returns a table of the rows that have the same name, in the order in which names come first.
std::string table_by(const char* title, const Exam& exam,
                     const std::function<std::string(const ExamRow&)>& name_of_row) {
  std::vector<std::string> names;
  std::map<std::string, ExamScore> scores;
  for (const ExamRow& row : exam.rows) {
    const std::string name = name_of_row(row);
    if (!scores.contains(name)) names.push_back(name);
    scores[name].add(row);
  }
  TextTable table(
      {title, ">caught", ">equivalent", ">missed", ">score", ">site named", ">rank named", ">kind named"});
  const auto cell = [](std::int64_t part, std::int64_t all) { return all == 0 ? "" : percent(part, all); };
  for (const std::string& name : names) {
    const ExamScore& score = scores[name];
    table.row(name, score.caught, score.equivalent, score.missed, cell(score.caught, score.judged()),
              cell(score.site, score.explained), cell(score.rank, score.explained),
              cell(score.kind, score.explained));
  }
  return table.text();
}

/// Returns the line that plants the fault of a row again.
std::string line_of(const ExamRequest& request, const ExamRow& row, const std::string& called) {
  return fmt::format("{} check{}", called,
                     command_line_of({{"case", row.the_case->name()},
                                      {"plant", row.fault.text},
                                      {"seed", fmt::format("{}", request.seed)}}));
}

std::string missed_text(const ExamRequest& request, const Exam& exam, const std::string& called) {
  std::string text;
  for (const ExamRow& row : exam.rows) {
    if (row.verdict != FaultVerdict::missed) continue;
    text += fmt::format("\nmissed: {} {}\n  with       {}\n  reproduce  {}\n", row.the_case->name(),
                        row.fault.text, text_of(row.setting), line_of(request, row, called));
  }
  for (const std::string& alarm : exam.false_alarms) text += fmt::format("\nfalse alarm: {}\n", alarm);
  return text;
}

Json as_json(const ExamRequest& request, const ExamRow& row, const std::string& called) {
  Json json = {{"case", row.the_case->name()},    {"fault", row.fault.text},
               {"verdict", name_of(row.verdict)}, {"by", row.by},
               {"sentence", row.sentence},        {"runs", row.runs}};
  if (row.verdict == FaultVerdict::missed) json["reproduce"] = line_of(request, row, called);
  if (row.verdict != FaultVerdict::equivalent) json["setting"] = text_of(row.setting);
  if (!row.is_explained) return json;
  json["why"] = row.explanation;
  json["site_right"] = row.named.site;
  json["rank_right"] = row.named.rank;
  json["kind_right"] = row.named.kind;
  return json;
}

/// Adds an outcome to the suite of this name, which is a new one if the last suite has another.
Outcome& outcome_in(std::vector<OutcomeSuite>& suites, const std::string& suite, const std::string& name) {
  if (suites.empty() || suites.back().name != suite) suites.push_back({.name = suite});
  suites.back().outcomes.push_back({.name = name});
  return suites.back().outcomes.back();
}

void set_failed(Outcome& outcome, const char* type, std::string message, const std::string& reproduce) {
  outcome.problem = "failure";
  outcome.type = type;
  outcome.message = std::move(message);
  outcome.text = fmt::format("{}\nreproduce: {}", outcome.message, reproduce);
}

/// Returns a suite for each case, with an outcome for each fault, and one for the runs without a fault.
std::vector<OutcomeSuite> suites_of(const ExamRequest& request, const Exam& exam, const std::string& called) {
  std::vector<OutcomeSuite> suites;
  for (const ExamRow& row : exam.rows) {
    Outcome& outcome = outcome_in(suites, row.the_case->name(), row.fault.text);
    if (row.verdict == FaultVerdict::missed)
      set_failed(outcome, "missed", "no property detects this fault", line_of(request, row, called));
  }
  Outcome& clean = outcome_in(suites, "runs without a fault", "no false alarm");
  if (!exam.false_alarms.empty())
    set_failed(clean, "false_alarm", fmt::format("{}", fmt::join(exam.false_alarms, "\n")),
               called + " check");
  return suites;
}

/// Writes the result as text, or as one JSON document.
void write_exam(const Call& call, const ExamRequest& request, const Exam& exam) {
  const char* verdict = verdict_name(exit_code_of(exam));
  ExamScore all;
  for (const ExamRow& row : exam.rows) all.add(row);
  if (asks_for_json(call.line)) {
    call.output.out << one_line({{"verdict", verdict},
                                 {"seed", request.seed},
                                 {"interrupted", !exam.is_whole},
                                 {"clean_runs", exam.clean_runs},
                                 {"false_alarms", exam.false_alarms},
                                 {"caught", all.caught},
                                 {"equivalent", all.equivalent},
                                 {"missed", all.missed},
                                 {"score", share(all.caught, all.judged())},
                                 {"explained", all.explained},
                                 {"site_right", share(all.site, all.explained)},
                                 {"rank_right", share(all.rank, all.explained)},
                                 {"kind_right", share(all.kind, all.explained)},
                                 {"rows", json_list(exam.rows, [&](const ExamRow& row) {
                                    return as_json(request, row, call.called);
                                  })}});
    return;
  }
  call.output.out << table_by("case", exam, [](const ExamRow& row) { return row.the_case->name(); }) << "\n"
                  << table_by("fault", exam, [](const ExamRow& row) { return info_of(row.fault.kind).name; })
                  << "\n"
                  << table_by("said first by", exam,
                              [](const ExamRow& row) { return row.by.empty() ? "nobody" : row.by; })
                  << missed_text(request, exam, call.called)
                  << fmt::format("\n{}: {} faults, {} caught, {} equivalent, {} missed; score {}; {}, {}\n",
                                 verdict, exam.rows.size(), all.caught, all.equivalent, all.missed,
                                 percent(all.caught, all.judged()), counted(exam.clean_runs, "clean run"),
                                 counted(std::ssize(exam.false_alarms), "false alarm"));
}

// ---- what became of the bugs of a catalogue: a table, and what was said where the expected property did not
// catch one; or the document

std::int64_t count_of(const std::vector<CatalogueRow>& rows, FaultVerdict verdict) {
  return std::ranges::count_if(rows, [&](const auto& row) { return row.verdict == verdict; });
}

ExitCode exit_code_of(const std::vector<CatalogueRow>& rows) {
  if (count_of(rows, FaultVerdict::unnamed) + count_of(rows, FaultVerdict::missed) > 0) return kFalsified;
  return count_of(rows, FaultVerdict::not_run) > 0 ? kInterrupted : kVerified;
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
  Json json = {{"bug", entry.bug},
               {"source", entry.source},
               {"file", entry.file},
               {"case", entry.the_case().name()},
               {"faults", json_list(entry.request.faults, [](const Fault& fault) { return fault.text; })},
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
  if (row.verdict == FaultVerdict::unnamed)
    text += fmt::format("  must name  {}\n  says       {}\n", entry.names, row.sentence);
  else
    text += fmt::format("  because    {}\n", row.sentence);
  if (row.failure) text += fmt::format("  with       {}\n", text_of(row.failure->setting));
  return text + fmt::format("  reproduce  {}\n", check_line(entry, called));
}

std::vector<OutcomeSuite> suites_of(const std::vector<CatalogueRow>& rows, const std::string& called) {
  std::vector<OutcomeSuite> suites;
  for (const CatalogueRow& row : rows) {
    Outcome& outcome = outcome_in(suites, row.entry->the_case().name(), row.entry->bug);
    if (row.verdict == FaultVerdict::unnamed || row.verdict == FaultVerdict::missed)
      set_failed(outcome, name_of(row.verdict), row.sentence, check_line(*row.entry, called));
    if (row.verdict == FaultVerdict::not_run) outcome.problem = "skipped";
  }
  return suites;
}

void write_catalogue(const Call& call, const std::vector<CatalogueRow>& rows) {
  const std::int64_t caught = count_of(rows, FaultVerdict::caught);
  const std::int64_t unnamed = count_of(rows, FaultVerdict::unnamed);
  const std::int64_t missed = count_of(rows, FaultVerdict::missed);
  const char* verdict = verdict_name(exit_code_of(rows));
  if (asks_for_json(call.line)) {
    const auto row_json = [&](const CatalogueRow& row) { return json_of(row, call.called); };
    call.output.out << one_line({{"verdict", verdict},
                                 {"seed", rows.front().entry->request.seed},
                                 {"interrupted", count_of(rows, FaultVerdict::not_run) > 0},
                                 {"caught", caught},
                                 {"unnamed", unnamed},
                                 {"missed", missed},
                                 {"rows", json_list(rows, row_json)}});
    return;
  }
  TextTable table({"bug", "source", "fault", "property", ">runs", "verdict"});
  std::string failed;
  for (const CatalogueRow& row : rows) {
    table.row(row.entry->bug, row.entry->source, row.entry->faults_text(), row.entry->property().name,
              row.runs, name_of(row.verdict));
    const bool has_failed = row.verdict == FaultVerdict::unnamed || row.verdict == FaultVerdict::missed;
    if (has_failed) failed += text_of_failed(row, call.called);
  }
  call.output.out << table.text() << failed
                  << fmt::format("\n{}: {}, {} caught by the expected property, {} unnamed, {} missed\n",
                                 verdict, counted(std::ssize(rows), "bug"), caught, unnamed, missed);
}

/// The command exam with --catalogue, for the bugs of these files, which are planted in `cases`.
int exam_catalogue(const Call& call, const CaseList& cases, const std::vector<std::string>& files) {
  const CaseOptions options = case_options(call.line.settings);
  const std::vector<CatalogueEntry> entries = read_catalogue(files, options, cases);
  std::vector<Bench> benches(benches_for(options.threads));
  const JUnitFile junit(call.line);
  InterruptibleWork work(call.output, "bugs");
  const std::vector<CatalogueRow> rows = run_catalogue(entries, benches, std::ref(work));
  work.end();
  const std::vector<OutcomeSuite> suites = suites_of(rows, call.called);
  junit.write(suites);
  write_catalogue(call, rows);
  write_annotations(call.line, suites, call.output.out);
  return exit_code_of(rows);
}

// ---- how small an error the properties see, as a table or as the document

std::string text_of_bits(const std::optional<int>& bits, sim::DType dtype) {
  if (!bits) return "";
  const bool is_any = dtype == sim::DType::field && *bits == kMostBitsOfPower;
  return is_any ? "any" : fmt::format("{}", *bits);
}

void write_power(const Call& call, const CampaignRequest& request, const Power& power) {
  const char* verdict = power.is_whole ? "verified" : "interrupted";
  if (asks_for_json(call.line)) {
    Json rows = Json::array();
    for (const PowerRow& row : power.rows) {
      Json json = {{"case", row.the_case->name()}, {"site", row.site}, {"property", row.property->name}};
      for (std::size_t i = 0; i < row.bits.size(); ++i) json[sim::name_of(kDTypesOfPower[i])] = row.bits[i];
      rows.push_back(std::move(json));
    }
    call.output.out << one_line({{"verdict", verdict},
                                 {"seed", request.seed},
                                 {"interrupted", !power.is_whole},
                                 {"most_bits", kMostBitsOfPower},
                                 {"rows", std::move(rows)}});
    return;
  }
  std::vector<std::string> columns = {"case", "site", "property"};
  for (const sim::DType dtype : kDTypesOfPower) columns.push_back(fmt::format(">{}", sim::name_of(dtype)));
  TextTable table(std::move(columns));
  for (const PowerRow& row : power.rows) {
    std::vector<std::string> cells = {row.the_case->name(), row.site, row.property->name};
    for (std::size_t i = 0; i < row.bits.size(); ++i)
      cells.push_back(text_of_bits(row.bits[i], kDTypesOfPower[i]));
    table.add(std::move(cells));
  }
  call.output.out
      << table.text()
      << fmt::format("\n{}: the largest k at which a factor of 1 + 2^-k is caught, up to {}; {}, seed {}\n",
                     verdict, kMostBitsOfPower, counted(std::ssize(power.rows), "row"), request.seed);
}

/// The command exam with --power, for these cases.
int exam_power(const Call& call, const CaseList& cases) {
  const CaseOptions options = case_options(call.line.settings);
  const CampaignRequest request = requested_campaign(options, cases);
  std::vector<Bench> benches(benches_for(options.threads));
  InterruptibleWork work(call.output, "sites");
  const Power power = power_of(request, benches, std::ref(work));
  work.end();
  write_power(call, request, power);
  return power.is_whole ? kVerified : kInterrupted;
}

// ---- the command

void require_fault_names(const std::vector<std::string>& names) {
  const std::vector<std::string> known = names_of(fault_table());
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    refuse_by("unknown_fault", "--fault", name, fmt::join(known, ", "),
              nearest.empty() ? "shardproof list" : "--fault " + nearest);
  }
}

}  // namespace

int exam_cases(const Call& call, const CaseList& cases, const std::vector<std::string>& catalogue) {
  const CommandLine& line = call.line;
  const CaseOptions options = case_options(line.settings);
  require_fault_names(options.faults);
  const bool asks_for_power = line.settings.flag("power"), asks_for_bugs = line.settings.flag("catalogue");
  if (!line.program.empty())
    refuse_by("option_without_effect", "--", call.called + " exam", call.called + " exam without a program");
  if (asks_for_power && line.settings.has("junit")) refuse_without_effect("junit", "exam --power");
  if (asks_for_power && (asks_for_bugs || !options.faults.empty()))
    refuse_by("option_without_effect/power", asks_for_bugs ? "--catalogue" : "--fault");
  if (asks_for_bugs) return exam_catalogue(call, cases, line.scenarios.empty() ? catalogue : line.scenarios);
  if (!line.scenarios.empty()) refuse_by("one_scenario/exam", line.scenarios[0], call.called);
  if (asks_for_power) return exam_power(call, cases);
  const CampaignRequest campaign = requested_campaign(options, cases);
  const ExamRequest request{.cases = campaign.cases,
                            .faults = options.faults,
                            .seed = campaign.seed,
                            .max_world = campaign.max_world};
  std::vector<Bench> benches(benches_for(options.threads));
  const JUnitFile junit(line);
  InterruptibleWork work(call.output, "faults");
  const Exam exam = run_exam(request, benches, std::ref(work));
  work.end();
  const std::vector<OutcomeSuite> suites = suites_of(request, exam, call.called);
  junit.write(suites);
  write_exam(call, request, exam);
  write_annotations(line, suites, call.output.out);
  return exit_code_of(exam);
}

int run_exam(const Call& call) {
  if (!call.line.program.empty()) {
    require_fault_names(call.line.settings.texts("fault"));
    return exam_program(call);
  }
  require_read_by(call.line.settings, Reader::exam, "exam");
  return exam_cases(call, all_cases(), catalogue_files());
}

}  // namespace verify
