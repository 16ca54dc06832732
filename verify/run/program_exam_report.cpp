#include "verify/run/program_exam_report.h"

#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>
#include <vector>

#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/run/guest_report.h"
#include "verify/run/layouts_report.h"

namespace verify {

namespace {

constexpr std::array kNoticed = {NoticedBy::program, NoticedBy::calls, NoticedBy::comparison};

const char* name_of(NoticedBy by) {
  constexpr const char* kNames[] = {"program", "calls", "comparison", "without effect", "missed", "unmet"};
  return kNames[static_cast<std::size_t>(by)];
}

std::string verdict_of(const ProgramExam& exam) {
  if (exam.exit_code() == kUnavailable) return "nothing examined";
  return verdict_name(static_cast<ExitCode>(exam.exit_code()));
}

/// Returns "41 of 44 faults are noticed: 12 by the calls, 29 by the comparison; 5 without effect".
std::string score_text(const ProgramExam& exam) {
  std::string text =
      fmt::format("{} of {} faults are noticed", exam.noticed(), grouped_digits(exam.judged()));
  const char* mark = ": ";
  for (const NoticedBy by : kNoticed) {
    if (exam.count(by) == 0) continue;
    text += fmt::format("{}{} by the {}", std::exchange(mark, ", "), exam.count(by), name_of(by));
  }
  if (const std::int64_t same = exam.count(NoticedBy::without_effect); same > 0)
    text += fmt::format("; {} without effect", same);
  if (const std::int64_t unmet = exam.count(NoticedBy::unmet); unmet > 0)
    text += fmt::format("; no call has {}", unmet);
  return text;
}

std::string table_of_sites(const ProgramExam& exam) {
  std::vector<std::pair<std::string, std::string>> sites;  // in the order in which they come first
  std::map<std::pair<std::string, std::string>, std::map<NoticedBy, std::int64_t>> counts;
  for (const ProgramExamRow& row : exam.rows) {
    const std::pair site(row.layout, row.site);
    if (!counts.contains(site)) sites.push_back(site);
    ++counts[site][row.by];
  }
  TextTable table({"layout", "function", ">program", ">calls", ">comparison", ">without effect", ">missed"});
  for (const auto& site : sites) {
    auto& of = counts[site];
    table.row(site.first, site.second, of[NoticedBy::program], of[NoticedBy::calls],
              of[NoticedBy::comparison], of[NoticedBy::without_effect], of[NoticedBy::missed]);
  }
  return table.text("  ");
}

std::string missed_text(const ProgramExam& exam) {
  std::string text;
  for (const ProgramExamRow& row : exam.rows) {
    if (row.by == NoticedBy::missed)
      text += fmt::format("\nmissed: {} {}\n  reproduce  {}\n", row.layout, row.fault, row.reproduce);
  }
  return text;
}

/// Names the faults without effect.
std::string without_effect_text(const ProgramExam& exam) {
  std::vector<std::string> faults;
  for (const ProgramExamRow& row : exam.rows)
    if (row.by == NoticedBy::without_effect) faults.push_back(row.layout + " " + row.fault);
  return faults.empty() ? "" : fmt::format("\nwithout effect: {}\n", fmt::join(faults, "; "));
}

/// Says what was not planted, and what the verdict is about.
std::string bound(const ProgramExamRequest& request, const ProgramExam& exam) {
  std::string text;
  if (exam.rows.size() < exam.planned)
    text += fmt::format("\nplanted    {} of {} faults{}\n", exam.rows.size(), exam.planned,
                        exam.is_whole ? " (--most-faults)" : ", because an interrupt came");
  if (!request.compares)
    return text +
           "\ncompared   no values, so only the program and its calls notice a fault; --layouts or "
           "--against compares\n";
  return text + fmt::format(
                    "\ncompared   values of {} with those of the reference. A fault without effect leaves\n"
                    "           all of them the same, bit for bit\n",
                    counted(exam.healthy.steps, "step"));
}

}  // namespace

std::string program_exam_text(const ProgramExamRequest& request, const ProgramExam& exam) {
  if (!exam.holds) {
    const std::string said = request.compares ? layouts_text(request.healthy, exam.healthy)
                                              : guest_run_text(request.healthy.layouts.front().request,
                                                               exam.healthy.layouts.front().run);
    return "no fault is planted, because the program does not hold without one\n\n" + said;
  }
  if (!exam.is_whole && exam.rows.empty()) return "interrupted: no fault was planted\n";
  if (exam.planned == 0)
    return verdict_of(exam) + ": no call in a group of several ranks can have one of these faults\n";
  return fmt::format("{}: {}\n\n{}{}{}{}", verdict_of(exam), score_text(exam), table_of_sites(exam),
                     missed_text(exam), without_effect_text(exam), bound(request, exam));
}

Json program_exam_json(const ProgramExamRequest& request, const ProgramExam& exam) {
  if (!exam.holds)
    return request.compares
               ? layouts_json(request.healthy, exam.healthy)
               : guest_run_json(request.healthy.layouts.front().request, exam.healthy.layouts.front().run);
  Json document = {{"verdict", verdict_of(exam)},
                   {"program", text_of(request.line.program)},
                   {"interrupted", !exam.is_whole},
                   {"compares", request.compares},
                   {"faults", exam.planned},
                   {"planted", exam.rows.size()},
                   {"score", nullptr},
                   {"noticed", Json::object()},
                   {"without_effect", exam.count(NoticedBy::without_effect)},
                   {"missed", exam.count(NoticedBy::missed)},
                   {"unmet", exam.count(NoticedBy::unmet)},
                   {"rows", Json::array()}};
  if (exam.judged() > 0)
    document["score"] = static_cast<double>(exam.noticed()) / static_cast<double>(exam.judged());
  for (const NoticedBy by : kNoticed) document["noticed"][name_of(by)] = exam.count(by);
  for (const ProgramExamRow& row : exam.rows)
    document["rows"].push_back({{"layout", row.layout},
                                {"site", row.site},
                                {"fault", row.fault},
                                {"by", name_of(row.by)},
                                {"sentence", row.sentence},
                                {"reproduce", row.reproduce}});
  return document;
}

}  // namespace verify
