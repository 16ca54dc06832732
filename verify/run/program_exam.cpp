#include "verify/run/program_exam.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "verify/faults/planned_faults.h"
#include "verify/output/output.h"
#include "verify/run/compared_report.h"

namespace verify {

namespace {

struct PlannedRun {
  std::size_t layout;
  Fault fault;
};

using PublishedByRank = std::vector<std::vector<sim::Published>>;

/// Returns the sites of a run, by name.
std::map<std::string, CallsOfSite> sites_of(const sim::RunReport& report) {
  std::map<std::string, CallsOfSite> sites;
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      const int members = call.group->size();
      if (members == 1) continue;  // no call there has a fault
      CallsOfSite& site = sites[call.site.name];
      site.add(call);
      site.sizes.insert(fmt::format("{}", members));
      if (std::cmp_less(members, report.ranks.size())) site.other_groups.insert("world");
    }
  }
  return sites;
}

std::int64_t most_calls(const sim::RunReport& report) {
  std::size_t most = 0;
  for (const sim::RankReport& rank : report.ranks) most = std::max(most, rank.calls.size());
  return static_cast<std::int64_t>(most);
}

bool has_published(const sim::RunReport& report, const PublishedByRank& published) {
  return std::ranges::equal(report.ranks, published, {}, &sim::RankReport::published);
}

bool is_of_program(const sim::Finding& finding) {
  return finding.code == "guest_raised" || finding.code == "guest_gone" || finding.code == "rank_exit";
}

std::string text_of_wrong(const ComparedValues& compared) {
  if (!compared.incomparable.empty()) return compared.incomparable;
  return compared.wrong.empty() ? "no value is compared" : wrong_sentence(compared.wrong.front());
}

/// Returns the requests of a command line: one for each layout, or one for the program as it is.
LayoutsRequest requests_of(const CommandLine& line, const std::string& called, bool compares) {
  if (compares) return layouts_request_of(line, called);
  const LayoutRequest one = {kTheProgram, {}, guest_request_of(line, called)};
  return {.reference = one, .layouts = {one}};
}

/// Says which run is next, and judges the one before.
class Examiner {
 public:
  Examiner(const ProgramExamRequest& request, const ProgramExamGoesOn& goes_on, ProgramExam& exam)
      : request_(request), goes_on_(goes_on), exam_(exam) {}

  const LayoutRequest* next(LayoutRun* latest) {
    if (latest != nullptr) planted_ ? judge(*latest) : learn(*latest);
    const std::size_t layouts = request_.healthy.layouts.size();
    if (!exam_.holds) return nullptr;
    if (published_.size() < layouts) return healthy();
    if (!planted_) choose();
    if (exam_.rows.size() == planned_.size()) return nullptr;
    const PlannedRun& now = planned_[exam_.rows.size()];
    const std::string what = request_.healthy.layouts[now.layout].name + " " + now.fault.text;
    exam_.is_whole = goes_on_(exam_.rows.size(), planned_.size(), what);
    if (!exam_.is_whole) return nullptr;
    planted_ = request_with(now);
    return &*planted_;
  }
  /// Returns the next layout without a fault.
  const LayoutRequest* healthy() {
    const LayoutRequest& one = request_.healthy.layouts[published_.size()];
    exam_.is_whole = goes_on_(published_.size(), request_.healthy.layouts.size(), one.name);
    return exam_.is_whole ? &one : nullptr;
  }
  bool plants() const { return planted_.has_value(); }

 private:
  /// Takes a run without a fault: its values, and the faults that its calls can have.
  void learn(LayoutRun& healthy) {
    exam_.holds = healthy.run.is_clean() && (!request_.compares || healthy.compared.holds());
    most_calls_.push_back(most_calls(healthy.run.report));
    for (const auto& [name, calls] : sites_of(healthy.run.report)) {
      for (Fault& fault : planned_faults(name, calls)) {
        const auto& chosen = request_.faults;
        const bool is_chosen =
            chosen.empty() || std::ranges::find(chosen, info_of(fault.kind).name) != chosen.end();
        if (is_chosen && fault.kind != FaultKind::early)
          planned_.push_back({published_.size(), std::move(fault)});
      }
    }
    PublishedByRank& published = published_.emplace_back();
    for (sim::RankReport& rank : healthy.run.report.ranks) published.push_back(std::move(rank.published));
  }

  /// Leaves as many faults as are asked for.
  void choose() {
    exam_.planned = planned_.size();
    const auto most = static_cast<std::size_t>(request_.most.value_or(std::ssize(planned_)));
    if (most >= planned_.size()) return;
    std::vector<PlannedRun> chosen;
    for (std::size_t i = 0; i < most; ++i) chosen.push_back(planned_[i * planned_.size() / most]);
    planned_ = std::move(chosen);
  }

  LayoutRequest request_with(const PlannedRun& now) const {
    CommandLine line = request_.line;
    line.settings.append("plant", {now.fault.text});
    LayoutRequest one = requests_of(line, request_.called, request_.compares).layouts[now.layout];
    one.request.world.call_limit = 4 * most_calls_[now.layout] + 1000;
    return one;
  }

  void judge(LayoutRun& one) {
    const PlannedRun& now = planned_[exam_.rows.size()];
    ProgramExamRow row = {.layout = one.name,
                          .site = now.fault.site,
                          .fault = now.fault.text,
                          .sentence = {},
                          .reproduce = planted_->request.world.reproduce};
    const sim::RunReport& report = one.run.report;
    if (!one.run.unmet_faults.empty()) {
      row.by = NoticedBy::unmet;
    } else if (!report.ok()) {
      row.by = is_of_program(report.findings.front()) ? NoticedBy::program : NoticedBy::calls;
      row.sentence = fmt::format("{}: {}", report.findings.front().code, report.findings.front().sentence);
    } else if (request_.compares && !one.compared.holds()) {
      row.by = NoticedBy::comparison;
      row.sentence = text_of_wrong(one.compared);
    } else {
      const bool is_same = request_.compares && has_published(report, published_[now.layout]);
      row.by = is_same ? NoticedBy::without_effect : NoticedBy::missed;
    }
    exam_.rows.push_back(std::move(row));
    one = {.name = one.name, .run = {}, .compared = {}};  // its calls take memory
  }

  const ProgramExamRequest& request_;
  const ProgramExamGoesOn& goes_on_;
  ProgramExam& exam_;
  std::vector<PublishedByRank> published_;  // of the layouts that have run without a fault
  std::vector<std::int64_t> most_calls_;    // that a rank of these made
  std::vector<PlannedRun> planned_;
  std::optional<LayoutRequest> planted_;  // the run with a fault that is made
};

}  // namespace

std::int64_t ProgramExam::count(NoticedBy by) const {
  return std::ranges::count(rows, by, &ProgramExamRow::by);
}

std::int64_t ProgramExam::noticed() const {
  return count(NoticedBy::program) + count(NoticedBy::calls) + count(NoticedBy::comparison);
}

int ProgramExam::exit_code() const {
  if (!is_whole && rows.empty()) return kInterrupted;
  if (!holds) return healthy.exit_code();
  if (is_whole && judged() == 0) return kUnavailable;
  if (count(NoticedBy::missed) > 0) return kFalsified;
  return is_whole ? kVerified : kInterrupted;
}

ProgramExamRequest program_exam_request_of(const CommandLine& line, const std::string& called) {
  const bool compares = asks_for_layouts(line);
  CommandLine as_run = line;
  for (const char* own : {"fault", "most-faults"}) as_run.settings.remove(own);
  return {.line = as_run,
          .called = called,
          .faults = line.settings.texts("fault"),
          .most = line.settings.number("most-faults"),
          .compares = compares,
          .healthy = requests_of(as_run, called, compares)};
}

ProgramExam run_program_exam(const ProgramExamRequest& request, const ProgramExamGoesOn& goes_on,
                             const PrintOfRun& print) {
  ProgramExam exam;
  Examiner examiner(request, goes_on, exam);
  const PrintOfRun print_healthy = [&](const std::string& run, const GuestLine& line) {
    if (!examiner.plants()) print(run, line);
  };
  const NextLayout next = [&](LayoutRun* latest) { return examiner.next(latest); };
  sim::GuestRecord record;
  GuestStart start;
  if (request.compares) {
    exam.healthy = run_layouts(start, request.healthy, next, print_healthy, record);
    exam.holds = exam.holds && (!exam.is_whole || !exam.healthy.layouts.empty());
    return exam;
  }
  for (LayoutRun* latest = nullptr; const LayoutRequest* each = next(latest);) {
    sim::GuestRecord own;
    GuestRun run = run_guests(
        start, each->request, [&](const GuestLine& line) { print_healthy(each->name, line); }, own);
    latest = &exam.healthy.layouts.emplace_back(
        LayoutRun{.name = each->name, .run = std::move(run), .compared = {}});
  }
  return exam;
}

}  // namespace verify
