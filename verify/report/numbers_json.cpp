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

Json memory_json(const MemoryReport& memory) {
  Json stages = Json::array();
  for (const HeldBytes& held : memory.stages) {
    stages.push_back({{"parameters_bytes", held.parameters},
                      {"expert_parameters_bytes", held.expert_parameters},
                      {"gradients_bytes", held.gradients},
                      {"optimizer_states_bytes", held.optimizer},
                      {"activations_bytes", held.activations},
                      {"all_bytes", held.all()}});
  }
  return {{"owners", memory.owners},
          {"expert_owners", memory.expert_owners},
          {"has_activations", memory.has_activations},
          {"stages", std::move(stages)}};
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
