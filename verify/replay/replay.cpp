#include "verify/replay/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "sim/layout/layer_placement.h"
#include "sim/layout/size_rules.h"
#include "sim/tensor/counting_device.h"
#include "verify/cases/case_list.h"
#include "verify/checks/case_replay.h"
#include "verify/checks/collective_round.h"
#include "verify/checks/model_memory.h"
#include "verify/checks/parameter_count.h"
#include "verify/checks/planted_programs.h"
#include "verify/checks/sharded_layers.h"
#include "verify/checks/text_training.h"
#include "verify/options/expectations.h"
#include "verify/options/model_divisions.h"
#include "verify/options/nearest_name.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/requests.h"
#include "verify/options/world_options.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// A larger grid is shown by `groups`, not proven: the proof takes seconds and about 90 bytes a rank.
constexpr std::int64_t kLargestReplayedGrid = 1 << 20;

CheckResult check_parameters(const Settings& settings, const std::string& published) {
  const Figure figure = parse_figure(published);
  const std::int64_t parameters = parameter_count(model_shape(settings));
  const bool agrees = agrees_with(figure, parameters);
  return {
      "parameters", agrees,
      fmt::format("{} from the shape, {} {}", parameters, published, agrees ? "as published" : "published")};
}

// ---- layers and batch -------------------------------------------------------------------------------------

CheckResult check_layers(const sim::LayerPlacement& placement) {
  const std::size_t chunks = placement.stages.front().size();
  return {"layers", covers_each_layer_once(placement),
          fmt::format("{} layers{} on {} x {}, each exactly once ({})", placement.num_layers,
                      placement.encoder_ranks > 0 ? " a side" : "",
                      counted(static_cast<std::int64_t>(placement.stages.size()), "rank"),
                      counted(static_cast<std::int64_t>(chunks), "chunk"), placement.mode)};
}

CheckResult check_batch(const Settings& settings, const sim::Layout& layout) {
  const std::int64_t global = required_number(settings, "global-batch-size");
  const std::int64_t micro = settings.number("micro-batch-size").value_or(1);
  const std::int64_t step = sim::capped_product({micro, layout.dp});
  if (global % step != 0) {
    return {
        "batch", false,
        fmt::format("global batch {} is not a multiple of micro batch {} * dp {}", global, micro, layout.dp)};
  }
  return {"batch", true,
          fmt::format("global batch {} = {} microbatches of {} on {} replicas", global, global / step, micro,
                      layout.dp)};
}

// ---- the whole --------------------------------------------------------------------------------------------

void check_grid_can_be_replayed(const Settings& settings) {
  const std::int64_t ranks = sim::grid_size(parallel_sizes(settings));
  if (ranks <= kLargestReplayedGrid) return;
  sim::refuse({.code = "world_too_large_to_replay",
               .option = settings.has("local-world-size") ? "--local-world-size" : "--world-size",
               .numbers = fmt::format("{} ranks", ranks),
               .rule = fmt::format("replay proves up to {} ranks, member by member", kLargestReplayedGrid),
               .hint = "a smaller world, or shardproof groups"});
}

void check_expectations(const Settings& settings) {
  if (!settings.has("expect-refusal") || settings.choice("expect") == "refused") return;
  refuse_expectation("--expect-refusal", fmt::format("'{}'", settings.text("expect-refusal", "")),
                     "a refusal's code is expected only together with expect = refused", "--expect refused");
}

const PlantedProgram& requested_program(const std::string& name) {
  if (const PlantedProgram* program = planted_program(name)) return *program;
  std::vector<std::string> names;
  for (const PlantedProgram& program : planted_programs()) names.emplace_back(program.name);
  const std::string nearest = nearest_name(name, names);
  sim::refuse({.code = "unknown_program",
               .option = "--program",
               .numbers = fmt::format("'{}'", name),
               .rule = "the programs are those that 'shardproof list' shows",
               .hint = nearest.empty() ? "shardproof list" : "--program " + nearest});
}

/// A mistake takes two ranks, and shows in a small world; some programs exchange a number with every other
/// rank.
void check_program_world(const sim::Layout& layout) {
  constexpr int kLargestWorld = 4096;
  if (layout.grid_size >= 2 && layout.grid_size <= kLargestWorld) return;
  sim::refuse({.code = "program_world",
               .option = "--program",
               .numbers = fmt::format("in a world of {} ranks", layout.grid_size),
               .rule = fmt::format("a program runs on 2 to {} ranks", kLargestWorld),
               .hint = "--world-size 4"});
}

CheckResult check_finding(const std::string& expected, const std::vector<sim::Finding>& findings) {
  if (findings.empty())
    return {"finding", false, fmt::format("expected {}, and nothing was found", expected)};
  const sim::Finding& first = findings.front();
  if (first.code != expected) {
    return {"finding", false, fmt::format("expected {}, found {}: {}", expected, first.code, first.sentence)};
  }
  return {"finding", true, fmt::format("{}, as expected: {}", first.code, first.sentence)};
}

/// Not where the settings name what runs, nor for an evaluation.
bool trains(const Settings& settings) {
  return !settings.has("program") && !settings.has("case") && !settings.flag("forward-only") &&
         train_iters(settings) > 0;
}

/// What virtual ranks say of the layout, or of the program that the settings name.
void run_virtual_ranks(const Settings& settings, const sim::Layout& layout, sim::Device& device,
                       ScenarioReport& report) {
  const sim::WorldSpec spec = requested_world(settings, layout);
  const bool is_traced = settings.has("trace") && !trains(settings);
  sim::CountingDevice counting(device);
  sim::Device& used = is_traced ? counting : device;
  sim::RunReport run;
  std::string what = "the collective round";
  if (settings.has("program")) {
    const PlantedProgram& program = requested_program(settings.text("program", ""));
    check_program_world(layout);
    run = sim::simulate(spec, used, program.run);
    what = fmt::format("the program {}", program.name);
    const std::string said =
        run.ok() ? fmt::format("{} broke no contract; run hash {:016x}", program.name, run.run_hash)
                 : fmt::format("{}: {}", program.name, run.findings.front().sentence);
    if (!settings.has("expect-finding")) report.checks.push_back({"program", run.ok(), said});
  } else {
    RoundReport round = collective_round(spec, used);
    report.checks.push_back(std::move(round.check));
    run = std::move(round.run);
  }
  report.ledger = std::move(run.ledger);
  report.findings = std::move(run.findings);
  if (is_traced) report.trace = traced_run(std::move(what), spec, std::move(run));
  if (settings.has("expect-finding")) {
    report.checks.push_back(check_finding(settings.text("expect-finding", ""), report.findings));
  }
}

/// What only check reads, and what a program that runs instead of the layers leaves unread.
void check_options(const Settings& settings) {
  for (const char* option : {"runs", "max-world"}) {
    if (settings.has(option)) refuse_without_effect(option, "replay");
  }
  for (const char* option : {"case", "property", "dtype", "dimensions"}) {
    if (settings.has("program") && settings.has(option))
      refuse_without_effect(option, "replay' with '--program");
  }
}

/// A step is made of the whole batch.
void check_microbatches(const Settings& settings, const sim::Layout& layout) {
  if (!settings.has("num-microbatches") || !settings.has("global-batch-size")) return;
  const std::int64_t batch = required_number(settings, "global-batch-size");
  const std::int64_t micro = settings.number("micro-batch-size").value_or(1);
  const std::int64_t microbatches = required_number(settings, "num-microbatches");
  if (sim::capped_product({microbatches, micro, layout.dp}) == batch) return;
  sim::refuse({.code = "microbatches_batch",
               .option = "--num-microbatches",
               .numbers = fmt::format("{} microbatches of {} on {} replicas, while the global batch is {}",
                                      microbatches, micro, layout.dp, batch),
               .rule = "the microbatches of all replicas are the global batch",
               .hint = "one of --num-microbatches and --global-batch-size"});
}

/// What `schedule` would show of the pipeline; `more` is given beside the settings.
ScheduleRequest pipeline_schedule(const Settings& settings, Settings more) {
  more.append("schedule", {"1f1b"});  // the word of a replay is that of the virtual ranks
  const ScheduleRequest request = requested_schedule(settings.overridden_by(more));
  sim::check(request.shape);
  return request;
}

/// A batch that gives no schedule is for the check "batch" to judge.
void request_schedule(const Settings& settings, ScenarioReport& report) {
  check_microbatches(settings, *report.layout);
  if (report.layout->pp == 1) return;
  if (!settings.has("num-microbatches") && !settings.has("global-batch-size")) {
    report.no_schedule = "the scenario gives neither num-microbatches nor global-batch-size";
    return;
  }
  try {
    report.schedule = pipeline_schedule(settings, {});
  } catch (const sim::Error& error) {
    const std::string& code = error.refusal().code;
    if (code != "microbatches_div" && code != "schedule_size") throw;
    report.no_schedule = error.what();
  }
}

void train(const TrainedModel& model, const Settings& settings, Bench& bench, ScenarioReport& report) {
  Training training = train_on_text(model, bench);
  report.checks.push_back(std::move(training.check));
  report.training = std::move(training.curve);
  if (settings.has("trace")) report.trace = trace_training(model, settings);
}

/// The scenario's; where it gives no batch, that of twice as many microbatches as a chunk takes at a time: of
/// a larger batch no more are in flight. None where it is too large.
std::optional<ScheduleRequest> schedule_in_flight(const Settings& settings, const ScenarioReport& report) {
  if (report.schedule || settings.has("num-microbatches") || settings.has("global-batch-size"))
    return report.schedule;
  const std::int64_t group =
      settings.number("microbatch-group-size-per-virtual-pipeline-stage").value_or(report.layout->pp);
  Settings batch;
  batch.append("num-microbatches", {std::to_string(2 * group)});
  try {
    return pipeline_schedule(settings, std::move(batch));
  } catch (const sim::Error& error) {
    if (error.refusal().code != "schedule_size") throw;
    return std::nullopt;
  }
}

/// None where the schedule has other chunks than the layers.
std::optional<ActivationRun> activation_run(const Settings& settings, const sim::LayerPlacement& placement,
                                            const ScenarioReport& report) {
  const std::int64_t samples = settings.number("micro-batch-size").value_or(1);
  ActivationRun run{.tokens = samples * required_number(settings, "seq-length") / report.layout->cp,
                    .sequence_parallel = settings.flag("sequence-parallel"),
                    .recompute = settings.has("recompute-granularity")};
  if (report.layout->pp == 1) {
    run.schedule = sim::no_pipelining;
  } else if (const auto schedule = schedule_in_flight(settings, report)) {
    run.schedule = schedule->schedule.function;
    run.pipeline = schedule->shape;
  } else {
    return std::nullopt;
  }
  const auto chunks = static_cast<std::size_t>(run.pipeline.chunks());
  const bool fits = std::all_of(placement.stages.begin(), placement.stages.end(),
                                [&](const auto& stage) { return stage.size() == chunks; });
  return fits ? std::optional(run) : std::nullopt;
}

/// Of a dense model that is trained.
void add_memory(const Settings& settings, const sim::LayerPlacement& placement, ScenarioReport& report) {
  const sim::Layout& layout = *report.layout;
  if (!has_model_shape(settings) || settings.flag("forward-only")) return;
  if (layout.ep > 1 || placement.encoder_ranks > 0 || settings.number("mtp-num-layers").value_or(0) > 0)
    return;
  const ModelShape shape = model_shape(settings);
  constexpr int kMostLayers = 10'000;  // each parameter of each is listed
  constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;
  if (placement.num_layers > kMostLayers || parameter_count(shape) > kMostParameters) {
    report.warnings.push_back(
        {"memory_not_counted", fmt::format("memory is counted of up to {} layers and {} parameters",
                                           kMostLayers, kMostParameters)});
    return;
  }
  report.memory = check_memory(shape, layout, placement, activation_run(settings, placement, report));
  report.checks.push_back(report.memory->row);
}

std::vector<ExpectedGroups> groups_expected(const Settings& settings) {
  std::vector<ExpectedGroups> all;
  for (const std::string& text : settings.texts("expect-groups")) all.push_back(parse_expected_groups(text));
  return all;
}

void prove(const Settings& settings, sim::Device& device, ScenarioReport& report) {
  settings.check();
  check_options(settings);
  check_expectations(settings);
  check_grid_can_be_replayed(settings);
  const sim::Layout layout = requested_layout(settings);
  check_model_divides(settings, layout);
  std::optional<sim::LayerPlacement> placement;  // where their number is there
  if (settings.has_any_of(kLayersSection)) placement = requested_placement(settings, layout.pp);
  if (has_model_shape(settings)) parameter_count(model_shape(settings));
  const std::vector<ExpectedGroups> expected_groups = groups_expected(settings);
  if (settings.has("expect-parameters")) parse_figure(settings.text("expect-parameters", ""));
  std::optional<TrainedModel> model;
  if (trains(settings)) model = trained_model(settings, layout);
  const sim::NodePlacement nodes = node_placement(settings);
  report.warnings = layout.warnings;
  report.layout = layout;
  report.nodes = nodes;
  request_schedule(settings, report);
  auto& checks = report.checks;
  checks.push_back(check_partition(layout));
  if (checks.back().holds) {  // the others count on it
    checks.push_back(check_orthogonal(layout));
    checks.push_back(check_products(layout));
    checks.push_back(check_pipelines(layout));
    checks.push_back(check_creation(layout));
    checks.push_back(check_nodes(layout, nodes));
    run_virtual_ranks(settings, layout, device, report);
    if (settings.has("dimensions")) {
      checks.push_back(replay_case(settings, all_cases()));
    } else if (!settings.has("program")) {
      Bench bench;
      for (CheckResult& row : check_sharded_layers(settings, layout, bench)) checks.push_back(std::move(row));
      if (model) train(*model, settings, bench, report);
    }
  }
  if (placement) {
    report.warnings.insert(report.warnings.end(), placement->warnings.begin(), placement->warnings.end());
    checks.push_back(check_layers(*placement));
    add_memory(settings, *placement, report);
  }
  if (settings.has("global-batch-size")) checks.push_back(check_batch(settings, layout));
  for (const ExpectedGroups& expected : expected_groups)
    checks.push_back(check_expected_groups(layout, expected.kind, expected.groups));
  if (settings.has("expect-parameters")) {
    checks.push_back(check_parameters(settings, settings.text("expect-parameters", "")));
  }
}

/// What is left of a report when the scenario expects to be refused.
CheckResult check_refusal(const Settings& settings, const std::optional<sim::Refusal>& refusal) {
  const std::string code = settings.text("expect-refusal", "");
  if (!refusal) return {"refusal", false, "the scenario expects to be refused, and was not"};
  if (!code.empty() && code != refusal->code) {
    return {"refusal", false,
            fmt::format("expected [{}], got [{}] {}: {}", code, refusal->code, refusal->option,
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

}  // namespace

Verdict ScenarioReport::verdict() const {
  if (refusal) return Verdict::refused;
  const bool expected =
      std::any_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.check == "finding"; });
  if (!findings.empty() && !expected) return Verdict::broken;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  return all_hold ? Verdict::verified : Verdict::falsified;
}

ScenarioReport replay(const Scenario& scenario, sim::Device& device) {
  ScenarioReport report = report_on(scenario);
  bool expect_refused = false;
  try {
    expect_refused = scenario.settings.choice("expect") == "refused";
    prove(scenario.settings, device, report);
  } catch (const sim::Error& error) {
    report.refusal = error.refusal();
  }
  if (!expect_refused) return report;
  ScenarioReport expected = report_on(scenario);
  expected.checks = {check_refusal(scenario.settings, report.refusal)};
  return expected;
}

const std::vector<CheckInfo>& replay_checks() {
  static const std::vector<CheckInfo> checks = {
      {"partition", "every rank is in exactly one group of each kind (embd, pos_embd: at most one)"},
      {"orthogonal", "groups of kinds along different axes share exactly one rank"},
      {"products", "the sizes of complementary kinds multiply to the world"},
      {"pipelines", "dense and expert grid have the same pipelines"},
      {"creation", "each new_group call creates one group, entered by exactly the ranks it lists"},
      {"nodes", "lists and ranks agree on how many tp, dp (and ep) groups cross a node"},
      {"collectives", "every group of every kind reduces, gathers and scatters as defined, on virtual ranks"},
      {"sharded P",
       "property P of check holds for every layer at the scenario's tp and flags, in reduced sizes"},
      {"training",
       "a reduced GPT trained on text equals one device: in the field exactly, in f32 within its spread"},
      {"case", "one setting of a case and property of check holds"},
      {"program", "a rank program keeps every contract: no deadlock, no mismatch, no lost message"},
      {"finding", "a program's planted defect is found, by its name"},
      {"layers", "every layer is on exactly one stage"},
      {"memory", "what ranks hold adds up to the model; bytes of the stage that holds most"},
      {"batch", "the global batch divides over replicas and microbatches"},
      {"expected K", "kind K has the groups that the source prints"},
      {"parameters", "the shape has the published number of parameters"},
      {"refusal", "a scenario that must be refused is, for its stated reason"},
      {"B collectives",
       "on backend B every operation in every kind of group does what it does on virtual ranks"},
      {"B training D", "on backend B the training, in dtype D, is that of virtual ranks"},
      {"B bandwidth", "between processes collectives are timed, and no element of a result is wrong"},
  };
  return checks;
}

}  // namespace verify
