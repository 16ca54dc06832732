#include "verify/report/replay_json.h"

#include <utility>

#include "verify/output/report_json.h"
#include "verify/replay/replay_summary.h"
#include "verify/report/bandwidth_table.h"
#include "verify/report/numbers_json.h"

namespace verify {

namespace {

/// The ledger of all ranks in a step at full size, and what a rank of each stage computes and holds.
Json step_json(const StepReport& step) {
  Json ledger = Json::array(), multiply_adds = Json::array(), held = Json::array();
  for (const sim::LedgerRow& row : step.ledger) ledger.push_back(ledger_json(row));
  for (const StageWork& stage : step.stages) {
    multiply_adds.push_back(stage.multiply_adds);
    held.push_back({{"parameters", stage.held.parameters},
                    {"gradients", stage.held.gradients},
                    {"optimizer", stage.held.optimizer},
                    {"working", stage.working_bytes ? Json(*stage.working_bytes) : Json()}});
  }
  Json document = {{"ledger", std::move(ledger)},
                   {"multiply_adds_by_stage", std::move(multiply_adds)},
                   {"held_bytes_by_stage", std::move(held)}};
  if (!step.choice_of_experts.empty()) document["choice_of_experts"] = step.choice_of_experts;
  if (!step.left_out.empty()) document["left_out"] = step.left_out;
  return document;
}

}  // namespace

Json replay_json(const ScenarioReport& report) {
  Json checks = Json::array();
  for (const CheckResult& check : report.checks) {
    checks.push_back({{"check", check.check}, {"holds", check.holds}, {"detail", check.detail}});
  }
  Json document = {{"scenario", report.name},     {"path", report.path},
                   {"source", report.source},     {"verdict", verdict_name(report.verdict())},
                   {"checks", std::move(checks)}, {"warnings", warnings_json(report.warnings)}};
  if (!report.absent.empty()) {
    Json absent = Json::array();
    for (const AbsentRow& row : report.absent)
      absent.push_back({{"check", row.check}, {"reason", row.reason}});
    document["absent"] = std::move(absent);
  }
  if (report.pipeline) document["pipeline"] = pipeline_json(*report.pipeline);
  if (report.memory) document["memory"] = memory_json(*report.memory);
  if (report.training) document["training"] = training_json(*report.training);
  Json ledger = Json::array();
  for (const sim::LedgerRow& row : report.ledger) ledger.push_back(ledger_json(row));
  document["ledger"] = std::move(ledger);
  if (report.step) document["step"] = step_json(*report.step);
  if (!report.bandwidth.empty()) document["bandwidth"] = bandwidth_json(report.bandwidth);
  if (!report.findings.empty()) {
    Json findings = Json::array();
    for (const sim::Finding& finding : report.findings) findings.push_back(finding_json(finding));
    document["findings"] = std::move(findings);
  }
  if (report.refusal) add_refusals(document, *report.refusal, report.further_refusals);
  if (report.verdict() != Verdict::verified) document["reproduce"] = report.reproduce;
  return document;
}

}  // namespace verify
