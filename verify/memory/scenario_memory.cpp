#include "verify/memory/scenario_memory.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/checks/parameter_count.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

/// Refuses a model that holds too many parameters to be listed one by one.
void require_listable(const sim::GptConfig& shape, const sim::Layout& layout) {
  constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;
  constexpr std::int64_t kMostLayers = 10'000, kMostMatrices = 2'000'000;
  const std::int64_t experts = shape.experts.num_experts / layout.ep;
  const bool fits = shape.num_layers + shape.mtp_num_layers <= kMostLayers &&
                    shape.num_layers * experts <= kMostMatrices && parameter_count(shape) <= kMostParameters;
  if (fits) return;
  refuse_by("memory_not_counted/size", "--num-layers", shape.num_layers, experts, kMostLayers,
            kMostParameters, kMostMatrices);
}

/// Returns the schedule of the scenario, or of fewer microbatches where it has none; nothing if that would be
/// too long as well.
std::optional<ScheduleRequest> schedule_in_flight(const ScenarioRequest& request) {
  if (request.schedule) return request.schedule;
  try {
    return training_schedule(
        request.pipeline, request.layout.pp,
        2 * request.pipeline.microbatch_group_size_per_virtual_pipeline_stage.value_or(request.layout.pp));
  } catch (const sim::Error& error) {
    if (error.refusal().code != "schedule_size") throw;
    return std::nullopt;
  }
}

/// Returns the inputs for counting activations. They have no schedule if there is none, or if its chunks are
/// not those of the placement.
ActivationRun activation_run(const ScenarioRequest& request) {
  ActivationRun run{.micro_batch_size = request.batch.micro_batch_size,
                    .sequence_parallel = request.model.config.sequence_parallel && request.layout.tp > 1};
  if (request.layout.pp == 1) {
    run.schedule = sim::no_pipelining;
  } else if (const auto schedule = schedule_in_flight(request)) {
    run.schedule = schedule->schedule.function;
    run.pipeline = schedule->shape;
  }
  const auto chunks = static_cast<std::size_t>(run.pipeline.chunks());
  const auto& stages = request.placement->stages;
  const bool fits =
      std::all_of(stages.begin(), stages.end(), [&](const auto& stage) { return stage.size() == chunks; });
  if (!fits) run.schedule = nullptr;
  return run;
}

bool predicts_before_the_last_stage(const sim::LayerPlacement& placement) {
  return std::any_of(placement.stages.begin(), placement.stages.end() - 1, [](const auto& stage) {
    return std::ranges::any_of(stage, [](const sim::StageLayers& chunk) { return chunk.mtp > 0; });
  });
}

/// Returns the layout of a pipeline with its layers of multi-token prediction before the loss.
std::string with_predictions_last(std::string layout, std::int64_t predictions) {
  for (std::size_t at = layout.find('m'); at != std::string::npos; at = layout.find('m', at)) {
    std::size_t end = at + 1;
    if (end < layout.size() && layout[end] == '*') end = layout.find_first_not_of("0123456789", end + 1);
    layout.erase(at, std::min(end, layout.size()) - at);
  }
  const std::string last = predictions == 1 ? "m" : fmt::format("m*{}", predictions);
  return layout.insert(layout.rfind('L'), last);
}

std::string hint_without_memory(const Scenario& scenario, const ScenarioRequest& request) {
  if (request.model.has_shape && request.pipeline.forward_only) return "leave --forward-only out";
  const bool is_placed = request.model.has_shape && request.placement;
  if (is_placed && request.placement->encoder_ranks > 0) return "leave --encoder-and-decoder out";
  if (is_placed)
    return fmt::format("--pipeline-model-parallel-layout '{}'",
                       with_predictions_last(*request.layers->pipeline_model_parallel_layout,
                                             request.model.config.mtp_num_layers));
  return megatron_hint(scenario.settings, scenario.run);
}

}  // namespace

std::string why_no_memory(const ScenarioRequest& request) {
  if (!request.model.has_shape) return request.model.no_shape;
  if (request.pipeline.forward_only) return "--forward-only keeps nothing for a backward pass";
  if (!request.placement) return "its layers are not placed on pipeline ranks";
  if (request.placement->encoder_ranks > 0) return "encoder-decoder models are not counted";
  if (predicts_before_the_last_stage(*request.placement))
    return "layers of multi-token prediction (m) before the last stage are not counted";
  return "";
}

void require_memory(const Scenario& scenario, const ScenarioRequest& request) {
  const std::string reason = why_no_memory(request);
  if (reason.empty()) return;
  refuse_by("memory_not_counted", "memory", reason, hint_without_memory(scenario, request));
}

std::string why_no_activations(const ScenarioRequest& request) {
  if (activation_run(request).schedule != nullptr) return "";
  return fmt::format("a schedule of {} pipeline ranks that is full has too many steps", request.layout.pp);
}

ActivationShape activation_shape(const ScenarioRequest& request) {
  return activation_shape(request.model.config, request.layout, activation_run(request), request.state,
                          request.memory);
}

MemoryReport scenario_memory(const ScenarioRequest& request) {
  const sim::GptConfig& shape = request.model.config;
  require_listable(shape, request.layout);
  return check_memory(shape, request.layout, *request.placement, activation_run(request), request.state,
                      request.memory);
}

}  // namespace verify
