#include "verify/exam/exam.h"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <optional>

#include "sim/base/printable_text.h"
#include "verify/exam/exam_plan.h"
#include "verify/explain/explanation.h"
#include "verify/properties/over_benches.h"

namespace verify {

namespace {

/// The settings of which references are kept: those of a plan, in the field and two dtypes, with and without
/// special values.
constexpr std::size_t kKept = 160;

/// A failure of a training takes long to explain, so only one planned fault in so many is explained.
constexpr std::size_t kTrainingsPerExplained = 10;

bool is_chosen(const std::vector<std::string>& chosen, const Fault& fault) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), info_of(fault.kind).name) != chosen.end();
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
      row_.verdict = ExamVerdict::caught;
      return row_;
    }
    row_.verdict = differs ? ExamVerdict::missed : ExamVerdict::equivalent;
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
      row_.sentence = sim::printable_text(error.what());
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

const char* name_of(ExamVerdict verdict) {
  constexpr const char* kNames[] = {"not run", "caught", "equivalent", "missed"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::int64_t Exam::count(ExamVerdict verdict) const {
  return std::count_if(rows.begin(), rows.end(), [&](const ExamRow& row) { return row.verdict == verdict; });
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
      items.push_back({&plan, &fault, request.explains && is_explained(plan, chosen++)});
    }
  }
  exam.rows.resize(items.size());
  std::mutex mutex;  // guards what follows
  std::size_t done = 0;
  over_benches(items.size(), benches, [&](Bench& bench, std::size_t i) {
    const auto& [plan, fault, explains] = items[i];
    {
      const std::lock_guard lock(mutex);
      exam.is_whole =
          exam.is_whole && goes_on(done++, items.size(), plan->the_case->name() + " " + fault->text);
      if (!exam.is_whole) return;
    }
    exam.rows[i] = Candidate(*plan, *fault, explains, bench).judged();
  });
  std::erase_if(exam.rows, [](const ExamRow& row) { return row.the_case == nullptr; });
  return exam;
}

}  // namespace verify
