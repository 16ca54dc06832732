#include <utility>

#include "verify/output/report_json.h"
#include "verify/replay/scenario_report.h"
#include "verify/report/bandwidth_table.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

Json memory_json(const MemoryReport& memory) {
  return {{"owners", memory.owners},
          {"expert_owners", memory.expert_owners},
          {"workspace_bytes", memory.stages.front().workspace},
          {"fits", memory.fits()},
          {"stages", memory_stages_json(memory)}};
}

Json training_json(const TrainingCurve& training) {
  return {{"world", training.world},
          {"model", training.model},
          {"reduced", training.reduced},
          {"left_out", training.left_out},
          {"is_equal_in_field", training.is_equal_in_field},
          {"losses_nats", training.losses},
          {"reference_losses_nats", training.reference},
          {"bounds_nats", training.bounds}};
}

Json pipeline_json(const PipelineReport& pipeline) {
  return {{"work_units", pipeline.work},
          {"bubble_units", pipeline.bubble},
          {"bubble_percent", pipeline.bubble_percent()}};
}

/// The ledger of all ranks in a step at full size, and what a rank of each stage computes and holds.
Json step_json(const StepReport& step) {
  const auto multiply_adds = [](const StageWork& stage) { return stage.multiply_adds; };
  const auto held = [](const StageWork& stage) {
    return Json{{"parameters", stage.held.parameters},
                {"gradients", stage.held.gradients},
                {"optimizer", stage.held.optimizer},
                {"working", stage.working_bytes}};
  };
  Json document = {{"ledger", json_list(step.ledger, ledger_json)},
                   {"multiply_adds_by_stage", json_list(step.stages, multiply_adds)},
                   {"held_bytes_by_stage", json_list(step.stages, held)}};
  if (!step.choice_of_experts.empty()) document["choice_of_experts"] = step.choice_of_experts;
  if (!step.left_out.empty()) document["left_out"] = step.left_out;
  return document;
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

Json replay_json(const ScenarioReport& report) {
  const auto check_json = [](const CheckResult& check) {
    return Json{{"check", check.check}, {"holds", check.holds}, {"detail", check.detail}};
  };
  const auto absent_json = [](const AbsentRow& row) {
    return Json{{"check", row.check}, {"reason", row.reason}, {"asked_for", row.is_asked_for}};
  };
  Json document = {{"scenario", report.name},
                   {"path", report.path},
                   {"source", report.source},
                   {"verdict", verdict_name(report.verdict())},
                   {"checks", json_list(report.checks, check_json)},
                   {"warnings", warnings_json(report.warnings)}};
  if (!report.absent.empty()) document["absent"] = json_list(report.absent, absent_json);
  if (report.pipeline) document["pipeline"] = pipeline_json(*report.pipeline);
  if (report.memory) document["memory"] = memory_json(*report.memory);
  if (report.training) document["training"] = training_json(*report.training);
  document["ledger"] = json_list(report.ledger, ledger_json);
  if (report.step) document["step"] = step_json(*report.step);
  if (!report.bandwidth.empty()) document["bandwidth"] = bandwidth_json(report.bandwidth);
  if (!report.findings.empty()) document["findings"] = json_list(report.findings, finding_json);
  if (report.refusal) add_refusals(document, *report.refusal, report.further_refusals);
  if (report.verdict() != kVerified) document["reproduce"] = report.reproduce;
  return document;
}

}  // namespace verify
