#pragma once

/// The request that a scenario makes to replay, as typed values, and what it expects of its replay: a
/// refusal, a finding, or what its source prints. Every option is read and checked once, here, so that the
/// checks of replay do not look up options in Settings.
///
///   expect-groups      A group kind and its groups: "dp [0,2],[1,3]".
///   expect-parameters  A published number of parameters: "1.7B". It agrees with an exact count that gives
///                      this figure when it is rounded or cut to the digits of the figure.
///
/// Shapes  Sizes are those of the options. An empty optional stands for an option that was not given.
/// Errors  All are refused before any work begins, and those of the layout, of Megatron's rules, of the
///         placement, the batch and the schedule together: those of requests.h, settings.h and
///         megatron_validation.h; world_too_large_to_replay: a grid of more than 2^20 ranks;
///         microbatches_batch: microbatches that do not add up to the global batch; option_without_effect: an
///         option that only check reads, or one about cases beside --program; bad_expectation: a text that
///         cannot be parsed, or the code of a refusal where none is expected.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/world_spec.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/requests/case_options.h"
#include "verify/requests/memory_options.h"
#include "verify/requests/model_options.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

struct ExpectedGroups {
  std::string kind;
  std::vector<std::vector<int>> groups;
};

/// The refusal that a scenario expects.
struct ExpectedRefusal {
  bool is_expected = false;
  std::string code;  // empty: any code
};

struct Expectations {
  ExpectedRefusal refusal;
  bool is_suspect = false;             // Megatron accepts the layout and then uses the wrong ranks
  std::optional<std::string> finding;  // the code that the first finding must have
  std::vector<ExpectedGroups> groups;
  std::optional<std::string> parameters;  // the figure, as printed
};

/// Returns the refusal that a scenario expects. It can be read even if its request is refused.
ExpectedRefusal expected_refusal(const Settings& settings);
Expectations expectations(const Settings& settings);

/// A printed figure as a whole number of units, where a unit is the value of its last digit: "1.7B" is 17
/// units of 10^8.
struct Figure {
  std::int64_t digits = 0;
  std::int64_t unit = 1;
};

Figure parse_figure(const std::string& text);

bool agrees_with(const Figure& figure, std::int64_t count);

struct TrainingOptions {
  std::string text;                         // the path of the text
  std::optional<std::int64_t> train_iters;  // steps to train
  bool eod_mask_loss = false;
  bool calculate_per_token_loss = false;
  bool recompute = false;  // each layer is recomputed in full
  // Of the step at full size:
  std::optional<std::int64_t> ddp_bucket_size;  // elements that close a bucket
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
};

/// Why parts of a run of --from are not proved: the argument that is not modelled. "" where they are.
struct NotProved {
  std::string layers;
  std::string memory;
  std::string training;
};

struct ScenarioRequest {
  sim::Layout layout;
  sim::NodePlacement nodes;
  std::optional<sim::LayerPlacement> placement;  // present where an option of layers is given
  std::optional<sim::LayerRequest> layers;  // what the placement was made from, by the rule book megatron
  sim::WorldSpec world;
  ModelOptions model;
  StateBytes state;
  MemoryOptions memory;
  BatchOptions batch;
  sim::PipelineShape pipeline;              // without its ranks and microbatches
  std::optional<ScheduleRequest> schedule;  // of one step, with more than one pipeline rank
  std::string no_schedule;                  // the reason why such a pipeline has no schedule
  TrainingOptions training;
  CaseOptions cases;
  std::optional<std::string> program;  // a planted program instead of the collective round
  Expectations expected;
  std::vector<sim::Warning> warnings;  // of the layout, and about options that are not simulated
  NotProved not_proved;
  std::vector<AccountedArgument> uncounted;  // arguments of --from whose memory is not counted
  std::vector<std::string> not_modelled;     // what the scenario says that it leaves out of its model
  bool is_traced = false;
  bool layout_only = false;  // no virtual ranks run
  bool leaves_out_reduced =
      false;                // no layers and trainings in reduced sizes: a run of --from without --prove
  bool every_rank = false;  // the step of the full-size model folds no replicas
  std::string arguments;    // the options as a command line, without those of a single call
};

/// Reads and checks the options of a scenario, those of a run of --from as far as they are asked for.
ScenarioRequest scenario_request(const Scenario& scenario, Asked asked = Asked::whole_run);

}  // namespace verify
