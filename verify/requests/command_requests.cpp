#include "verify/requests/command_requests.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <thread>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/backend_choice.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

/// Returns the scenario, if one is given, with options of the command line replacing its own.
Scenario single_scenario(const CommandLine& line) {
  Scenario scenario = requested_scenario(line);
  sim::Refusals refusals;
  refusals.keep([&] { require_modelled(scenario.run, Unproved::groups); });
  refusals.keep([&] { require_parsed_words(scenario.run); });
  refusals.throw_if_any();
  scenario.settings.check();
  return scenario;
}

/// Adds the warnings about what nobody can read of a run, and about what Megatron refuses of it.
void add_warnings_of_run(const Scenario& scenario, std::vector<sim::Warning>& warnings) {
  std::ranges::move(warnings_of_file(scenario.run), std::back_inserter(warnings));
  std::ranges::move(warnings_of_refusals(scenario.run, scenario.settings.number("world-size")),
                    std::back_inserter(warnings));
}

constexpr const char* kSizes = "param-sizes";
constexpr const char* kShared = "shared-embedding";

/// Reads a list of 64-bit numbers: sizes of parameters do not fit into 32 bits.
std::vector<std::int64_t> whole_numbers(const Settings& settings, const char* option) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : settings.texts(option)) {
    const std::optional<std::int64_t> number = whole_number(word);
    if (!number) refuse_by("not_a_number/list", std::string("--") + option, word);
    numbers.push_back(*number);
  }
  return numbers;
}

/// Returns the model whose parameters are shown.
sim::GptConfig requested_model(const Settings& settings) {
  const std::vector<std::string> missing = missing_of_model_shape(settings);
  if (missing == missing_of_model_shape({}))
    refuse_by("missing_option/sizes", "--param-sizes", fmt::join(missing, ", --"));
  return model_shape(settings);
}

/// Refuses the sizes of a model on a command line that also gives the sizes of parameters. Those of a
/// scenario are left alone.
void require_no_shape(const CommandLine& line) {
  for (const OptionInfo& option : option_vocabulary()) {
    const bool is_of_shape = overlap(option.readers, Reader::shards) &&
                             overlap(option.readers, Reader::replay) && !option.is_of_a_call() &&
                             option.section != kTrainingSection;
    if (is_of_shape && line.settings.has(option.name))
      refuse_without_effect(option.name, "shards' with '--param-sizes");
  }
}

std::vector<sim::BufferParameter> requested_parameters(const Settings& settings) {
  std::vector<sim::BufferParameter> parameters;
  for (const std::int64_t elements : whole_numbers(settings, kSizes)) parameters.push_back({elements});
  for (const std::int64_t index : whole_numbers(settings, kShared)) {
    if (index < 0 || index >= std::ssize(parameters))
      refuse_by("no_such_parameter", "--shared-embedding", index,
                counted(std::ssize(parameters), "parameter"));
    parameters[static_cast<std::size_t>(index)].shared_embedding = true;
  }
  return parameters;
}

std::optional<std::int64_t> requested_bucket_size(const Settings& settings) {
  if (!settings.has("bucket-size")) return std::nullopt;
  const std::vector<std::int64_t> given = whole_numbers(settings, "bucket-size");
  if (given.size() == 1) return given.front();
  refuse_by("buffer_sizes/bucket", "--bucket-size", counted(std::ssize(given), "number"));
}

sim::BufferConfig requested_config(const Settings& settings) {
  return {.owners = static_cast<int>(settings.number("data-parallel-size").value_or(1)),
          .bucket_size = requested_bucket_size(settings),
          .distributed_optimizer = !settings.flag("no-distributed-optimizer"),
          .pad_for_high_nccl_busbw = settings.flag("pad-buckets-for-high-nccl-busbw")};
}

}  // namespace

Scenario requested_scenario(const CommandLine& line) {
  if (line.scenarios.size() > 1)
    refuse_by("one_scenario", line.scenarios[1], line.scenarios.size(), line.command);
  return line.scenarios.empty() ? scenario_of(line) : read_scenario(line.scenarios[0], line);
}

GroupsRequest groups_request(const CommandLine& line) {
  const Scenario scenario = single_scenario(line);
  const Settings& settings = scenario.settings;
  std::optional<sim::Layout> layout;
  std::optional<GroupDump> against;
  sim::Refusals refusals;
  refusals.keep([&] { layout = requested_layout(settings); });
  refusals.keep([&] {
    if (settings.has("against")) against = read_group_dump(settings.text("against", ""));
  });
  refusals.throw_if_any();
  add_warnings_of_run(scenario, layout->warnings);
  return {.layout = *std::move(layout),
          .nodes = node_placement(settings),
          .kinds = settings.texts("kind"),
          .rank = settings.number("rank"),
          .against = std::move(against)};
}

InspectRequest inspect_request(const CommandLine& line) {
  if (line.scenarios.empty()) refuse_by("missing_option/dump", "DUMP");
  const Scenario scenario = scenario_of(line);
  require_modelled(scenario.run, Unproved::groups);
  const Settings& settings = scenario.settings;
  settings.check();
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  InspectRequest request{.paths = line.scenarios,
                         .rank_from = settings.text("rank-from", ""),
                         .threads = static_cast<int>(settings.number("threads").value_or(cores)),
                         .shows_all = settings.flag("all"),
                         .layout_of_world = {}};
  request.layout_of_world = [settings](int world_size) -> std::optional<sim::Layout> {
    if (!settings.has_any_of(kLayoutSection)) return std::nullopt;
    Settings sized = settings;
    if (!sized.has("world-size")) sized.append("world-size", {std::to_string(world_size)});
    return requested_layout(sized);
  };
  return request;
}

LayersRequest layers_request(const CommandLine& line) {
  const Scenario scenario = single_scenario(line);
  require_modelled(scenario.run, Unproved::layers);
  const Settings& settings = scenario.settings;
  // With a world size the whole layout is checked, and its pp is used, which the legacy rules may clamp.
  std::int64_t pipeline_ranks = settings.number("pipeline-model-parallel-size").value_or(1);
  LayersRequest request{.placement = {}, .rules = settings.choice("rules"), .warnings = {}};
  sim::Refusals refusals;
  refusals.keep([&] {
    if (!settings.has("world-size")) return;
    const sim::Layout layout = requested_layout(settings);
    pipeline_ranks = layout.pp;
    request.warnings = layout.warnings;
  });
  keep_megatron_refusals(settings, Reader::layers, refusals);
  refusals.keep([&] { request.placement = requested_placement(settings, pipeline_ranks); });
  refusals.throw_if_any();
  request.warnings.insert(request.warnings.end(), request.placement.warnings.begin(),
                          request.placement.warnings.end());
  add_warnings_of_run(scenario, request.warnings);
  return request;
}

ScheduleCommandRequest schedule_request(const CommandLine& line) {
  const Scenario scenario = single_scenario(line);
  const Settings& settings = scenario.settings;
  ScheduleCommandRequest request;
  if (settings.has("svg")) request.svg = settings.text("svg", "");
  sim::Refusals refusals;
  refusals.keep([&] { request.schedule = requested_schedule(settings); });
  keep_megatron_refusals(settings, Reader::schedule, refusals);
  refusals.throw_if_any();
  add_warnings_of_run(scenario, request.warnings);
  return request;
}

ShardsRequest shards_request(const CommandLine& line) {
  const Settings settings = single_scenario(line).settings;
  ShardsRequest request{.parameters = {}, .model = {}, .config = requested_config(settings)};
  if (settings.has(kSizes)) {
    require_no_shape(line);
    request.parameters = requested_parameters(settings);
    return request;
  }
  if (line.settings.has(kShared)) refuse_without_effect(kShared, "shards' without '--param-sizes");
  sim::Refusals refusals;
  refusals.keep([&] { request.model = requested_model(settings); });
  keep_megatron_refusals(settings, Reader::shards, refusals);
  refusals.throw_if_any();
  const std::int64_t tp = settings.number("tensor-model-parallel-size").value_or(1);
  request.tensor_model_parallel_size = static_cast<int>(tp);
  request.stage = static_cast<int>(settings.number("stage").value_or(0));
  request.expert_model_parallel_size =
      static_cast<int>(settings.number("expert-model-parallel-size").value_or(1));
  request.expert_tensor_parallel_size =
      static_cast<int>(settings.number("expert-tensor-parallel-size").value_or(tp));
  return request;
}

CaseOptions case_request(const CommandLine& line, Reader reader) {
  const Settings settings = single_scenario(line).settings;
  require_read_by(settings, reader, line.command);
  return case_options(settings);
}

std::string arguments_of(const CommandLine& line, const std::string& without) {
  Settings settings = line.settings;
  settings.remove(without);
  const bool reads_input = settings.text("from", "") == "-";
  return settings.as_command_line() + (reads_input ? " < FILE" : "");
}

bool asks_for_json(const CommandLine& line) { return line.settings.choice("format") == "json"; }

}  // namespace verify
