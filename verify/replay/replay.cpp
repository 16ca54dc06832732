#include "verify/replay/replay.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/checks/parameter_count.h"
#include "verify/replay/replay_checks.h"

namespace verify {

namespace {

/// Whether replay trains: not with --program or --case, which choose what runs, nor with --forward-only.
bool trains(const ScenarioRequest& request) {
  return !request.layout_only && !request.program && request.cases.cases.empty() &&
         !request.pipeline.forward_only && train_iters(request.training) > 0;
}

/// Whether the scenario leaves a check out because virtual ranks would run.
bool leaves_out(const ReplayCheck& check, const Replaying& scenario) {
  return scenario.request.layout_only && check.of == CheckOf::ranks;
}

/// Whether a check makes rows.
bool runs(const ReplayCheck& check, const Replaying& scenario) {
  return check.run != nullptr && check.applies(scenario) && !leaves_out(check, scenario);
}

/// Returns why a check that does not run has no row; "" where nobody would expect one.
std::string absence(const ReplayCheck& check, const Replaying& scenario) {
  if (check.run != nullptr && check.applies(scenario)) return "--layout-only";
  return check.absence == nullptr ? "" : check.absence(scenario);
}

/// Returns the steps of a check. Where the check will be refused, its steps count as one.
std::size_t steps_of(const ReplayCheck& check, const Replaying& scenario) {
  if (!runs(check, scenario)) return 0;
  if (check.steps == nullptr) return 1;
  try {
    return check.steps(scenario);
  } catch (const sim::Error&) {
    return 1;
  }
}

/// Returns the steps of a scenario whose layout is partitioned.
std::size_t steps_of(Replaying& scenario) {
  scenario.is_partitioned = true;
  std::size_t steps = 0;
  for (const ReplayCheck& check : replay_checks()) steps += steps_of(check, scenario);
  scenario.is_partitioned = false;
  return steps;
}

void prove(const ScenarioRequest& request, const std::optional<TrainedModel>& model, sim::Device& device,
           const BeforeStep& before_step, ScenarioReport& report) {
  report.warnings = request.layout.warnings;
  report.layout = request.layout;
  report.nodes = request.nodes;
  report.schedule = request.schedule;
  report.no_schedule = request.no_schedule;
  Replaying scenario{
      .request = request, .model = model, .device = device, .report = report, .before_step = before_step};
  scenario.steps = steps_of(scenario);
  for (const ReplayCheck& check : replay_checks()) {
    if (!runs(check, scenario)) {
      const std::string reason = absence(check, scenario);
      if (!reason.empty()) report.absent.push_back({check.name, reason});
      continue;
    }
    if (check.steps == nullptr) scenario.begin(check.name);
    check.run(scenario);
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
  report.options = scenario.settings.as_options();
  return report;
}

/// Reduces the report of a scenario that expects to be refused to the row "refusal".
void expect_refusal(const Scenario& scenario, const ExpectedRefusal& expected, ScenarioReport& report) {
  const std::optional<sim::Refusal> refusal = report.refusal;
  report = report_on(scenario);
  report.checks = {refusal_row(expected, refusal)};
}

}  // namespace

Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device,
                const BeforeStep& before_step) {
  Replayed replayed{.report = report_on(scenario), .request = std::move(request), .model = {}};
  try {
    if (replayed.request->model.shape)
      parameter_count(*replayed.request->model.shape);  // refuses a bad shape before any work
    if (trains(*replayed.request)) replayed.model = trained_model(*replayed.request);
    prove(*replayed.request, replayed.model, device, before_step, replayed.report);
  } catch (const sim::Error& error) {
    replayed.report.refusal = error.refusal();
  }
  if (replayed.request->expected.refusal.is_expected)
    expect_refusal(scenario, replayed.request->expected.refusal, replayed.report);
  return replayed;
}

Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step) {
  ExpectedRefusal expected;
  try {
    expected = expected_refusal(scenario);
    return replay(scenario, scenario_request(scenario), device, before_step);
  } catch (const sim::Error& error) {
    Replayed refused{.report = report_on(scenario), .request = {}, .model = {}};
    refused.report.refusal = error.refusal();
    if (expected.is_expected) expect_refusal(scenario, expected, refused.report);
    return refused;
  }
}

}  // namespace verify
