#include "verify/full_size/full_size_step.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/layout/size_rules.h"
#include "sim/shapes/shapes_device.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/replica_fold.h"
#include "verify/full_size/step_totals.h"
#include "verify/full_size/step_work.h"
#include "verify/options/schedule_request.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// About how many calls a layer makes for one microbatch, forward and backward, with its share of messages
/// between stages and, with context parallelism, those of a ring.
std::int64_t calls_of_a_layer(int cp) { return cp == 1 ? 5 : 5 + 4 * cp; }

/// The records of a rank that are kept for reports where every rank runs.
constexpr std::int64_t kKeptCalls = 16;

/// What ranks did, and the multiply-adds of their passes, by rank.
struct StepRun {
  sim::RunReport report;
  std::vector<std::int64_t> multiply_adds;
};

/// Runs a step on these ranks, or on all.
StepRun run_step(const ScenarioRequest& request, const std::vector<int>& ranks, bool keeps_calls) {
  const sim::GptTrainingConfig config = full_size_training(request);
  const auto length = static_cast<std::size_t>(config.model.seq_length);
  const sim::Sample sample{std::vector<std::int32_t>(length, 0), std::vector<std::int32_t>(length, 0)};
  sim::WorldSpec spec = request.world;
  spec.ranks = ranks;
  spec.kept_calls = keeps_calls ? 0 : kKeptCalls;
  sim::ShapesDevice device;
  StepRun run{{}, std::vector<std::int64_t>(static_cast<std::size_t>(spec.layout.grid_size))};
  run.report = sim::simulate(spec, device, [&](sim::Rank& rank) {
    sim::GptTraining training(rank, config, [&](std::int64_t) { return sample; });
    training.forward_backward(0);
    run.multiply_adds[static_cast<std::size_t>(rank.id - spec.layout.first_rank)] =
        device.accounts().at(rank.id)->multiply_adds;
    training.finalize_model_grads();
    training.update({1, 1000});
  });
  return run;
}

/// The multiply-adds of a rank of each stage.
std::vector<StageWork> work_of_stages(const sim::Layout& layout, const std::vector<std::int64_t>& by_rank) {
  std::vector<StageWork> stages(static_cast<std::size_t>(layout.pp));
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    const int rank = layout.first_rank + static_cast<int>(i);
    const auto stage = static_cast<std::size_t>(layout.dense.coordinates_of(rank)[sim::Axis::pp]);
    stages[stage].multiply_adds = std::max(stages[stage].multiply_adds, by_rank[i]);
  }
  return stages;
}

/// Returns the first stage whose multiply-adds are not those of the closed form, in words; "" if there is none.
std::string difference_of_work(const ScenarioRequest& request, const std::vector<StageWork>& stages) {
  const std::int64_t microbatches = microbatches_of_batch(request.batch, request.layout.dp);
  const std::vector<RankWork> expected = step_work(request);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::int64_t own = stages[stage].multiply_adds,
                       stated = expected[stage].multiply_adds(microbatches);
    if (own == stated) continue;
    return fmt::format("a rank of stage {} computes {} multiply-adds, where the closed form has {}", stage,
                       own, stated);
  }
  return "";
}

std::string text_of_ranks(const sim::Layout& layout, const ReplicaFold& fold) {
  const std::string all = counted(layout.grid_size, "rank");
  if (fold.replicas == layout.dp) return all;
  return fmt::format("{} ({} run: {} of {} replicas, the others call what these call)", all,
                     fold.running.size(), fold.replicas, layout.dp);
}

std::string text_of_work(const std::vector<StageWork>& stages) {
  const auto [least, most] =
      std::minmax_element(stages.begin(), stages.end(),
                          [](const auto& a, const auto& b) { return a.multiply_adds < b.multiply_adds; });
  const double multiply_adds = static_cast<double>(most->multiply_adds);
  if (stages.size() == 1) return fmt::format("{:.3g} multiply-adds a rank", multiply_adds);
  return fmt::format("{:.3g} multiply-adds a rank of stage {}, {:.2f} times those of stage {}", multiply_adds,
                     most - stages.begin(), multiply_adds / static_cast<double>(least->multiply_adds),
                     least - stages.begin());
}

}  // namespace

std::int64_t step_calls(const ScenarioRequest& request, std::int64_t replicas) {
  const sim::Layout& layout = request.layout;
  return sim::capped_product({layout.tp, layout.cp, replicas, request.model.shape->num_layers,
                              microbatches_of_batch(request.batch, layout.dp), calls_of_a_layer(layout.cp)});
}

int running_replicas(const ScenarioRequest& request) {
  const int all = request.layout.dp;
  if (request.every_rank || step_calls(request, all) <= kMostStepCalls) return all;
  return step_calls(request, 2) <= kMostStepCalls ? 2 : 1;
}

StepReport full_size_step(const ScenarioRequest& request, int replicas) {
  const sim::Layout& layout = request.layout;
  const ReplicaFold fold = fold_replicas(layout, replicas);
  const bool is_whole = fold.replicas == layout.dp;
  StepRun step = run_step(request, is_whole ? std::vector<int>() : fold.running, !is_whole);
  sim::RunReport& run = step.report;
  StepReport report{.row = {"step", run.ok(), ""}, .ledger = {}, .stages = {}, .findings = {}};
  if (!run.ok()) {
    report.row.detail = run.findings.front().sentence;
    report.findings = std::move(run.findings);
    return report;
  }
  report.ledger = is_whole ? std::move(run.ledger) : ledger_of_all(run, fold, layout, request.nodes);
  report.stages = work_of_stages(layout, step.multiply_adds);
  const StepTotals made = totals_of(report.ledger);
  std::string different = difference(expected_step_totals(request), made);
  if (different.empty()) different = difference_of_work(request, report.stages);
  std::int64_t calls = 0;
  for (const auto& [key, total] : made) calls += total.calls;
  report.row.holds = different.empty();
  report.row.detail =
      different.empty()
          ? fmt::format("at full size, {}: all {} calls are matched and as the closed forms say; {}",
                        text_of_ranks(layout, fold), calls, text_of_work(report.stages))
          : different;
  return report;
}

}  // namespace verify
