#include "verify/replay/replay.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/checks/parameter_count.h"
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
  report.warnings = request.layout.warnings;
  report.layout = request.layout;
  report.nodes = request.nodes;
  report.schedule = request.schedule;
  report.no_schedule = request.no_schedule;
  Replaying scenario{.request = request, .model = model, .device = device, .report = report};
  for (const ReplayCheck& check : replay_checks()) {
    if (check.run != nullptr && check.applies(scenario)) check.run(scenario);
  }
}

CheckResult refusal_row(const ExpectedRefusal& expected, const std::optional<sim::Refusal>& refusal) {
  if (!refusal) return {"refusal", false, "the scenario expects to be refused, and was not"};
  if (!expected.code.empty() && expected.code != refusal->code) {
    return {"refusal", false,
            fmt::format("expected [{}], got [{}] {}: {}", expected.code, refusal->code, refusal->option,
                        refusal->numbers)};
  }
  return {"refusal", true,
          fmt::format("refused as expected [{}] {}: {}", refusal->code, refusal->option, refusal->numbers)};
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
  const std::optional<sim::Refusal> refusal = report.refusal;
  report = report_on(scenario);
  report.checks = {refusal_row(expected, refusal)};
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
    if (expected.is_expected) expect_refusal(scenario, expected, refused.report);
    return refused;
  }
}

}  // namespace verify
