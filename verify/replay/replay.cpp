#include "verify/replay/replay.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/checks/parameter_count.h"
#include "verify/options/refusals.h"
#include "verify/replay/replay_checks.h"

namespace verify {

namespace {

/// Whether replay trains: not with --program or --case, which choose what runs, nor with --forward-only.
bool trains(const ScenarioRequest& request) {
  return !request.program && request.cases.cases.empty() && !request.pipeline.forward_only &&
         train_iters(request.training) > 0;
}

void prove(const ScenarioRequest& request, const std::optional<TrainedModel>& model, sim::Device& device,
           ScenarioReport& report) {
  report.warnings = request.warnings;
  report.layout = request.layout;
  report.nodes = request.nodes;
  report.schedule = request.schedule;
  report.no_schedule = request.no_schedule;
  Replaying scenario{.request = request, .model = model, .device = device, .report = report};
  for (const ReplayCheck& check : replay_checks()) {
    if (check.run != nullptr && check.applies(scenario)) check.run(scenario);
  }
}

/// One of several refusals may be the expected one.
CheckResult refusal_row(const ExpectedRefusal& expected, const ScenarioReport& report) {
  if (!report.refusal) return {"refusal", false, "the scenario expects to be refused, and was not"};
  const auto text = [](const sim::Refusal& refusal) {
    return fmt::format("[{}] {}: {}", refusal.code, refusal.option, refusal.numbers);
  };
  const auto is_expected = [&](const sim::Refusal& refusal) {
    return expected.code.empty() || expected.code == refusal.code;
  };
  if (is_expected(*report.refusal)) return {"refusal", true, "refused as expected " + text(*report.refusal)};
  for (const sim::Refusal& refusal : report.further_refusals)
    if (is_expected(refusal)) return {"refusal", true, "refused as expected " + text(refusal)};
  return {"refusal", false, fmt::format("expected [{}], got {}", expected.code, text(*report.refusal))};
}

ScenarioReport report_on(const Scenario& scenario) {
  ScenarioReport report;
  report.path = scenario.path;
  report.name = scenario.name;
  report.source = scenario.source;
  return report;
}

/// Reduces the report of a scenario that expects to be refused to the row "refusal".
void expect_refusal(const Scenario& scenario, const ExpectedRefusal& expected, ScenarioReport& report) {
  const CheckResult row = refusal_row(expected, report);
  report = report_on(scenario);
  report.checks = {row};
}

}  // namespace

Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device) {
  Replayed replayed{.report = report_on(scenario), .request = std::move(request), .model = {}};
  try {
    if (replayed.request->model.shape)
      parameter_count(*replayed.request->model.shape);  // refuses a bad shape before any work
    if (trains(*replayed.request)) replayed.model = trained_model(*replayed.request);
    prove(*replayed.request, replayed.model, device, replayed.report);
  } catch (const sim::Error& error) {
    replayed.report.refusal = error.refusal();
  }
  if (replayed.request->expected.refusal.is_expected)
    expect_refusal(scenario, replayed.request->expected.refusal, replayed.report);
  return replayed;
}

Replayed replay(const Scenario& scenario, sim::Device& device) {
  ExpectedRefusal expected;
  try {
    expected = expected_refusal(scenario);
    return replay(scenario, scenario_request(scenario), device);
  } catch (const sim::Error& error) {
    Replayed refused{.report = report_on(scenario), .request = {}, .model = {}};
    refused.report.refusal = error.refusal();
    refused.report.further_refusals = further_refusals(error);
    if (expected.is_expected) expect_refusal(scenario, expected, refused.report);
    return refused;
  }
}

}  // namespace verify
