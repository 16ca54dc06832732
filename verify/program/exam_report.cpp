#include "verify/program/exam_report.h"

#include <fmt/format.h>
#include <functional>
#include <utility>
#include <vector>

#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/requests/case_options.h"

namespace verify {

namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
/// Returns a share for a table, which leaves out those of nothing.
std::string percent_of(std::int64_t all, double share) { return all == 0 ? "" : percent(share); }

ExamScore score_of(const Exam& exam) {
  ExamScore all;
  for (const ExamRow& row : exam.rows) all.add(row);
  return all;
}

/// Returns a table of the rows that have the same name, in the order in which names come first.
std::string table_by(const char* title, const Exam& exam,
                     const std::function<std::string(const ExamRow&)>& name_of_row) {
  std::vector<std::pair<std::string, ExamScore>> scores;
  const auto add = [&](const ExamRow& row) {
    const std::string name = name_of_row(row);
    for (auto& [known, score] : scores) {
      if (known == name) return score.add(row);
    }
    scores.emplace_back(name, ExamScore{}).second.add(row);
  };
  for (const ExamRow& row : exam.rows) add(row);
  TextTable table({{title},
                   {"caught", Align::right},
                   {"equivalent", Align::right},
                   {"missed", Align::right},
                   {"score", Align::right},
                   {"site named", Align::right},
                   {"rank named", Align::right},
                   {"kind named", Align::right}});
  for (const auto& [name, score] : scores) {
    table.add({name, fmt::format("{}", score.caught), fmt::format("{}", score.equivalent),
               fmt::format("{}", score.missed), percent_of(score.caught + score.missed, score.score()),
               percent_of(score.explained, score.share(score.site_right)),
               percent_of(score.explained, score.share(score.rank_right)),
               percent_of(score.explained, score.share(score.kind_right))});
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
    if (row.verdict != ExamVerdict::missed) continue;
    text += fmt::format("\nmissed: {} {}\n  with       {}\n  reproduce  {}\n", row.the_case->name(),
                        row.fault.text, text_of(row.setting), line_of(request, row, called));
  }
  for (const std::string& alarm : exam.false_alarms) text += fmt::format("\nfalse alarm: {}\n", alarm);
  return text;
}

const char* verdict_name(const Exam& exam) {
  if (exit_code_of(exam) == kFalsified) return "falsified";
  return exam.is_whole ? "verified" : "interrupted";
}

Json as_json(const ExamRequest& request, const ExamRow& row, const std::string& called) {
  Json json = {{"case", row.the_case->name()},    {"fault", row.fault.text},
               {"verdict", name_of(row.verdict)}, {"by", row.by},
               {"sentence", row.sentence},        {"runs", row.runs}};
  if (row.verdict == ExamVerdict::missed) json["reproduce"] = line_of(request, row, called);
  if (row.verdict != ExamVerdict::equivalent) json["setting"] = text_of(row.setting);
  if (!row.is_explained) return json;
  json["why"] = row.explanation;
  json["site_right"] = row.named.site;
  json["rank_right"] = row.named.rank;
  json["kind_right"] = row.named.kind;
  return json;
}

}  // namespace

void ExamScore::add(const ExamRow& row) {
  caught += row.verdict == ExamVerdict::caught ? 1 : 0;
  equivalent += row.verdict == ExamVerdict::equivalent ? 1 : 0;
  missed += row.verdict == ExamVerdict::missed ? 1 : 0;
  explained += row.is_explained ? 1 : 0;
  site_right += row.named.site ? 1 : 0;
  rank_right += row.named.rank ? 1 : 0;
  kind_right += row.named.kind ? 1 : 0;
}

double ExamScore::score() const {
  return caught + missed == 0 ? 1 : static_cast<double>(caught) / static_cast<double>(caught + missed);
}

double ExamScore::share(std::int64_t right) const {
  return explained == 0 ? 1 : static_cast<double>(right) / static_cast<double>(explained);
}

ExitCode exit_code_of(const Exam& exam) {
  if (exam.count(ExamVerdict::missed) > 0 || !exam.false_alarms.empty()) return kFalsified;
  return exam.is_whole ? kVerified : kInterrupted;
}

void write_exam(const ExamRequest& request, const Exam& exam, bool as_json_text, const std::string& called,
                const Output& output) {
  const ExamScore all = score_of(exam);
  if (as_json_text) {
    Json rows = Json::array();
    for (const ExamRow& row : exam.rows) rows.push_back(as_json(request, row, called));
    output.out << one_line({{"verdict", verdict_name(exam)},
                            {"seed", request.seed},
                            {"interrupted", !exam.is_whole},
                            {"clean_runs", exam.clean_runs},
                            {"false_alarms", exam.false_alarms},
                            {"caught", all.caught},
                            {"equivalent", all.equivalent},
                            {"missed", all.missed},
                            {"score", all.score()},
                            {"explained", all.explained},
                            {"site_right", all.share(all.site_right)},
                            {"rank_right", all.share(all.rank_right)},
                            {"kind_right", all.share(all.kind_right)},
                            {"rows", std::move(rows)}});
    return;
  }
  output.out << table_by("case", exam, [](const ExamRow& row) { return row.the_case->name(); }) << "\n"
             << table_by("fault", exam,
                         [](const ExamRow& row) { return std::string(info_of(row.fault.kind).name); })
             << "\n"
             << table_by("said first by", exam,
                         [](const ExamRow& row) { return row.by.empty() ? std::string("nobody") : row.by; })
             << missed_text(request, exam, called)
             << fmt::format("\n{}: {} faults, {} caught, {} equivalent, {} missed; score {}; {}, {}\n",
                            verdict_name(exam), exam.rows.size(), all.caught, all.equivalent, all.missed,
                            percent(all.score()), counted(exam.clean_runs, "clean run"),
                            counted(std::ssize(exam.false_alarms), "false alarm"));
}

}  // namespace verify
