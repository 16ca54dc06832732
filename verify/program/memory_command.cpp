#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/comm/process_group.h"
#include "verify/checks/parameter_count.h"
#include "verify/megatron_rules/memory_arguments.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/megatron_rules/run_validation.h"
#include "verify/memory/fitting.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/output/warnings_text.h"
#include "verify/program/commands.h"
#include "verify/program/memory_failure.h"
#include "verify/program/memory_sweep.h"
#include "verify/program/run_from.h"
#include "verify/report/numbers_json.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/context_options.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario_request.h"
#include "verify/sweep/estimated_step.h"
#include "verify/views/run_view.h"

namespace verify {

namespace {

ScenarioRequest requested_memory(const Scenario& scenario) {
  std::optional<ScenarioRequest> request;
  sim::Refusals refusals;
  refusals.keep([&] { require_model_shape(scenario.settings); });
  refusals.keep([&] { request = scenario_request(scenario); });
  refusals.throw_if_any();
  require_modelled(scenario.run, Unproved::layers);
  require_memory(scenario, *request);
  return *std::move(request);
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

/// What would help a run that does not fit; empty for one that fits, or is not judged.
std::vector<Remedy> help_for(const Scenario& scenario, const MemoryReport& report) {
  return report.fits() == false ? remedies(scenario, report) : std::vector<Remedy>();
}

Json as_json(const Scenario& scenario, const MemoryReport& report, const ScenarioRequest& request) {
  Json advice = Json::array();
  for (const Remedy& remedy : help_for(scenario, report)) {
    advice.push_back({{"options", remedy.options},
                      {"peak_bytes", remedy.peak_bytes},
                      {"pipeline_rank", remedy.stage},
                      {"fits", remedy.fits}});
  }
  Json not_modelled = Json::array();
  for (const AccountedArgument& argument : request.uncounted) not_modelled.push_back("--" + argument.name);
  return {{"stages", memory_stages_json(report)},
          {"workspace_bytes", report.stages.front().workspace},
          {"gpu_memory_bytes", report.gpu_memory ? Json(*report.gpu_memory) : Json()},
          {"fullest_pipeline_rank", report.fullest()},
          {"fits", report.fits() ? Json(*report.fits()) : Json()},
          {"advice", std::move(advice)},
          {"not_modelled", std::move(not_modelled)}};
}

/// The stages of which each is like the one before it are one row.
std::string table_of(const MemoryReport& report) {
  TextTable table({{"pipeline rank"},
                   {"parameters", Align::right},
                   {"gradients", Align::right},
                   {"optimizer", Align::right},
                   {"workspaces", Align::right},
                   {"between steps", Align::right},
                   {"activations", Align::right},
                   {"logits", Align::right},
                   {"temporary", Align::right},
                   {"largest", Align::right},
                   {"in"}});
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    const StageMemory& memory = report.stages[stage];
    const auto in_a_step = [&](std::int64_t bytes) {
      return report.has_activations ? byte_text(bytes) : "-";
    };
    table.add({fmt::format("{}", stage), byte_text(memory.parameters), byte_text(memory.gradients),
               byte_text(memory.optimizer()), byte_text(memory.workspaces_and_buffers()),
               byte_text(memory.static_bytes()), in_a_step(memory.activations + memory.attention_mask),
               in_a_step(memory.logits_and_loss), in_a_step(memory.temporary), in_a_step(memory.peak_bytes()),
               report.has_activations ? memory.peak_in : "-"});
  }
  return table.text();
}

/// Whether what is not counted leaves less than is counted, and nothing else is in doubt.
bool holds_less_than_counted(const ScenarioRequest& request) {
  return !request.uncounted.empty() && std::ranges::all_of(request.uncounted, holds_less);
}

/// Returns a sentence about arguments that are not counted; "" where there are none. What is counted `fits`.
std::string doubt_about(const ScenarioRequest& request, bool fits) {
  constexpr std::size_t kMostTold = 3;
  std::vector<std::string> names;
  for (const AccountedArgument& argument : request.uncounted) names.push_back("--" + argument.name);
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kMostTold);
  names.resize(names.size() - more);
  if (fits && holds_less_than_counted(request)) {
    return fmt::format(
        " What {} to the host is counted as if it stayed.",
        names.size() == 1 ? names[0] + " moves" : fmt::format("{} move", fmt::join(names, ", ")));
  }
  return fmt::format(" Whether the run does is not known: {}{} {} not counted as the run has {}.",
                     fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                     names.size() == 1 ? "is" : "are", names.size() == 1 ? "it" : "them");
}

/// Returns "stage 1 (ranks 8 to 15)": the global ranks of a pipeline stage.
std::string text_of_stage(const sim::Layout& layout, std::size_t stage) {
  const sim::GroupKind* pipelines = layout.find("pp");
  std::vector<int> ranks;
  for (int i = 0; pipelines != nullptr && i < layout.grid_size; ++i) {
    const auto place = pipelines->place_of(layout.first_rank + i);
    if (place && std::cmp_equal(place->position, stage)) ranks.push_back(layout.first_rank + i);
  }
  if (ranks.empty()) return fmt::format("stage {}", stage);
  const bool is_run = ranks.size() > 2 && ranks.back() - ranks.front() + 1 == std::ssize(ranks);
  return fmt::format(
      "stage {} ({})", stage,
      is_run ? fmt::format("ranks {} to {}", ranks.front(), ranks.back()) : sim::text_of_ranks(ranks));
}

std::string text_of_room(std::int64_t left) {
  return fmt::format(
      " {} are left for the CUDA context, the buffers of NCCL and the fragments of the "
      "allocator, which are not counted{}.",
      byte_text(left), left < kTight ? " and often need more" : "");
}

/// Returns a sentence where a run needs more than so many GB, but not than as many GiB; else "". GPUs are
/// sold with a number of GB, and have nearly as many GiB.
std::string text_of_nominal_size(std::int64_t memory, std::int64_t peak) {
  constexpr std::int64_t kGB = 1'000'000'000, kGiB = std::int64_t{1} << 30;
  const std::int64_t sold = memory / kGB;
  if (memory % kGB != 0 || peak > sold * kGiB) return "";
  return fmt::format(
      "  A GPU that is sold with {} GB may have nearly {} GiB: nvidia-smi says how many MiB, which "
      "--gpu-memory takes.\n",
      sold, sold);
}

/// Returns a sentence about the largest part of what a stage holds when it holds most.
std::string text_of_largest_part(const StageMemory& memory) {
  const bool is_in_step = memory.step_bytes() >= memory.static_bytes();
  const auto held = [](bool is_held, std::int64_t bytes) { return is_held ? bytes : 0; };
  const std::pair<const char*, std::int64_t> parts[] = {
      {"parameters and gradients", memory.parameters + memory.gradients},
      {"the states of the optimizer", memory.optimizer() - held(is_in_step, memory.gradient_copies)},
      {"activations", held(is_in_step, memory.activations + memory.attention_mask)},
      {"the logits and the loss", held(is_in_step, memory.logits_and_loss)},
      {"tensors of the step that is running", held(is_in_step, memory.temporary)},
      {"workspaces and buffers", memory.workspaces_and_buffers()}};
  const auto* const most = std::ranges::max_element(parts, {}, &std::pair<const char*, std::int64_t>::second);
  return fmt::format(" The largest part is {}: {}.", most->first, byte_text(most->second));
}

/// Returns a sentence where the states of the model alone, as the options have them, are more than all GPUs
/// have; else "". Every layout holds each parameter once at least.
std::string too_few_gpus(const ScenarioRequest& request, const MemoryReport& report) {
  const StateBytes& state = report.state;
  const std::int64_t of_one = state.parameter + state.gradient + state.optimizer - state.copied_gradient;
  const std::int64_t parameters = parameter_count(*request.model.shape), memory = *report.gpu_memory;
  const std::int64_t states = parameters * of_one;
  const std::int64_t least = states / memory + (states % memory == 0 ? 0 : 1);
  if (least <= request.layout.grid_size) return "";
  return fmt::format(
      "  With these states no layout fits on {}: {} parameters of {} bytes each are {}, and need {} GPUs at "
      "least.\n",
      counted(request.layout.grid_size, "GPU"), grouped_digits(parameters), of_one, byte_text(states), least);
}

/// The answer for a run that fits.
std::string text_that_fits(const ScenarioRequest& request, const MemoryReport& report, bool has_failed) {
  const std::size_t fullest = report.fullest();
  const std::int64_t peak = report.stages[fullest].peak_bytes(), left = *report.gpu_memory - peak;
  const std::string doubt = doubt_about(request, true);
  const bool is_known = doubt.empty() || holds_less_than_counted(request);
  return fmt::format("{} {}{}: {} holds most, {} of {}.{}{}\n\n",
                     is_known && !has_failed ? "It" : "What is counted", text_of_fit(left),
                     has_failed ? ", though the run did not" : "", text_of_stage(request.layout, fullest),
                     byte_text(peak), byte_text(*report.gpu_memory), text_of_room(left), doubt);
}

/// What would help a run that does not fit, if there is anything.
std::string text_of_help(const Scenario& scenario, const MemoryReport& report, bool may_fit) {
  std::string text;
  const std::vector<Remedy> help = help_for(scenario, report);
  for (const Remedy& remedy : help) {
    text += fmt::format("  {} it needs {} on stage {}, and {}.\n", remedy.words, byte_text(remedy.peak_bytes),
                        remedy.stage,
                        remedy.fits ? text_of_fit(*report.gpu_memory - remedy.peak_bytes) : "does not fit");
  }
  if (may_fit && std::ranges::none_of(help, &Remedy::fits))
    text += "  No changes of its options were found that make it fit together; --sweep tries layouts.\n";
  return text;
}

/// The answer, before the table: whether the run fits, which ranks hold most and when, and what would help.
std::string judgement(const Scenario& scenario, const ScenarioRequest& request, const MemoryReport& report,
                      bool has_failed) {
  if (!report.gpu_memory) return "";
  if (!report.fits()) return "Whether it fits is not known, because activations are not counted.\n\n";
  if (*report.fits()) return text_that_fits(request, report, has_failed);
  const std::size_t fullest = report.fullest();
  const StageMemory& most = report.stages[fullest];
  const std::int64_t memory = *report.gpu_memory;
  const std::string doubt = doubt_about(request, false);
  const std::string moment =
      report.has_activations ? fmt::format(" at its largest moment ({})", most.peak_in) : "";
  std::string text = fmt::format("{}: {} needs {}{}, which is {} more than {}.{}{}\n",
                                 doubt.empty() ? "It does not fit" : "What is counted does not fit",
                                 text_of_stage(request.layout, fullest), byte_text(most.peak_bytes()), moment,
                                 byte_text(most.peak_bytes() - memory), byte_text(memory),
                                 text_of_largest_part(most), doubt);
  text += text_of_nominal_size(memory, most.peak_bytes());
  const std::string too_few = doubt.empty() ? too_few_gpus(request, report) : "";
  text += too_few;
  if (most.static_bytes() > memory) {
    text += fmt::format(
        "  It holds {} between steps already, which recomputation and smaller microbatches leave as they "
        "are.\n",
        byte_text(most.static_bytes()));
  }
  return text + text_of_help(scenario, report, too_few.empty()) + "\n";
}

std::vector<sim::Warning> warnings_of(const Scenario& scenario, const ScenarioRequest& request,
                                      const MemoryReport& report) {
  std::vector<sim::Warning> warnings = warnings_of_file(scenario.run);
  for (const std::string& sentence : argument_sentences(request.uncounted))
    warnings.push_back({"not_modelled", sentence});
  if (!report.has_activations) {
    const std::string reason = why_no_activations(request);
    warnings.push_back({"activations_not_counted",
                        fmt::format("{}: only what is held between steps is counted",
                                    reason.empty() ? "a rank may hold more than 2^53 bytes" : reason)});
  }
  std::ranges::move(query_group_warnings(scenario.settings, "count"), std::back_inserter(warnings));
  if (scenario.run.is_given())
    std::ranges::move(context_warnings(scenario.settings), std::back_inserter(warnings));
  if (request.model.shape->experts.num_experts > 0) {
    warnings.push_back({"routing_is_even",
                        "the rows of experts are those of a router that spreads tokens evenly; a rank with "
                        "more popular experts holds more"});
  }
  return warnings;
}

}  // namespace

int run_memory(const Call& call) {
  const Scenario asked_for = requested_scenario(call.line);
  if (asked_for.settings.flag("sweep")) return run_memory_sweep(call, asked_for);
  require_no_sweep(asked_for.settings);
  const std::optional<OutOfMemory> said = said_of_failure(asked_for.settings);
  const Scenario scenario = judged_by(said, asked_for);
  std::optional<Machine> machine;
  std::optional<ScenarioRequest> asked;
  sim::Refusals refusals;
  refusals.keep([&] { asked = requested_memory(scenario); });
  refusals.keep([&] { machine = requested_machine(scenario.settings); });
  refusals.throw_if_any();
  const ScenarioRequest& request = *asked;
  const MemoryReport report = scenario_memory(request);
  std::optional<MemoryFailure> failure;
  if (said) failure = memory_failure(*said, request, report);
  std::optional<EstimatedStep> estimate;
  if (machine) estimate = estimated_step(request, *machine);
  if (asks_for_json(call.line)) {
    Json document = as_json(scenario, report, request);
    if (failure) document["out_of_memory"] = json_of(*failure);
    if (estimate) document["estimate"] = estimate_json(*estimate);
    write_json(call, std::move(document));
  } else {
    call.output.out << (failure ? text_of(*failure, report) + "\n" : "")
                    << judgement(scenario, request, report, failure.has_value())
                    << fmt::format("Memory of a rank, by pipeline stage ({}; {})\n\n", report.state.dtypes,
                                   report.state.is_distributed ? "ZeRO-1" : "no ZeRO-1")
                    << table_of(report) << (estimate ? "\n" + estimate_text(*estimate) : "")
                    << warnings_text(warnings_of(scenario, request, report));
  }
  const bool has_failed = said && said->gpu;
  return report.fits_as_asked() && !has_failed ? kVerified : kFalsified;
}

}  // namespace verify
