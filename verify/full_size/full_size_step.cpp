#include "verify/full_size/full_size_step.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "sim/layout/size_rules.h"
#include "sim/shapes/shapes_device.h"
#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/microbatch_fold.h"
#include "verify/full_size/replica_fold.h"
#include "verify/full_size/step_totals.h"
#include "verify/full_size/step_work.h"
#include "verify/output/phrases.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

/// About how many calls a layer makes for one microbatch, forward and backward, with its share of messages
/// between stages and, with context parallelism, those of a ring.
std::int64_t calls_of_a_layer(const ScenarioRequest& request) {
  const int cp = request.layout.cp;
  return (cp == 1 ? 5 : 5 + 4 * cp) + (has_experts(request) ? 10 : 0);
}

/// The records of a rank that are kept for reports where every rank runs.
constexpr std::int64_t kKeptCalls = 16;

/// Returns the most that a rank of each stage does and holds, of the accounts of ranks that ran.
std::vector<StageWork> work_of_stages(const sim::Layout& layout,
                                      const std::vector<std::optional<sim::ShapesAccount>>& by_rank) {
  std::vector<StageWork> stages(static_cast<std::size_t>(layout.pp));
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    if (!by_rank[i]) continue;
    const sim::ShapesAccount& account = *by_rank[i];
    const int rank = layout.first_rank + static_cast<int>(i);
    StageWork& most = stages[static_cast<std::size_t>(layout.dense.coordinates_of(rank)[sim::Axis::pp])];
    const auto raise = [](std::int64_t& to, std::int64_t value) { to = std::max(to, value); };
    raise(most.multiply_adds, account.multiply_adds);
    raise(most.held.parameters, account.held(sim::MemoryUse::parameters));
    raise(most.held.gradients, account.held(sim::MemoryUse::gradients));
    raise(most.held.optimizer, account.held(sim::MemoryUse::optimizer));
    most.working_bytes = std::max(most.working_bytes.value_or(0), account.peak(sim::MemoryUse::working));
  }
  return stages;
}

/// Returns the first stage that does or holds something else than the closed forms say, in words; "" where
/// there is none.
std::string difference_of_stages(const ScenarioRequest& request, const std::vector<StageWork>& stages,
                                 bool has_all_replicas) {
  const std::int64_t microbatches = microbatches_of_batch(request.batch, request.layout.dp);
  const std::vector<RankWork> expected = step_work(request);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageWork& own = stages[stage];
    const StaticBytes held = static_bytes(request, static_cast<int>(stage));
    struct Row {
      std::int64_t made, stated;
      const char* what;
    };
    const Row rows[] = {
        {own.multiply_adds, expected[stage].multiply_adds(microbatches), "computes {} multiply-adds"},
        {own.held.parameters, held.parameters, "holds {} bytes of parameters"},
        {own.held.gradients, held.gradients, "holds {} bytes of gradients"},
        {own.held.optimizer, has_all_replicas ? held.optimizer : own.held.optimizer,
         "holds {} bytes of states of the optimizer"}};
    for (const auto& [made, stated, what] : rows) {
      if (made == stated) continue;
      return fmt::format("a rank of stage {} {}, where the closed form has {}", stage,
                         fmt::format(fmt::runtime(what), made), stated);
    }
  }
  return "";
}

/// Returns what a step made in another way than the closed forms say, in words; "" if there is nothing.
std::string difference_of_step(const ScenarioRequest& request, const StepTotals& made,
                               const std::vector<StageWork>& stages, bool has_all_replicas) {
  std::string different = difference(expected_totals(request), made);
  if (different.empty()) different = difference_of_stages(request, stages, has_all_replicas);
  return different;
}

/// Modules that are computed again make no calls (repeats_calls), and are not run: they change products, and
/// what a rank holds while it works.
ScenarioRequest without_recomputed_modules(ScenarioRequest request) {
  if (request.memory.recompute == RecomputeMethod::modules) request.memory.recompute = RecomputeMethod::none;
  return request;
}

/// Adds the products of modules that are computed again to those of stages that ran.
void add_recomputed_modules(const ScenarioRequest& request, StepReport& report) {
  if (request.memory.recompute != RecomputeMethod::modules) return;
  report.left_out.push_back(
      fmt::format("the second run of {}, which makes no calls and whose products are counted",
                  fmt::join(request.memory.modules, " and ")));
  std::vector<StageWork>& stages = report.stages;
  const std::int64_t microbatches = microbatches_of_batch(request.batch, request.layout.dp);
  const std::vector<RankWork> all = step_work(request);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    stages[stage].multiply_adds = all[stage].multiply_adds(microbatches);
    stages[stage].working_bytes.reset();
  }
}

/// What a step of all ranks did, or what was found.
struct StepRun {
  std::vector<sim::LedgerRow> ledger;
  std::vector<StageWork> stages;
  std::vector<sim::Finding> findings;
};

/// Runs a step on the ranks that stand for all.
StepRun run_step(const ScenarioRequest& request, const ReplicaFold& fold) {
  const sim::GptTrainingConfig first = full_size_training(request, 0), later = full_size_training(request, 1);
  const bool is_whole = fold.replicas == request.layout.dp && fold.tp == request.layout.tp;
  sim::WorldSpec spec = request.world;
  if (!is_whole) spec.ranks = fold.running;
  spec.kept_calls = is_whole ? kKeptCalls : 0;
  sim::ShapesDevice device;
  std::vector<std::optional<sim::ShapesAccount>> accounts(static_cast<std::size_t>(spec.layout.grid_size));
  sim::RunReport run = sim::simulate(spec, device, [&](sim::Rank& rank) {
    run_full_size_step(rank, rank.groups.get("pp").rank() == 0 ? first : later, [&] {
      accounts[static_cast<std::size_t>(rank.id - spec.layout.first_rank)] = *device.accounts().at(rank.id);
    });
  });
  if (!run.ok()) return {.ledger = {}, .stages = {}, .findings = std::move(run.findings)};
  return {
      .ledger = is_whole ? std::move(run.ledger) : ledger_of_all(run, fold, request.layout, request.nodes),
      .stages = work_of_stages(request.layout, accounts),
      .findings = {}};
}

/// Runs steps of one period of microbatches and of two, and returns what all of them do.
StepRun run_two_periods(const ScenarioRequest& request, const ReplicaFold& fold) {
  const std::int64_t period = microbatches_of_a_period(request);
  const StepRun one = run_step(with_microbatches(request, period), fold);
  if (!one.findings.empty()) return one;
  StepRun all = run_step(with_microbatches(request, 2 * period), fold);
  if (!all.findings.empty()) return all;
  all.ledger = ledger_of_microbatches(request, one.ledger, all.ledger);
  all.stages = one.stages;
  for (StageWork& stage : all.stages) {
    stage.multiply_adds *= microbatches_of_batch(request.batch, request.layout.dp) / period;
    stage.working_bytes.reset();
  }
  return all;
}

std::string text_of_part(const ScenarioRequest& request, const ReplicaFold& fold, const StepPart& part) {
  const sim::Layout& layout = request.layout;
  const std::string all = counted(layout.grid_size, "rank");
  const bool runs_all = fold.replicas == layout.dp && fold.tp == layout.tp;
  if (runs_all && !part.folds_microbatches) return all;
  const std::string microbatches =
      part.folds_microbatches ? fmt::format("{} of {} microbatches", 2 * microbatches_of_a_period(request),
                                            microbatches_of_batch(request.batch, layout.dp))
                              : "";
  if (runs_all) return fmt::format("{} (with {}, the others call what these call)", all, microbatches);
  return fmt::format(
      "{} ({} run{}{}: {} of {} replicas{}, the others call what these call)", all, fold.running.size(),
      microbatches.empty() ? "" : " with ", microbatches, fold.replicas, layout.dp,
      fold.tp == layout.tp ? "" : fmt::format(", {} of {} tensor-parallel ranks", fold.tp, layout.tp));
}

std::string text_of_work(const std::vector<StageWork>& stages) {
  const auto [least, most] =
      std::minmax_element(stages.begin(), stages.end(),
                          [](const auto& a, const auto& b) { return a.multiply_adds < b.multiply_adds; });
  const double multiply_adds = static_cast<double>(most->multiply_adds);
  if (stages.size() == 1) return fmt::format("{:.3g} multiply-adds a rank", multiply_adds);
  if (least->multiply_adds == 0)
    return fmt::format("{:.3g} multiply-adds a rank of stage {}, and none on stage {}", multiply_adds,
                       most - stages.begin(), least - stages.begin());
  return fmt::format("{:.3g} multiply-adds a rank of stage {}, {:.2f} times those of stage {}", multiply_adds,
                     most - stages.begin(), multiply_adds / static_cast<double>(least->multiply_adds),
                     least - stages.begin());
}

/// Differences between the model that runs and the scenario's.
std::string text_of_model(const StepReport& report) {
  std::string text;
  if (!report.choice_of_experts.empty()) text += "; " + report.choice_of_experts;
  if (!report.left_out.empty()) text += "; not run: " + fmt::format("{}", fmt::join(report.left_out, ", "));
  return text;
}

}  // namespace

int block_of_replicas(const ScenarioRequest& request) {
  return replicas_of_a_block(request.layout, request.nodes, has_experts(request));
}

std::int64_t step_calls(const ScenarioRequest& request, const StepPart& part) {
  const sim::Layout& layout = request.layout;
  const std::int64_t microbatches = part.folds_microbatches ? 3 * microbatches_of_a_period(request)
                                                            : microbatches_of_batch(request.batch, layout.dp);
  return sim::capped_product({part.folds_tp ? 1 : layout.tp, layout.cp, part.replicas,
                              request.model.config.num_layers, microbatches, calls_of_a_layer(request)});
}

StepPart running_part(const ScenarioRequest& request) {
  const int all = request.layout.dp;
  if (request.every_rank || step_calls(request, {all}) <= kMostStepCalls) return {all};
  const int block = block_of_replicas(request);
  const bool has_periods = microbatches_of_a_period(request) > 0;
  const bool has_twins_in_tp = !has_experts(request) && request.layout.tp > 1;
  StepPart part;
  for (const auto& [folds_microbatches, folds_tp] :
       {std::pair(false, false), std::pair(has_periods, false), std::pair(has_periods, has_twins_in_tp)}) {
    for (const int blocks : {2, 1}) {
      if (blocks * block > all) continue;
      part = {blocks * block, folds_microbatches, folds_tp};
      if (step_calls(request, part) <= kMostStepCalls) return part;
    }
  }
  return part;
}

StepReport full_size_step(const ScenarioRequest& request, const StepPart& part) {
  const sim::Layout& layout = request.layout;
  const ReplicaFold fold =
      fold_replicas(layout, part.replicas, part.replicas < layout.dp ? block_of_replicas(request) : 1,
                    part.folds_tp ? 1 : layout.tp);
  StepRun run = part.folds_microbatches ? run_two_periods(request, fold) : run_step(request, fold);
  StepReport report{.row = {"step", run.findings.empty(), ""},
                    .ledger = std::move(run.ledger),
                    .stages = std::move(run.stages),
                    .choice_of_experts = text_of_choice(request),
                    .left_out = left_out_of_step(request),
                    .findings = std::move(run.findings)};
  if (!report.row.holds) {
    report.row.detail = report.findings.front().sentence;
    return report;
  }
  const StepTotals made = totals_of(report.ledger);
  const std::string different = difference_of_step(without_recomputed_modules(request), made, report.stages,
                                                   part.replicas == layout.dp);
  add_recomputed_modules(request, report);
  std::int64_t calls = 0;
  for (const auto& [key, total] : made) calls += total.calls;
  report.row.holds = different.empty();
  report.row.detail =
      different.empty()
          ? fmt::format("at full size, {}: all {} calls are matched and as the closed forms say; {}{}",
                        text_of_part(request, fold, part), calls, text_of_work(report.stages),
                        text_of_model(report))
          : different;
  return report;
}

}  // namespace verify
