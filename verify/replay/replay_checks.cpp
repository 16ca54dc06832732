#include "verify/replay/replay_checks.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/layout/consumer_traps.h"
#include "sim/tensor/counting_device.h"
#include "verify/cases/case_list.h"
#include "verify/checks/case_replay.h"
#include "verify/checks/collective_round.h"
#include "verify/checks/layout_checks.h"
#include "verify/checks/parameter_count.h"
#include "verify/checks/planted_programs.h"
#include "verify/checks/sharded_layers.h"
#include "verify/checks/text_training.h"
#include "verify/faults/faulty_calls.h"
#include "verify/full_size/full_size_training.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

using Missing = std::optional<std::string>;

// ---- why a check has no row

Missing missing_unless(bool has_row) { return has_row ? Missing() : Missing(""); }

bool runs_the_round(const Replaying& scenario) {
  return scenario.is_partitioned && !scenario.request.program;
}
bool proves_layers(const Replaying& scenario) {
  return runs_the_round(scenario) && !scenario.request.cases.dimensions.has_value();
}

Missing nothing_missing(const Replaying&) { return {}; }
Missing missing_partition(const Replaying& scenario) { return missing_unless(scenario.is_partitioned); }
Missing missing_round(const Replaying& scenario) { return missing_unless(runs_the_round(scenario)); }
Missing missing_program(const Replaying& scenario) {
  return missing_unless(scenario.is_partitioned && scenario.request.program.has_value());
}
Missing missing_suspicion(const Replaying& scenario) {
  return missing_unless(scenario.request.expected.is_suspect);
}
Missing missing_finding(const Replaying& scenario) {
  return missing_unless(scenario.is_partitioned && scenario.request.expected.finding.has_value());
}
Missing missing_plants(const Replaying& scenario) {
  return missing_unless(scenario.is_partitioned && !scenario.faults.empty());
}
Missing missing_case(const Replaying& scenario) {
  return missing_unless(scenario.is_partitioned && scenario.request.cases.dimensions.has_value());
}
Missing missing_sharded_layers(const Replaying& scenario) { return missing_unless(proves_layers(scenario)); }
Missing missing_batch(const Replaying& scenario) {
  return missing_unless(scenario.request.batch.global_batch_size.has_value());
}
Missing missing_parameters(const Replaying& scenario) {
  return missing_unless(scenario.request.expected.parameters.has_value());
}

Missing missing_placement(const Replaying& scenario) {
  if (scenario.request.placement) return {};
  return scenario.request.not_proved.layers;
}

Missing missing_memory(const Replaying& scenario) {
  std::string reason = scenario.request.not_proved.memory;
  if (reason.empty()) reason = why_no_memory(scenario.request);
  if (scenario.request.model.has_shape && reason.empty()) return {};
  return reason;
}

Missing missing_training(const Replaying& scenario) {
  if (!scenario.request.not_proved.training.empty()) return scenario.request.not_proved.training;
  const bool is_left_out = scenario.request.layout_only || scenario.request.leaves_out_reduced;
  return missing_unless(proves_layers(scenario) && (scenario.model || is_left_out));
}

Missing missing_step(const Replaying& scenario) {
  if (!proves_layers(scenario)) return "";
  const FullSizeAnswer answer = can_run_full_size(scenario.request);
  if (!answer.is_asked_for || !answer.reason.empty()) return answer.reason;
  if (scenario.request.every_rank) return {};
  const StepPart part = running_part(scenario.request);
  const std::int64_t calls = step_calls(scenario.request, part);
  if (calls <= kMostFoldedCalls) return {};
  return fmt::format("{} {}{} calls, and at most {} are run without --every-rank",
                     part.replicas == 1 ? "one replica makes"
                                        : fmt::format("{} replicas that exchange tokens make", part.replicas),
                     calls > sim::kMaxSize ? "more than " : "about ", std::min(calls, sim::kMaxSize),
                     kMostFoldedCalls);
}

Missing missing_schedule(const Replaying& scenario) {
  const std::optional<ScheduleRequest>& request = scenario.request.schedule;
  if (!request) return scenario.request.no_schedule;
  const std::int64_t steps = steps_of(request->shape);
  if (steps <= kMostCountedSteps) return {};
  return fmt::format("the schedule has {} steps over all ranks, and at most {} are timed", steps,
                     kMostCountedSteps);
}

// ---- the layout

template <CheckResult (*kCheck)(const sim::Layout&)>
void check_layout(Replaying& scenario) {
  scenario.add(kCheck(scenario.request.layout));
}

void run_partition(Replaying& scenario) {
  scenario.add(check_partition(scenario.request.layout));
  scenario.is_partitioned = scenario.report.checks.back().holds;
}

void run_nodes(Replaying& scenario) {
  const sim::Layout& layout = scenario.request.layout;
  const sim::NodePlacement& nodes = scenario.request.nodes;
  scenario.add(check_nodes(layout, nodes));
  const sim::GroupKind& tp = *layout.find("tp");
  const int crossing = nodes.groups_crossing_node(tp);
  if (crossing == 0) return;
  scenario.report.warnings.push_back(
      {"tp_across_nodes",
       fmt::format(
           "{} of {} tp groups cross a node of {} GPUs: each layer then waits for the network between "
           "nodes, twice forward and twice backward",
           crossing, tp.count(), nodes.gpus_per_node)});
}

void run_layers(Replaying& scenario) {
  const sim::LayerPlacement& placement = *scenario.request.placement;
  auto& warnings = scenario.report.warnings;
  warnings.insert(warnings.end(), placement.warnings.begin(), placement.warnings.end());
  const std::optional<sim::LayerRequest>& layers = scenario.request.layers;
  const std::string wrong = layers ? wrong_layer_count(*layers, placement) : "";
  if (!wrong.empty()) return scenario.add({"layers", false, wrong});
  const std::size_t chunks = placement.stages.front().size();
  scenario.add({"layers", covers_each_layer_once(placement),
                fmt::format("{} layers{} on {} x {}, each exactly once ({})", placement.num_layers,
                            placement.encoder_ranks > 0 ? " a side" : "",
                            counted(static_cast<std::int64_t>(placement.stages.size()), "rank"),
                            counted(static_cast<std::int64_t>(chunks), "chunk"), placement.mode)});
}

void run_expected_groups(Replaying& scenario) {
  for (const ExpectedGroups& expected : scenario.request.expected.groups)
    scenario.add(check_expected_groups(scenario.request.layout, expected.kind, expected.groups));
}

// ---- the model

void run_batch(Replaying& scenario) {
  const BatchOptions& batch = scenario.request.batch;
  const std::int64_t dp = scenario.request.layout.dp;
  scenario.add({"batch", true,
                fmt::format("global batch {} = {} of {} on {}", *batch.global_batch_size,
                            counted(microbatches_of_batch(batch, dp), "microbatch"), batch.micro_batch_size,
                            counted(dp, "replica"))});
}

void run_schedule(Replaying& scenario) {
  scenario.report.pipeline = check_pipeline_schedule(*scenario.request.schedule);
  scenario.add(scenario.report.pipeline->row);
}

void run_parameters(Replaying& scenario) {
  const std::string& published = *scenario.request.expected.parameters;
  const std::int64_t parameters = parameter_count(scenario.request.model.config);
  const bool agrees = agrees_with(parse_figure(published), parameters);
  const std::string active =
      scenario.request.model.config.experts.num_experts == 0
          ? ""
          : fmt::format(" ({} act on a token)", active_parameter_count(scenario.request.model.config));
  scenario.add({"parameters", agrees,
                fmt::format("{} from the shape{}, {} {}", parameters, active, published,
                            agrees ? "as published" : "published")});
}

void run_memory(Replaying& scenario) {
  try {
    scenario.report.memory = scenario_memory(scenario.request);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "memory_not_counted") throw;
    scenario.report.absent.push_back({"memory", error.refusal().rule});
    return;
  }
  scenario.add(scenario.report.memory->row);
}

void run_step(Replaying& scenario) {
  scenario.report.step = full_size_step(scenario.request, running_part(scenario.request));
  scenario.add(scenario.report.step->row);
  const std::vector<sim::Finding>& findings = scenario.report.step->findings;
  scenario.report.findings.insert(scenario.report.findings.end(), findings.begin(), findings.end());
}

void run_sharded_layers(Replaying& scenario) {
  const auto begin = [&](const std::string& row) { scenario.begin(row); };
  for (CheckResult& row : check_sharded_layers(scenario.request, scenario.bench, scenario.proved, begin))
    scenario.add(std::move(row));
}
std::size_t steps_of_sharded_layers(const Replaying& scenario) {
  return sharded_judgements(scenario.request);
}

void run_training(Replaying& scenario) {
  TextTraining training = train_on_text(*scenario.model, scenario.bench, scenario.proved);
  scenario.add(std::move(training.check));
  scenario.report.training = std::move(training.curve);
  if (scenario.request.is_traced)
    scenario.report.trace = trace_training(*scenario.model, scenario.request.world, scenario.faults);
}

void run_case(Replaying& scenario) {
  CaseReplay replayed = replay_case(scenario.request.cases, scenario.faults, all_cases());
  scenario.add(std::move(replayed.row));
  if (replayed.finding) scenario.report.findings.push_back(std::move(*replayed.finding));
}

// ---- virtual ranks

const PlantedProgram& requested_program(const std::string& name) {
  if (const PlantedProgram* program = planted_program(name)) return *program;
  const std::string nearest = nearest_name(name, names_of(planted_programs()));
  refuse_by("unknown_program", "--program", name,
            nearest.empty() ? "shardproof list" : "--program " + nearest);
}

/// Refuses worlds in which planted programs do not run. Every defect needs two ranks and shows in a small
/// world, and some programs exchange a message with every other rank, which is slow in a large one.
void require_program_world(const sim::Layout& layout) {
  constexpr int kLargestWorld = 4096;
  if (layout.grid_size >= 2 && layout.grid_size <= kLargestWorld) return;
  refuse_by("program_world", "--program", counted(layout.grid_size, "rank"), kLargestWorld);
}

/// Runs virtual ranks and keeps their ledger, findings and trace in the report. If the run is traced, it runs
/// on a counting device.
template <typename Run>
void keep_run(Replaying& scenario, const std::string& what, const Run& run_on) {
  const bool is_traced = scenario.request.is_traced && !scenario.model;
  sim::CountingDevice counting(scenario.device);
  sim::RunReport run = run_on(is_traced ? static_cast<sim::Device&>(counting) : scenario.device);
  scenario.report.ledger = std::move(run.ledger);
  scenario.report.findings = std::move(run.findings);
  if (is_traced) scenario.report.trace = traced_run(what, scenario.request.world, std::move(run), counting);
}

void run_collectives(Replaying& scenario) {
  keep_run(scenario, "the collective round", [&](sim::Device& device) {
    RoundReport round = collective_round(scenario.request.world, device);
    scenario.add(std::move(round.check));
    return std::move(round.run);
  });
}

void run_program(Replaying& scenario) {
  const PlantedProgram& program = requested_program(*scenario.request.program);
  require_program_world(scenario.request.layout);
  keep_run(scenario, fmt::format("the program {}", program.name), [&](sim::Device& device) {
    const sim::WorldSpec& world = scenario.request.world;
    const std::vector<Fault> faults = with_calls_before(scenario.faults, world, scenario.device, program.run);
    sim::RunReport run = sim::simulate(world, device, with_faults(program.run, faults));
    if (missing_finding(scenario)) {
      scenario.add({"program", run.ok(),
                    run.ok()
                        ? fmt::format("{} broke no contract; run hash {:016x}", program.name, run.run_hash)
                        : fmt::format("{}: {}", program.name, run.findings.front().sentence)});
    }
    return run;
  });
}

void run_finding(Replaying& scenario) {
  const std::string& expected = *scenario.request.expected.finding;
  const std::vector<sim::Finding>& findings = scenario.report.findings;
  if (findings.empty())
    return scenario.add({"finding", false, fmt::format("expected {}, but nothing was found", expected)});
  const sim::Finding& first = findings.front();
  const bool is_expected = first.code == expected;
  scenario.add({"finding", is_expected,
                is_expected
                    ? fmt::format("{}, as expected: {}", first.code, first.sentence)
                    : fmt::format("expected {}, found {}: {}", expected, first.code, first.sentence)});
}

void run_plants(Replaying& scenario) {
  const std::string unmet = text_of_unmet(scenario.faults);
  if (!unmet.empty()) return scenario.add({"plant", false, unmet});
  std::int64_t met = 0;
  for (const Fault& fault : scenario.faults) met += *fault.met;
  scenario.add(
      {"plant", true,
       fmt::format("{} in {}", counted(std::ssize(scenario.faults), "fault"), counted(met, "call"))});
}

/// A layout that Megatron accepts and then uses wrongly is expected to be warned about.
void run_suspect(Replaying& scenario) {
  const std::vector<sim::Warning>& warnings = scenario.report.warnings;
  const auto trap = std::find_if(warnings.begin(), warnings.end(), sim::is_consumer_trap);
  const bool is_suspect = trap != warnings.end();
  scenario.add({"suspect", is_suspect,
                is_suspect
                    ? fmt::format("{}, as expected", trap->name)
                    : "the scenario expects a layout that Megatron uses wrongly, but none is known here"});
}

}  // namespace

const std::vector<ReplayCheck>& replay_checks() {
  static const std::vector<ReplayCheck> checks = [] {
    std::vector<ReplayCheck> all = {
        {"partition", nothing_missing, run_partition},
        {"orthogonal", missing_partition, check_layout<check_orthogonal>},
        {"products", missing_partition, check_layout<check_products>},
        {"pipelines", missing_partition, check_layout<check_pipelines>},
        {"creation", missing_partition, check_layout<check_creation>},
        {"nodes", missing_partition, run_nodes},
        {"collectives", missing_round, run_collectives, CheckOf::ranks},
        {"sharded P", missing_sharded_layers, run_sharded_layers, CheckOf::reduced, steps_of_sharded_layers},
        {"training", missing_training, run_training, CheckOf::reduced},
        {"step", missing_step, run_step, CheckOf::ranks},
        {"case", missing_case, run_case, CheckOf::ranks},
        {"program", missing_program, run_program, CheckOf::ranks},
        {"finding", missing_finding, run_finding, CheckOf::ranks},
        {"plant", missing_plants, run_plants, CheckOf::ranks},
        {"layers", missing_placement, run_layers},
        {"memory", missing_memory, run_memory},
        {"batch", missing_batch, run_batch},
        {"schedule", missing_schedule, run_schedule},
        {"expected K", nothing_missing, run_expected_groups},
        {"parameters", missing_parameters, run_parameters},
        {"suspect", missing_suspicion, run_suspect},
        {"refusal", nullptr, nullptr},
        {"B collectives", nullptr, nullptr},
        {"B training D", nullptr, nullptr},
        {"B bandwidth", nullptr, nullptr}};
    const std::vector<TextRow> rows = rows_of_table(
#include "checks.tsv.inc"
    );
    SIM_CHECK(rows.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      SIM_CHECK(rows[i].at(0) == all[i].name);
      all[i].proves = rows[i].at(1);
      all[i].asked_by = words_of_cell(rows[i].at(2));
    }
    return all;
  }();
  return checks;
}

}  // namespace verify
