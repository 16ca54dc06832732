#include "verify/replay/replay.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/checks/parameter_count.h"
#include "verify/replay/replay_checks.h"

namespace verify {

namespace {

/// Whether replay trains: not with --program or --case, which choose what runs, nor with --forward-only.
bool trains(const ScenarioRequest& request) {
  return !request.layout_only && !request.leaves_out_reduced && !request.program &&
         request.cases.cases.empty() && !request.pipeline.forward_only &&
         request.not_proved.training.empty() && train_iters(request.training) > 0;
}

/// Returns why the scenario leaves a check out, whether it could run or not; "" if it does not.
const char* why_left_out(const ReplayCheck& check, const Replaying& scenario) {
  if (scenario.request.layout_only && check.of != CheckOf::layout) return "--layout-only";
  const bool is_reduced = scenario.request.leaves_out_reduced && check.of == CheckOf::reduced;
  return is_reduced ? "it does not depend on the sizes of the run; --prove adds it" : "";
}

bool leaves_out(const ReplayCheck& check, const Replaying& scenario) {
  return *why_left_out(check, scenario) != '\0';
}

/// Whether a check makes rows.
bool runs(const ReplayCheck& check, const Replaying& scenario) {
  return check.run != nullptr && !leaves_out(check, scenario) && !check.missing(scenario);
}

/// Returns why a check that does not run has no row; "" if a reader does not expect one.
std::string absence(const ReplayCheck& check, const Replaying& scenario) {
  return check.run == nullptr ? "" : check.missing(scenario).value_or(why_left_out(check, scenario));
}

/// Whether a row that is missing was asked for: by an option that the row answers, or by a run whose
/// arguments are the reason. Who asks for the layout alone asks for nothing that ranks would run.
bool is_asked_for(const ReplayCheck& check, const Replaying& scenario, const Settings& settings) {
  if (leaves_out(check, scenario)) return false;
  const NotProved& not_proved = scenario.request.not_proved;
  const std::array<std::string_view, 3> of_the_run = {not_proved.layers, not_proved.memory,
                                                      not_proved.training};
  const std::string& reason = scenario.report.absent.back().reason;
  const bool is_of_the_run = std::ranges::find(of_the_run, reason) != of_the_run.end();
  return is_of_the_run ||
         std::ranges::any_of(check.asked_by, [&](const auto& option) { return settings.has(option); });
}

/// Returns the number of steps of a check. A check that will be refused counts as one step.
std::size_t steps_of_check(const ReplayCheck& check, const Replaying& scenario) {
  if (!runs(check, scenario)) return 0;
  if (check.steps == nullptr) return 1;
  try {
    return check.steps(scenario);
  } catch (const sim::Error&) {
    return 1;
  }
}

/// Returns the number of steps of a scenario, if its check "partition" holds.
std::size_t steps_of_all(Replaying& scenario) {
  scenario.is_partitioned = true;
  std::size_t steps = 0;
  for (const ReplayCheck& check : replay_checks()) steps += steps_of_check(check, scenario);
  scenario.is_partitioned = false;
  return steps;
}

void prove(const Settings& settings, const ScenarioRequest& request, const std::optional<TrainedModel>& model,
           sim::Device& device, const BeforeStep& before_step, ProvedSettings& proved,
           ScenarioReport& report) {
  report.allows_skipped = settings.flag("allow-skipped");
  report.warnings = request.warnings;
  report.layout = request.layout;
  report.nodes = request.nodes;
  report.schedule = request.schedule;
  report.no_schedule = request.no_schedule;
  Replaying scenario{.request = request,
                     .model = model,
                     .device = device,
                     .proved = proved,
                     .report = report,
                     .before_step = before_step};
  scenario.faults = parsed_faults(request.cases.plants);
  scenario.bench.plant(scenario.faults);
  scenario.steps = steps_of_all(scenario);
  for (const ReplayCheck& check : replay_checks()) {
    if (!runs(check, scenario)) {
      const std::string reason = absence(check, scenario);
      if (!reason.empty()) report.absent.push_back({check.name, reason});
    } else {
      if (check.steps == nullptr) scenario.begin(check.name);
      check.run(scenario);
    }
    const bool is_new = !report.absent.empty() && report.absent.back().check == check.name;
    if (is_new) report.absent.back().is_asked_for = is_asked_for(check, scenario, settings);
  }
}

/// One of several refusals may be the expected one.
CheckResult refusal_row(const ExpectedRefusal& expected, const ScenarioReport& report) {
  if (!report.refusal) return {"refusal", false, "the scenario expects to be refused, but it was not"};
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
  report.options = scenario.settings.as_options();
  return report;
}

/// Reduces the report of a scenario that expects to be refused to the row "refusal".
void expect_refusal(const Scenario& scenario, const ExpectedRefusal& expected, ScenarioReport& report) {
  const CheckResult row = refusal_row(expected, report);
  report = report_on(scenario);
  report.checks = {row};
}

}  // namespace

Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device,
                const BeforeStep& before_step, ProvedSettings& proved) {
  Replayed replayed{.report = report_on(scenario), .request = std::move(request), .model = {}};
  try {
    if (replayed.request->model.has_shape)
      parameter_count(replayed.request->model.config);  // refuses a bad shape before any work
    if (trains(*replayed.request)) replayed.model = trained_model(*replayed.request);
    prove(scenario.settings, *replayed.request, replayed.model, device, before_step, proved, replayed.report);
  } catch (const sim::Error& error) {
    replayed.report.refusal = error.refusal();
  }
  if (replayed.request->expected.refusal.is_expected)
    expect_refusal(scenario, replayed.request->expected.refusal, replayed.report);
  return replayed;
}

Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step,
                ProvedSettings& proved) {
  ExpectedRefusal expected;
  try {
    expected = expected_refusal(scenario.settings);
    return replay(scenario, scenario_request(scenario), device, before_step, proved);
  } catch (const sim::Error& error) {
    Replayed refused{.report = report_on(scenario), .request = {}, .model = {}};
    refused.report.refusal = error.refusal();
    refused.report.further_refusals = sim::further_refusals(error);
    if (expected.is_expected) expect_refusal(scenario, expected, refused.report);
    return refused;
  }
}

Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step) {
  ProvedSettings proved;
  return replay(scenario, device, before_step, proved);
}

}  // namespace verify
