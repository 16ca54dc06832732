#pragma once

/// What a scenario, under the options of the command line, asks of replay: every option read and checked
/// once, as typed values. Nothing below verify/options sees option names or their texts.
///
/// Shapes  Sizes are those of the options. An empty optional stands for an option that was not given.
/// Errors  All of a scenario's options are refused before any work: those of requests.h, settings.h,
///         expectations.h, model_divisions.h, world_options.h and schedule_request.h;
///         world_too_large_to_replay; microbatches_batch: microbatches that are not the global batch;
///         option_without_effect.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/world_spec.h"
#include "verify/options/case_options.h"
#include "verify/options/expectations.h"
#include "verify/options/model_options.h"
#include "verify/options/scenario.h"
#include "verify/options/schedule_request.h"

namespace verify {

struct TrainingOptions {
  std::string text;                         // the path of the text
  std::optional<std::int64_t> train_iters;  // steps
  bool eod_mask_loss = false;
  bool calculate_per_token_loss = false;
  bool recompute = false;  // every layer, in full
};

struct ScenarioRequest {
  sim::Layout layout;
  sim::NodePlacement nodes;
  std::optional<sim::LayerPlacement> placement;  // where an option of layers was given
  sim::WorldSpec world;
  ModelOptions model;
  BatchOptions batch;
  PipelineOptions pipeline;
  std::optional<ScheduleRequest> schedule;  // of more than one pipeline rank
  std::string no_schedule;                  // why such a pipeline has none
  TrainingOptions training;
  CaseOptions cases;
  std::optional<std::string> program;  // a planted defect in place of the collective round
  Expectations expected;
  bool is_traced = false;
  std::string arguments;  // all of it as options of a command line; of no call
};

/// Reads a scenario's options.
ScenarioRequest scenario_request(const Scenario& scenario);

/// The refusal that a scenario expects; known where its request is refused.
ExpectedRefusal expected_refusal(const Scenario& scenario);

/// Reads every value of a scenario once, so that one that is no number, size or word is refused.
void require_readable(const Scenario& scenario);

}  // namespace verify
