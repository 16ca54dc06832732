#include "verify/exam/exam.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/layout/kind_table.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/explain/explanation.h"
#include "verify/faults/faulty_device.h"
#include "verify/faults/planned_faults.h"
#include "verify/output/table_rows.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

/// The words by which a text names a kind of fault.
std::vector<std::string> words_of(const Fault& fault) {
  if (fault.kind == FaultKind::wrong_group) return {" over " + fault.group};
  std::vector<std::string> words;
  if (fault.kind == FaultKind::op) words.push_back("(" + std::string(sim::name_of(fault.reduce_op)) + ")");
  static const std::vector<TextRow> rows = rows_of_table(
#include "words_of_faults.tsv.inc"
  );
  for (const TextRow& row : rows) {
    const std::vector<std::string> faults = words_of_cell(row.at(1));
    if (std::ranges::find(faults, info_of(fault.kind).name) != faults.end()) words.push_back(row.at(0));
  }
  return words;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- what an exam plants
//
// The faults that an exam plants in a case: at every site that the case reaches, every fault that has a
// meaning there, and in every kernel of the device that the case calls.
//
// Shapes  A case is run in some drawn settings, in the field. Faults of calls are those of planned_faults.h.
//         Another group is one of other ranks, if there is one.
// Exact   a plan is a function of the case, the seed and the largest world.

/// A fault, and the drawn settings in which the case reaches its site.
struct PlannedFault {
  std::string text;
  std::vector<std::size_t> settings;  // places in ExamPlan::settings, those of the least work first
};

struct ExamPlan {
  const Case* the_case;
  std::vector<CaseSetting> settings;
  std::vector<std::uint64_t> hashes;      // of the clean run at each setting
  std::vector<std::int64_t> work;         // of that run: its calls and published tensors
  std::vector<PlannedFault> faults;       // those of a site together
  std::vector<std::string> false_alarms;  // what was said of clean runs; it should be empty
};

/// The settings that a case is run in. A site that is reached in few of them has faults in these few.
constexpr int kSettings = 24;
/// The settings that a fault is planted in.
constexpr std::size_t kSettingsOfFault = 8;

/// The calls of a site, and where they are made.
struct SiteCalls {
  CallsOfSite calls;
  std::set<std::string> groups;  // the kinds that the calls go over
  std::vector<std::size_t> settings;
};

void add_groups(SiteCalls& site, const sim::Layout& layout, const std::string& kind) {
  constexpr std::array kKinds = {"tp", "cp", "dp", "pp", "ep"};
  const sim::GroupKind* own = layout.find(kind);
  for (const char* name : kKinds) {
    const sim::GroupKind* other = layout.find(name);
    if (other == nullptr || other->size() == 1 || name == kind) continue;
    if (own == nullptr || !own->same_groups(*other)) site.calls.other_groups.insert(name);
  }
}

void add_calls(std::map<std::string, SiteCalls>& sites, const sim::RunReport& run, const sim::Layout& layout,
               std::size_t setting) {
  for (const sim::RankReport& rank : run.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (call.group->size() == 1) continue;
      SiteCalls& site = sites[call.site.name];
      site.calls.add(call);
      // A group that the program has made is of no kind that a factor may name.
      if (sim::find_kind(call.group->kind) != nullptr) site.calls.sizes.insert(call.group->kind);
      if (site.groups.insert(call.group->kind).second || site.settings.empty() ||
          site.settings.back() != setting)
        add_groups(site, layout, call.group->kind);
      if (site.settings.empty() || site.settings.back() != setting) site.settings.push_back(setting);
    }
  }
}

/// The work of a run, by which settings are ordered: its calls and published tensors.
std::int64_t work_of(const sim::RunReport& run) {
  std::int64_t work = 0;
  for (const sim::RankReport& rank : run.ranks) work += std::ssize(rank.calls) + std::ssize(rank.published);
  return work;
}

/// Returns the first settings in which a site is reached, those of the least work first.
std::vector<std::size_t> settings_of_fault(const ExamPlan& plan, std::vector<std::size_t> settings) {
  settings.resize(std::min(settings.size(), kSettingsOfFault));
  std::ranges::stable_sort(settings,
                           [&](std::size_t a, std::size_t b) { return plan.work[a] < plan.work[b]; });
  return settings;
}

void plan_faults_of_calls(ExamPlan& plan, const std::string& name, SiteCalls& site) {
  const std::vector<std::size_t> settings = settings_of_fault(plan, site.settings);
  if (site.calls.other_groups.empty())
    site.calls.other_groups.insert(site.groups.contains("tp") ? "dp" : "tp");  // a group of one rank
  for (const Fault& fault : planned_faults(name, site.calls)) plan.faults.push_back({fault.text, settings});
}

/// Returns the settings in which a case calls each kernel. One run of a setting tells it of all kernels: each
/// has a fault that is met and shifts by no element.
std::vector<std::vector<std::size_t>> settings_by_kernel(const ExamPlan& plan, Bench& bench) {
  std::vector<std::vector<std::size_t>> settings(kernel_names().size());
  for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
    std::vector<Fault> faults;
    for (const std::string& kernel : kernel_names()) {
      faults.push_back(parsed_fault(kernel + ":offset=1"));
      faults.back().elements = 0;
    }
    bench.plant(faults);
    bench.run(*plan.the_case, plan.settings[setting]);
    for (std::size_t kernel = 0; kernel < faults.size(); ++kernel) {
      if (*faults[kernel].met > 0) settings[kernel].push_back(setting);
    }
  }
  bench.plant({});
  return settings;
}

void plan_faults_of_kernels(ExamPlan& plan, Bench& bench) {
  const std::vector<std::vector<std::size_t>> by_kernel = settings_by_kernel(plan, bench);
  for (std::size_t kernel = 0; kernel < by_kernel.size(); ++kernel) {
    if (by_kernel[kernel].empty()) continue;
    const std::vector<std::size_t> settings = settings_of_fault(plan, by_kernel[kernel]);
    for (const char* fault : {"zero", "zero@rank=1", "offset=1", "transpose", "drop-accumulate"})
      plan.faults.push_back({fmt::format("{}:{}", kernel_names()[kernel], fault), settings});
  }
}

/// Judges a run without faults, as the runs with faults are judged.
void judge_clean(ExamPlan& plan, const CaseSetting& setting, Bench& bench) {
  for (const Property& property : all_properties()) {
    if (!property.judges(*plan.the_case, setting.dtype)) continue;
    const Judgement judgement = property.judge(bench, *plan.the_case, setting);
    if (!judgement.holds)
      plan.false_alarms.push_back(
          fmt::format("{} {}: {}", plan.the_case->name(), property.name, judgement.detail));
  }
}

/// Runs the case without faults, judges these runs by every property, and plans its faults.
ExamPlan exam_plan(const Case& the_case, std::uint64_t seed, int max_world, Bench& bench) {
  ExamPlan plan{
      .the_case = &the_case, .settings = {}, .hashes = {}, .work = {}, .faults = {}, .false_alarms = {}};
  std::map<std::string, SiteCalls> sites;
  DrawnSettings drawn(the_case, "exam", {sim::DType::field}, seed, max_world);
  bench.plant({});
  while (plan.settings.size() < kSettings) {
    const CaseSetting setting = drawn.next();
    if (setting.group_size * setting.replicas == 1) continue;  // no call has a fault
    const sim::Layout& layout = bench.world_of(the_case, setting).layout;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
    add_calls(sites, *run, layout, plan.settings.size());
    plan.settings.push_back(setting);
    plan.hashes.push_back(run->run_hash);
    plan.work.push_back(work_of(*run));
    judge_clean(plan, setting, bench);
  }
  for (auto& [name, site] : sites) plan_faults_of_calls(plan, name, site);
  plan_faults_of_kernels(plan, bench);
  return plan;
}

// ---- exam

/// The settings of which references are kept: those of a plan, in the field and two dtypes, with and without
/// special values.
constexpr std::size_t kKept = 160;

/// A failure of a training takes long to explain, so only one planned fault in so many is explained.
constexpr std::size_t kTrainingsPerExplained = 10;

bool is_chosen(const std::vector<std::string>& chosen, const Fault& fault) {
  return chosen.empty() || std::ranges::find(chosen, info_of(fault.kind).name) != chosen.end();
}

class Candidate {
 public:
  Candidate(const ExamPlan& plan, const PlannedFault& planned, bool explains, Bench& bench)
      : plan_(plan), planned_(planned), explains_(explains), bench_(bench) {}

  ExamRow judged() {
    row_.the_case = plan_.the_case;
    row_.fault = parsed_fault(planned_.text);
    bool differs = false;
    for (const std::size_t setting : planned_.settings) {
      if (!has_effect(setting)) continue;
      if (!differs) row_.setting = setting_;
      differs = true;
      if (!is_caught() && !is_caught_in_floats()) continue;
      row_.verdict = FaultVerdict::caught;
      return row_;
    }
    row_.verdict = differs ? FaultVerdict::missed : FaultVerdict::equivalent;
    row_.sentence =
        differs ? "no property of the case says anything" : why_equivalent(row_.fault, *row_.fault.met);
    return row_;
  }

 private:
  bool is_of_floats() const { return info_of(row_.fault.kind).needs_floats; }

  /// Plants the fault, and compares the run with the one without it.
  bool has_effect(std::size_t setting) {
    setting_ = plan_.settings[setting];
    std::uint64_t clean = plan_.hashes[setting];
    if (is_of_floats()) {
      setting_.dtype = sim::DType::f32;
      bench_.plant({});
      clean = bench_.run(*plan_.the_case, setting_)->run_hash;
    }
    bench_.plant({row_.fault});
    ++row_.runs;
    return bench_.run(*plan_.the_case, setting_)->run_hash != clean;
  }

  bool is_caught() {
    for (const Property& property : all_properties()) {
      if (!property.judges(*plan_.the_case, setting_.dtype)) continue;
      const std::optional<Judgement> judgement = judged_by(property);
      if (judgement && judgement->holds) continue;
      row_.setting = setting_;
      if (judgement) {
        row_.by = judgement->finding ? judgement->finding->code : property.name;
        row_.sentence = judgement->detail;
        explain(property, *judgement);
      } else {
        row_.by = "threw";
      }
      return true;
    }
    return false;
  }

  /// What the field lets pass, as the sum of one term and zeros in place of their maximum, floats may not.
  bool is_caught_in_floats() {
    if (is_of_floats()) return false;
    for (const sim::DType dtype : {sim::DType::f64, sim::DType::f32}) {
      setting_.dtype = dtype;
      if (is_caught()) return true;
    }
    return false;
  }

  /// Returns no judgement where the case threw.
  std::optional<Judgement> judged_by(const Property& property) {
    try {
      return property.judge(bench_, *plan_.the_case, setting_);
    } catch (const std::exception& error) {
      row_.sentence = sim::printable_text(sim::text_of(error));
      return std::nullopt;
    }
  }

  void explain(const Property& property, const Judgement& judgement) {
    if (!explains_) return;
    row_.is_explained = true;
    row_.explanation = explanation(bench_, *plan_.the_case, property, setting_);
    std::string found = judgement.detail;
    if (judgement.finding) found += "\n" + sim::text_of(*judgement.finding, "");
    row_.named = named_reasons(row_.fault, found, row_.explanation, setting_.group_size * setting_.replicas);
  }

  const ExamPlan& plan_;
  const PlannedFault& planned_;
  bool explains_;
  Bench& bench_;
  ExamRow row_;
  CaseSetting setting_;
};

bool is_explained(const ExamPlan& plan, std::size_t fault) {
  const bool is_training = !plan.settings.empty() && plan.settings.front().ranks == Ranks::world;
  return !is_training || fault % kTrainingsPerExplained == 0;
}

}  // namespace

NamedReasons named_reasons(const Fault& fault, const std::string& found, const std::string& explanation,
                           int ranks) {
  const std::vector<std::string> words = words_of(fault);
  const std::string said = found + "\n" + explanation;
  const std::string& with_words = fault.kind == FaultKind::wrong_group ? explanation : said;
  const bool is_of_one = fault.where.place || !fault.where.ranks.empty();
  const bool exchanges_two = fault.kind == FaultKind::swap_blocks;  // the ranks of the first two places
  const bool names_all = has(said, "on all ranks") || has(said, "on no rank");
  const bool names_one = has(said, "on rank ") || has(said, "rank 1");
  return {.site = has(said, fault.site),
          .rank = ranks == 1 || (is_of_one ? names_one : exchanges_two || names_all || !has(said, "only: ")),
          .kind = std::ranges::any_of(words, [&](const auto& word) { return has(with_words, word); })};
}

std::string why_equivalent(const Fault& fault, std::int64_t met) {
  if (met == 0) return "no call that was made has the fault";
  static constexpr std::pair<FaultKind, const char*> kReasons[] = {
      {FaultKind::stale, "each rank calls once at the site, or gives the same input again"},
      {FaultKind::no_wait, "nothing uses the result before the next call"},
      {FaultKind::op, "the terms of the group are such that both reductions give the same"},
      {FaultKind::scale, "the result is 0, or is not used"},
      {FaultKind::truncate, "the last elements are the same before and after the call, or are not used"},
      {FaultKind::dtype, "the input is exact in bf16"}};
  for (const auto& [kind, reason] : kReasons)
    if (kind == fault.kind) return reason;
  return "what the fault changes is not used, or is the same";
}

const char* name_of(FaultVerdict verdict) {
  constexpr const char* kNames[] = {"not run", "caught", "equivalent", "unnamed", "missed"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::int64_t Exam::count(FaultVerdict verdict) const {
  return std::ranges::count_if(rows, [&](const ExamRow& row) { return row.verdict == verdict; });
}

bool over_items(std::size_t count, std::span<Bench> benches, const ExamGoesOn& goes_on,
                const std::function<std::string(std::size_t)>& name_of,
                const std::function<void(Bench&, std::size_t)>& work) {
  std::mutex mutex;  // guards what follows
  std::size_t done = 0;
  bool goes = true;
  over_benches(count, benches, [&](Bench& bench, std::size_t i) {
    {
      const std::lock_guard lock(mutex);
      goes = goes && goes_on(done++, count, name_of(i));
      if (!goes) return;
    }
    work(bench, i);
  });
  return goes;
}

Exam run_exam(const ExamRequest& request, std::span<Bench> benches, const ExamGoesOn& goes_on) {
  Exam exam;
  for (Bench& bench : benches) bench.known().keep(kKept);
  std::vector<ExamPlan> plans(request.cases.size());
  over_benches(plans.size(), benches, [&](Bench& bench, std::size_t i) {
    plans[i] = exam_plan(*request.cases[i], request.seed, request.max_world, bench);
  });
  struct Item {
    const ExamPlan* plan;
    const PlannedFault* fault;
    bool explains;
  };
  std::vector<Item> items;
  for (const ExamPlan& plan : plans) {
    exam.clean_runs += std::ssize(plan.settings);
    exam.false_alarms.insert(exam.false_alarms.end(), plan.false_alarms.begin(), plan.false_alarms.end());
    std::size_t chosen = 0;
    for (const PlannedFault& fault : plan.faults) {
      if (!is_chosen(request.faults, parsed_fault(fault.text))) continue;
      items.push_back({&plan, &fault, is_explained(plan, chosen++)});
    }
  }
  exam.rows.resize(items.size());
  const auto name_of_item = [&](std::size_t i) {
    return items[i].plan->the_case->name() + " " + items[i].fault->text;
  };
  exam.is_whole = over_items(items.size(), benches, goes_on, name_of_item, [&](Bench& bench, std::size_t i) {
    exam.rows[i] = Candidate(*items[i].plan, *items[i].fault, items[i].explains, bench).judged();
  });
  std::erase_if(exam.rows, [](const ExamRow& row) { return row.the_case == nullptr; });
  return exam;
}

}  // namespace verify
