#include "verify/options/scenario_request.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/layout/size_rules.h"
#include "verify/options/model_divisions.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/requests.h"
#include "verify/options/settings.h"
#include "verify/options/world_options.h"

namespace verify {

namespace {

/// The largest grid that replay proves, which takes seconds and about 90 bytes a rank. Larger grids can
/// be shown by `groups`.
constexpr std::int64_t kLargestReplayedGrid = 1 << 20;

/// Refuses options about cases that only check reads, and those that choose a case where a planted program
/// runs instead.
void require_options(const Settings& settings) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.section != kCasesSection || !settings.has(option.name)) continue;
    if (!overlap(option.readers, Reader::replay)) refuse_without_effect(option.name, "replay");
    if (option.needs_virtual_ranks && settings.has("program"))
      refuse_without_effect(option.name, "replay' with '--program");
  }
}

void require_grid_can_be_replayed(const Settings& settings) {
  const std::int64_t ranks = sim::grid_size(parallel_sizes(settings));
  if (ranks <= kLargestReplayedGrid) return;
  sim::refuse({.code = "world_too_large_to_replay",
               .option = settings.has("local-world-size") ? "--local-world-size" : "--world-size",
               .numbers = fmt::format("{} ranks", ranks),
               .rule = fmt::format("replay proves up to {} ranks, member by member", kLargestReplayedGrid),
               .hint = "a smaller world, or shardproof groups"});
}

/// Refuses microbatches that do not add up to the global batch, where both are given.
void require_microbatches(const BatchOptions& batch, const sim::Layout& layout) {
  if (!batch.num_microbatches || !batch.global_batch_size) return;
  if (sim::capped_product({*batch.num_microbatches, batch.micro_batch_size, layout.dp}) ==
      *batch.global_batch_size)
    return;
  sim::refuse({.code = "microbatches_batch",
               .option = "--num-microbatches",
               .numbers = fmt::format("{} microbatches of {} on {} replicas, while the global batch is {}",
                                      *batch.num_microbatches, batch.micro_batch_size, layout.dp,
                                      *batch.global_batch_size),
               .rule = "the microbatches of all replicas are the global batch",
               .hint = "one of --num-microbatches and --global-batch-size"});
}

/// Adds the pipeline schedule of a step, or the reason why there is none. A batch that does not divide is not
/// refused here: the check "batch" judges it.
void add_schedule(ScenarioRequest& request) {
  const BatchOptions& batch = request.batch;
  require_microbatches(batch, request.layout);
  if (request.layout.pp == 1) return;
  if (!batch.num_microbatches && !batch.global_batch_size) {
    request.no_schedule = "the scenario gives neither num-microbatches nor global-batch-size";
    return;
  }
  try {
    const std::int64_t microbatches =
        batch.num_microbatches ? *batch.num_microbatches : microbatches_of_batch(batch, request.layout.dp);
    request.schedule = training_schedule(request.pipeline, request.layout.pp, microbatches);
  } catch (const sim::Error& error) {
    const std::string& code = error.refusal().code;
    if (code != "microbatches_div" && code != "schedule_size") throw;
    request.no_schedule = error.what();
  }
}

TrainingOptions training_options(const Settings& settings) {
  return {.text = settings.text("text", scenario_folder() + "/training/text.txt"),
          .train_iters = settings.number("train-iters"),
          .eod_mask_loss = settings.flag("eod-mask-loss"),
          .calculate_per_token_loss = settings.flag("calculate-per-token-loss"),
          .recompute = settings.has("recompute-granularity")};
}

}  // namespace

ScenarioRequest scenario_request(const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  settings.check();
  require_options(settings);
  require_grid_can_be_replayed(settings);
  const sim::Layout layout = requested_layout(settings);
  require_model_divides(settings, layout);
  ScenarioRequest request{.layout = layout,
                          .nodes = node_placement(settings),
                          .placement = {},
                          .layers = {},
                          .world = requested_world(settings, layout),
                          .model = model_options(settings),
                          .batch = batch_options(settings),
                          .pipeline = pipeline_options(settings),
                          .schedule = {},
                          .no_schedule = {},
                          .training = training_options(settings),
                          .cases = case_options(settings),
                          .program = {},
                          .expected = expectations(settings),
                          .is_traced = settings.has("trace"),
                          .layout_only = settings.flag("layout-only"),
                          .arguments = settings.as_command_line()};
  if (settings.has_any_of(kLayersSection)) {
    request.placement = requested_placement(settings, layout.pp);
    if (layout.rules == sim::RuleBook::megatron) request.layers = layer_request(settings, layout.pp);
  }
  if (request.expected.parameters) request.model.shape = model_shape(settings);  // refuses missing sizes
  if (settings.has("program")) request.program = settings.text("program", "");
  add_schedule(request);
  return request;
}

ExpectedRefusal expected_refusal(const Scenario& scenario) { return expected_refusal(scenario.settings); }

void require_readable(const Scenario& scenario) { scenario.settings.check(); }

}  // namespace verify
