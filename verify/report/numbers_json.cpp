#include "verify/report/numbers_json.h"

#include <utility>

namespace verify {

namespace {

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(value);
  return list;
}

}  // namespace

Json memory_stages_json(const MemoryReport& memory) {
  Json stages = Json::array();
  for (std::size_t rank = 0; rank < memory.stages.size(); ++rank) {
    const StageMemory& stage = memory.stages[rank];
    Json parts = Json::object();
    const bool has_peak = memory.has_activations;
    for (const MemoryPart& part : memory_parts())
      parts[part.name] = has_peak || part.is_static ? Json(stage.*part.bytes) : Json();
    stages.push_back({{"pipeline_rank", rank},
                      {"static_bytes", stage.static_bytes()},
                      {"peak_bytes", has_peak ? Json(stage.peak_bytes()) : Json()},
                      {"parts", std::move(parts)},
                      {"expert_parameters", stage.expert_parameters},
                      {"peak_in", has_peak ? Json(stage.peak_in) : Json()}});
  }
  return stages;
}

Json memory_json(const MemoryReport& memory) {
  return {{"owners", memory.owners},
          {"expert_owners", memory.expert_owners},
          {"workspace_bytes", memory.stages.front().workspace},
          {"fits", memory.fits() ? Json(*memory.fits()) : Json()},
          {"stages", memory_stages_json(memory)}};
}

Json training_json(const TrainingCurve& training) {
  return {{"world", training.world},
          {"model", training.model},
          {"is_equal_in_field", training.is_equal_in_field},
          {"losses_nats", numbers(training.losses)},
          {"reference_losses_nats", numbers(training.reference)},
          {"bounds_nats", numbers(training.bounds)}};
}

Json pipeline_json(const PipelineReport& pipeline) {
  return {{"work_units", pipeline.work},
          {"bubble_units", pipeline.bubble},
          {"bubble_percent", pipeline.bubble_percent()}};
}

}  // namespace verify
