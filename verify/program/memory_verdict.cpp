#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/comm/process_group.h"
#include "verify/checks/parameter_count.h"
#include "verify/memory/fitting.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/phrases.h"
#include "verify/program/memory_answer.h"

namespace verify {

namespace {

/// Returns a sentence about the arguments that leave the verdict open, or about those that do not; "" if all
/// arguments are counted.
std::string text_of_doubt(const MemoryAnswer& answer, const std::vector<AccountedArgument>& doubtful) {
  constexpr std::size_t kMostTold = 3;
  const std::vector<AccountedArgument>& named = doubtful.empty() ? answer.request.uncounted : doubtful;
  std::vector<std::string> names;
  for (const AccountedArgument& argument : named) names.push_back("--" + argument.name);
  if (names.empty()) return "";
  const bool is_one = names.size() == 1;
  const std::size_t more = names.size() - std::min(names.size(), kMostTold);
  names.resize(names.size() - more);
  const std::string all =
      fmt::format("{}{} {}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                  is_one ? "is" : "are");
  if (doubtful.empty()) return fmt::format(" {} not modelled exactly, but cannot change this.", all);
  return fmt::format(" It is not known whether the real run fits, because {} not modelled exactly.", all);
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

/// Returns a sentence if a run needs more than a number of GB, but not than as many GiB; else "". GPUs are
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

/// Returns a sentence if the states of the model are more than all GPUs have; else "". Every layout holds
/// each parameter at least once.
std::string text_of_too_few_gpus(const ScenarioRequest& request, const MemoryReport& report) {
  const StateBytes& state = report.state;
  const std::int64_t of_one = state.parameter + state.gradient + state.optimizer - state.copied_gradient;
  const std::int64_t parameters = parameter_count(request.model.config), memory = *report.gpu_memory;
  const std::int64_t states = parameters * of_one;
  const std::int64_t least = states / memory + (states % memory == 0 ? 0 : 1);
  if (least <= request.layout.grid_size) return "";
  return fmt::format(
      "  With these states no layout fits on {}: {} parameters of {} bytes each are {}, and need at least {} "
      "GPUs.\n",
      counted(request.layout.grid_size, "GPU"), grouped_digits(parameters), of_one, byte_text(states), least);
}

/// Returns " with 32,768 entries" if the vocabulary is not known; else "".
std::string with_entries(const MemoryAnswer& answer) {
  return answer.law ? fmt::format(" with {} entries", grouped_digits(answer.law->entries)) : "";
}

std::string text_of_open_vocabulary(const MemoryAnswer& answer, const std::string& stage) {
  return fmt::format(
      "It is not known whether it fits, because the vocabulary is not known: it fits with up to {} entries. "
      "{} holds most, {} of {}{}. --vocab-size N says how many there are.\n\n",
      grouped_digits(*answer.law->fits_up_to), capital(stage),
      byte_text(answer.report.stages[answer.report.fullest()].peak_bytes()),
      byte_text(*answer.report.gpu_memory), with_entries(answer));
}

std::string text_of_fitting(const MemoryAnswer& answer, const std::string& stage, bool has_failed) {
  const StageMemory& most = answer.report.stages[answer.report.fullest()];
  const std::int64_t left = *answer.report.gpu_memory - most.peak_bytes();
  const std::vector<AccountedArgument> doubtful = answer.doubtful();
  const std::string vocabulary = answer.law ? fmt::format(" with every vocabulary of up to {} entries",
                                                          grouped_digits(*answer.law->fits_up_to))
                                            : "";
  std::string room;
  for (const Remedy& use : answer.room)
    room += fmt::format("  There is room for more. {} it needs {} on stage {}.\n", use.words,
                        byte_text(use.peak_bytes), use.stage);
  return fmt::format("{} {}{}{}: {} holds most, {} of {}{}.{}{}\n{}\n",
                     doubtful.empty() && !has_failed ? "It" : "What is counted", text_of_fit(left),
                     vocabulary, has_failed ? ", though the run did not" : "", stage,
                     byte_text(most.peak_bytes()), byte_text(*answer.report.gpu_memory), with_entries(answer),
                     text_of_room(left), text_of_doubt(answer, doubtful), room);
}

std::string text_of_remedies(const MemoryAnswer& answer, bool finds_layouts) {
  std::string text;
  for (const Remedy& remedy : answer.remedies) {
    text += fmt::format(
        "  {} it needs {} on stage {}, and {}.\n", remedy.words, byte_text(remedy.peak_bytes), remedy.stage,
        remedy.fits ? text_of_fit(*answer.report.gpu_memory - remedy.peak_bytes) : "does not fit");
  }
  if (finds_layouts && std::ranges::none_of(answer.remedies, &Remedy::fits))
    text += "  No changes of its options were found that make it fit together; --sweep tries layouts.\n";
  return text;
}

std::string text_of_overflow(const MemoryAnswer& answer, const std::string& stage) {
  const MemoryReport& report = answer.report;
  const StageMemory& most = report.stages[report.fullest()];
  const std::int64_t memory = *report.gpu_memory, missing = most.peak_bytes() - memory;
  const std::vector<AccountedArgument> doubtful = answer.doubtful();
  const std::string moment =
      report.has_activations ? fmt::format(" at its largest moment ({})", most.peak_in) : "";
  std::string text =
      fmt::format("{}{}: {} needs {}{}{}, which is {} more than {}.{}{}\n",
                  doubtful.empty() ? "It does not fit" : "What is counted does not fit",
                  answer.law && answer.law->fits_up_to ? " with any vocabulary" : "", stage,
                  byte_text(most.peak_bytes()), moment, with_entries(answer), byte_text(missing),
                  byte_text(memory), text_of_largest_part(most), text_of_doubt(answer, doubtful));
  text += text_of_nominal_size(memory, most.peak_bytes());
  const std::string too_few = doubtful.empty() ? text_of_too_few_gpus(answer.request, report) : "";
  text += too_few;
  if (most.static_bytes() > memory) {
    text += fmt::format(
        "  It already holds {} between steps, which recomputation and smaller microbatches do not change.\n",
        byte_text(most.static_bytes()));
  }
  return text + text_of_remedies(answer, too_few.empty()) + "\n";
}

}  // namespace

std::optional<bool> MemoryAnswer::fits() const {
  return law && law->fits_up_to ? law->fits() : report.fits();
}

std::vector<AccountedArgument> MemoryAnswer::doubtful() const {
  if (!fits()) return {};
  const StageMemory& most = report.stages[report.fullest()];
  return doubtful_arguments(request.uncounted, most, *report.gpu_memory - most.peak_bytes());
}

MemoryAnswer memory_answer(Scenario scenario, ScenarioRequest request, const AssumedSizes& assumed) {
  MemoryAnswer answer{.scenario = std::move(scenario),
                      .request = std::move(request),
                      .report = {},
                      .assumed = assumed.sizes,
                      .law = {},
                      .remedies = {},
                      .room = {}};
  answer.report = scenario_memory(answer.request);
  if (!assumed.knows_vocabulary) answer.law = vocabulary_law(answer.request);
  if (answer.fits() == true && !answer.law) answer.room = uses_of_room(answer.scenario, answer.report);
  if (answer.fits() == false) answer.remedies = remedies(answer.scenario, answer.report);
  return answer;
}

std::string verdict_text(const MemoryAnswer& answer, bool has_failed) {
  const MemoryReport& report = answer.report;
  if (!report.gpu_memory) return "";
  if (!report.fits()) return "It is not known whether it fits, because activations are not counted.\n\n";
  const std::string stage = text_of_stage(answer.request.layout, report.fullest());
  if (!answer.fits()) return text_of_open_vocabulary(answer, stage);
  return *answer.fits() ? text_of_fitting(answer, stage, has_failed) : text_of_overflow(answer, stage);
}

std::string assumed_text(const std::vector<AssumedSize>& assumed) {
  std::string text;
  for (const AssumedSize& size : assumed) text += size.sentence + "\n";
  return text;
}

std::string law_text(const VocabularyLaw& law) {
  std::vector<std::string> growths;
  for (const VocabularyLaw::Growth& growth : law.growth) {
    const std::string least = byte_text(growth.least), most = byte_text(growth.most);
    growths.push_back(
        fmt::format("{} on stage {}", least == most ? least : least + " to " + most, growth.stage));
  }
  return fmt::format("Each 1,000 entries more take {}, in steps of {} entries.\n",
                     fmt::join(growths, " and "), grouped_digits(law.padding));
}

Json assumed_json(const std::vector<AssumedSize>& assumed) {
  return json_list(assumed, [](const AssumedSize& size) {
    return Json{{"option", "--" + size.option}, {"value", size.value}, {"reason", size.sentence}};
  });
}

Json law_json(const VocabularyLaw& law) {
  const auto growth_json = [](const VocabularyLaw::Growth& growth) {
    return Json{{"pipeline_rank", growth.stage},
                {"least_bytes_per_1000_entries", growth.least},
                {"most_bytes_per_1000_entries", growth.most}};
  };
  return {{"base_entries", law.entries},
          {"padding_entries", law.padding},
          {"slope", json_list(law.growth, growth_json)},
          {"fits_up_to_entries", law.fits_up_to}};
}

}  // namespace verify
