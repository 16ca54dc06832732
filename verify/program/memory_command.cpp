#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/memory/assumed_sizes.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/memory_answer.h"
#include "verify/program/run_from.h"
#include "verify/report/replay_forms.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario_request.h"
#include "verify/sweep/estimated_step.h"
#include "verify/views/run_view.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

ScenarioRequest requested_memory(const Scenario& scenario) {
  ScenarioRequest request = scenario_request(scenario, Asked::sizes);
  require_modelled(scenario.run, Unproved::layers);
  require_memory(scenario, request);
  return request;
}

/// Returns what the run says of an allocation that failed; nothing where it is not asked.
std::optional<OutOfMemory> said_of_failure(const Settings& settings) {
  if (!settings.has("out-of-memory")) return std::nullopt;
  return out_of_memory(settings.text("out-of-memory", ""));
}

/// Judges a run that failed by the memory that PyTorch says its tensors had, unless another one is given.
Scenario judged_by(const std::optional<OutOfMemory>& said, const Scenario& scenario) {
  constexpr const char* kMemory = "gpu-memory";
  if (!said || !said->gpu || scenario.settings.has(kMemory)) return scenario;
  Settings settings = scenario.settings;
  settings.append(kMemory, {fmt::format("{}B", std::max<std::int64_t>(1, said->gpu->for_tensors()))});
  return with_settings(scenario, settings);
}

Json json_of(const MemoryAnswer& answer) {
  const auto remedy_json = [](const Remedy& remedy) {
    return Json{{"options", remedy.options},
                {"peak_bytes", remedy.peak_bytes},
                {"pipeline_rank", remedy.stage},
                {"fits", remedy.fits}};
  };
  const auto name_of = [](const AccountedArgument& argument) { return "--" + argument.name; };
  const MemoryReport& report = answer.report;
  return {{"stages", memory_stages_json(report)},
          {"workspace_bytes", report.stages.front().workspace},
          {"gpu_memory_bytes", report.gpu_memory},
          {"fullest_pipeline_rank", report.fullest()},
          {"fits", answer.fits()},
          {"doubted_by", json_list(answer.doubtful(), name_of)},
          {"assumed", assumed_json(answer.assumed)},
          {"vocabulary", answer.law ? law_json(*answer.law) : Json()},
          {"advice", json_list(answer.remedies, remedy_json)},
          {"not_modelled", json_list(answer.request.uncounted, name_of)}};
}

std::string table_of(const MemoryReport& report) {
  TextTable table({"pipeline rank", ">parameters", ">gradients", ">optimizer", ">workspaces",
                   ">between steps", ">activations", ">logits", ">temporary", ">largest", "in"});
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    const StageMemory& memory = report.stages[stage];
    const auto in_a_step = [&](std::int64_t bytes) {
      return report.has_activations ? byte_text(bytes) : "-";
    };
    table.row(stage, byte_text(memory.parameters), byte_text(memory.gradients),
              report.state.has_known_optimizer ? byte_text(memory.optimizer()) : "not known",
              byte_text(memory.workspaces_and_buffers()), byte_text(memory.static_bytes()),
              in_a_step(memory.activations + memory.attention_mask), in_a_step(memory.logits_and_loss),
              in_a_step(memory.temporary), in_a_step(memory.peak_bytes()),
              report.has_activations ? memory.peak_in : "-");
  }
  return table.text();
}

std::vector<sim::Warning> warnings_of(const MemoryAnswer& answer) {
  const Scenario& scenario = answer.scenario;
  const ScenarioRequest& request = answer.request;
  std::vector<sim::Warning> warnings = warnings_of_file(scenario.run);
  std::ranges::move(warnings_of_refusals(scenario.run, scenario.settings.number("world-size")),
                    std::back_inserter(warnings));
  for (const std::string& sentence : argument_sentences(request.uncounted))
    warnings.push_back({"not_modelled", sentence});
  if (!answer.report.has_activations) {
    const std::string reason = why_no_activations(request);
    warnings.push_back({"activations_not_counted",
                        fmt::format("{}: only what is held between steps is counted",
                                    reason.empty() ? "a rank may hold more than 2^53 bytes" : reason)});
  }
  std::ranges::move(option_warnings(scenario.settings, "memory"), std::back_inserter(warnings));
  if (scenario.run.is_given())
    std::ranges::move(context_warnings(scenario.settings), std::back_inserter(warnings));
  if (request.model.config.experts.num_experts > 0) {
    warnings.push_back({"routing_is_even",
                        "the rows of experts are those of a router that spreads tokens evenly; a rank with "
                        "more popular experts holds more"});
  }
  return warnings;
}

/// What the command shows.
struct Shown {
  MemoryAnswer answer;
  std::optional<MemoryFailure> failure;
  std::optional<EstimatedStep> estimate;
};

Json json_of(const Shown& shown) {
  Json document = json_of(shown.answer);
  if (shown.failure) document["out_of_memory"] = json_of(*shown.failure);
  if (shown.estimate) document["estimate"] = estimate_json(*shown.estimate);
  return document;
}

std::string text_of(const Shown& shown) {
  const MemoryAnswer& answer = shown.answer;
  const StateBytes& state = answer.report.state;
  const std::string taken = assumed_text(answer.assumed) + (answer.law ? law_text(*answer.law) : "");
  return (shown.failure ? text_of(*shown.failure, answer.report) + "\n" : "") +
         verdict_text(answer, shown.failure.has_value()) + taken + (taken.empty() ? "" : "\n") +
         fmt::format("Memory of a rank, by pipeline stage ({}; {})\n\n", state.dtypes,
                     state.is_distributed ? "ZeRO-1" : "no ZeRO-1") +
         table_of(answer.report) + (shown.estimate ? "\n" + estimate_text(*shown.estimate) : "") +
         warnings_text(warnings_of(answer));
}

int exit_code_of(const Shown& shown) {
  if (shown.failure && shown.failure->said.gpu) return kFalsified;
  if (!shown.answer.report.gpu_memory) return kVerified;
  const std::optional<bool> fits = shown.answer.fits();
  if (!fits || !shown.answer.doubtful().empty()) return kInPart;
  return *fits ? kVerified : kFalsified;
}

}  // namespace

int run_memory(const Call& call) {
  const Settings given = requested_scenario(call.line).settings;
  const bool is_sweep = given.flag("sweep");
  if (!is_sweep || call.line.run.is_given()) require_answers(call.line);
  const AssumedSizes assumed = with_assumed_sizes(call.line, !is_sweep);
  const Scenario asked_for = requested_scenario(assumed.line);
  if (is_sweep) return run_memory_sweep(call, asked_for, assumed);
  require_no_sweep(given);
  const std::optional<OutOfMemory> said = said_of_failure(given);
  if (said && !assumed.knows_vocabulary) required_number(given, "vocab-size");  // tensors have its size
  const Scenario scenario = judged_by(said, asked_for);
  std::optional<Machine> machine;
  std::optional<ScenarioRequest> request;
  sim::Refusals refusals;
  refusals.keep([&] { request = requested_memory(scenario); });
  refusals.keep([&] { machine = requested_machine(given); });
  refusals.throw_if_any();
  Shown shown{.answer = memory_answer(scenario, *std::move(request), assumed), .failure = {}, .estimate = {}};
  if (said) shown.failure = memory_failure(*said, shown.answer.request, shown.answer.report);
  if (machine) shown.estimate = estimated_step(shown.answer.request, *machine);
  if (asks_for_json(call.line))
    write_json(call, json_of(shown));
  else
    call.output.out << text_of(shown);
  return exit_code_of(shown);
}

}  // namespace verify
