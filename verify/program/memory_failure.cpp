#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>

#include "verify/memory/scenario_memory.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/program/memory_answer.h"

namespace verify {

namespace {

constexpr std::size_t kMostNamed = 3;
/// Smaller amounts are CUDA contexts of other processes.
constexpr std::int64_t kMuch = std::int64_t{1} << 30;

std::optional<std::size_t> stage_of(const OutOfMemory& said, const sim::Layout& layout) {
  if (!said.rank) return std::nullopt;
  if (*said.rank >= layout.world_size)
    refuse_by("out_of_memory_rank", "--out-of-memory", *said.rank, layout.world_size);
  const sim::GroupKind* pipelines = layout.find("pp");
  const auto place = pipelines == nullptr ? std::nullopt : pipelines->place_of(*said.rank);
  return place ? static_cast<std::size_t>(place->position) : 0;
}

std::string described(const SingleTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return fmt::format("{}, [{}] of {}", tensor.name, fmt::join(tensor.shape, ", "),
                     counted(tensor.bytes / std::max<std::int64_t>(elements, 1), "byte"));
}

/// Returns the first tensors, with at most kMostNamed names, as `words` has them.
template <typename Words>
std::vector<std::string> named(const std::vector<StagedTensor>& tensors, const Words& words) {
  std::vector<std::string> names, texts;
  for (const StagedTensor& staged : tensors) {
    if (names.size() == kMostNamed || std::ranges::find(names, staged.tensor.name) != names.end()) continue;
    names.push_back(staged.tensor.name);
    texts.push_back(words(staged));
  }
  return texts;
}

/// Returns " (in a forward or backward step on stage 1)": when a tensor is allocated, and the only stage that
/// has one of its name.
std::string text_of_place(const MemoryFailure& failure, const StagedTensor& staged, std::size_t stages) {
  const bool is_elsewhere = std::ranges::any_of(failure.tensors, [&](const StagedTensor& other) {
    return other.tensor.name == staged.tensor.name && other.stages != staged.stages;
  });
  const bool is_of_one = stages > 1 && staged.stages.size() == 1 && !is_elsewhere;
  return fmt::format(" ({}{})", text_of(staged.tensor.phase),
                     is_of_one ? fmt::format(" on stage {}", staged.stages.front()) : "");
}

std::string text_of_size(const MemoryFailure& failure, const MemoryReport& report) {
  const OutOfMemory& said = failure.said;
  if (said.is_small()) {
    return fmt::format(
        "PyTorch asked for {}, which it does for any tensor of {}: the GPU was full, and this tensor is not "
        "what filled it.\n",
        said.asked, said.asked == "2.00 MiB" ? "up to 1 MiB" : "1 to 10 MiB");
  }
  if (!failure.tensors.empty()) {
    const StagedTensor& first = failure.tensors.front();
    const bool are_alike = std::ranges::all_of(failure.tensors, [&](const StagedTensor& staged) {
      return staged.tensor.phase == first.tensor.phase && staged.stages == first.stages;
    });
    const auto place = [&](bool is_told, const StagedTensor& staged) {
      return is_told ? text_of_place(failure, staged, report.stages.size()) : "";
    };
    const std::vector<std::string> names = named(failure.tensors, [&](const StagedTensor& staged) {
      return described(staged.tensor) + place(!are_alike, staged);
    });
    return fmt::format("PyTorch asked for {}, which is the size of {}{}.\n", said.asked,
                       fmt::join(names, ", or of "), place(are_alike, first));
  }
  const std::vector<std::string> sizes = named(failure.nearest, [](const StagedTensor& staged) {
    return fmt::format("{}: {}", described(staged.tensor), byte_text(staged.tensor.bytes));
  });
  const char* nearest = failure.nearest.size() == 1 ? "; the nearest is " : "; the nearest are ";
  return fmt::format("PyTorch asked for {}, which is the size of no tensor that is counted{}{}.\n",
                     said.asked, sizes.empty() ? "" : nearest, fmt::join(sizes, "; "));
}

/// Returns where the memory was when the allocation failed.
std::string text_of_gpu(const FullGpu& gpu) {
  std::string text = fmt::format(
      "  Of the GPU's {}, {} were in tensors, {} were kept by PyTorch's allocator "
      "without use, {} were outside of it (the CUDA context, NCCL)",
      byte_text(gpu.capacity), byte_text(gpu.in_tensors), byte_text(gpu.unused),
      byte_text(gpu.outside + (gpu.others < kMuch ? gpu.others : 0)));
  if (gpu.others >= kMuch) text += fmt::format(", {} were those of other processes", byte_text(gpu.others));
  return text + fmt::format(", and {} were free.\n", byte_text(gpu.free));
}

/// Returns what is counted of the stage that failed, or of the one that holds most.
const StageMemory& counted_of(const MemoryFailure& failure, const MemoryReport& report) {
  return report.stages[failure.stage.value_or(report.fullest())];
}

/// Returns how what was held compares with what is counted.
std::string text_of_comparison(const MemoryFailure& failure, const MemoryReport& report) {
  const std::int64_t peak = counted_of(failure, report).peak_bytes();
  const std::int64_t held = failure.said.gpu->in_tensors + failure.said.asked_bytes;
  constexpr std::int64_t kSlack = 20;  // of a twentieth, as far as figures were off those that were measured
  const std::string of_stage = failure.stage ? fmt::format("stage {}", *failure.stage)
                                             : fmt::format("stage {}, which holds most", report.fullest());
  if (!report.has_activations) return "";
  if (held > peak + peak / kSlack) {
    return fmt::format(
        "  With this one, {} would have been in tensors: {} more than is counted of {}. Something held them "
        "that is not counted, such as an evaluation, a checkpoint or an uneven router.\n",
        byte_text(held), byte_text(held - peak), of_stage);
  }
  if (held + peak / kSlack < peak) {
    return fmt::format(
        "  With this one, {} would have been in tensors. Room for this tensor would not have been enough: {} "
        "are counted of {}.\n",
        byte_text(held), byte_text(peak), of_stage);
  }
  return fmt::format("  With this one, {} would have been in tensors, about as is counted of {}: {}.\n",
                     byte_text(held), of_stage, byte_text(peak));
}

/// Returns what the numbers themselves say is to be done.
std::string text_of_causes(const OutOfMemory& said, std::int64_t peak) {
  const FullGpu& gpu = *said.gpu;
  std::string text;
  if (gpu.others >= kMuch) {
    text += fmt::format(
        "  Other processes had {} of this GPU: look with nvidia-smi for one that is left over, "
        "or for ranks that share it.\n",
        byte_text(gpu.others));
  }
  const bool is_in_pieces = gpu.free < said.asked_bytes && gpu.unused + gpu.free >= said.asked_bytes;
  if (peak <= gpu.for_tensors() && is_in_pieces) {
    text += fmt::format(
        "  {} without use and free would have been enough, but not in one piece: "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins pieces.\n",
        byte_text(gpu.unused + gpu.free));
  }
  return text;
}

/// Returns the tensors of all stages that may have failed.
std::vector<StagedTensor> all_tensors(std::optional<std::size_t> of_rank, const ScenarioRequest& request,
                                      const MemoryReport& report) {
  const ActivationShape shape = activation_shape(request);
  const auto& placed = request.placement->stages;
  std::vector<StagedTensor> all;
  for (std::size_t stage = 0; stage < placed.size(); ++stage) {
    if (of_rank && *of_rank != stage) continue;
    const Stage of_stage{
        .layers = placed[stage], .is_first = stage == 0, .is_last = stage + 1 == placed.size()};
    for (SingleTensor& tensor : single_tensors(shape, of_stage, report)) {
      const auto same = std::ranges::find(all, tensor, &StagedTensor::tensor);
      if (same == all.end()) {
        all.push_back({std::move(tensor), {stage}});
      } else {
        same->stages.push_back(stage);
      }
    }
  }
  return all;
}

/// Returns the scores of attention that should be fused, if they have the size that was asked for.
std::vector<StagedTensor> scores_of(const OutOfMemory& said, std::optional<std::size_t> of_rank,
                                    const ScenarioRequest& request) {
  std::vector<std::size_t> stages;
  for (std::size_t stage = 0; stage < request.placement->stages.size(); ++stage)
    if (of_rank.value_or(stage) == stage) stages.push_back(stage);
  std::vector<StagedTensor> found;
  for (SingleTensor& scores : unexpected_scores(activation_shape(request)))
    if (said.may_be(scores.bytes)) found.push_back({std::move(scores), stages});
  return found;
}

/// Leaves out the tensors of phases in which a rank cannot have so much, unless none is left.
void keep_possible(std::vector<StagedTensor>& tensors, const MemoryReport& report, std::int64_t in_tensors) {
  const auto is_possible = [&](const StagedTensor& staged) {
    return std::ranges::any_of(staged.stages, [&](std::size_t stage) {
      return may_be_in(staged.tensor.phase, report.stages[stage], in_tensors);
    });
  };
  if (std::ranges::none_of(tensors, is_possible)) return;
  std::erase_if(tensors, [&](const StagedTensor& staged) { return !is_possible(staged); });
}

/// Returns the next smaller and the next larger tensor than what was asked for.
std::vector<StagedTensor> nearest_to(const std::vector<StagedTensor>& all, std::int64_t wanted) {
  const StagedTensor *below = nullptr, *above = nullptr;
  for (const StagedTensor& staged : all) {
    const std::int64_t bytes = staged.tensor.bytes;
    if (bytes <= wanted && (below == nullptr || bytes > below->tensor.bytes)) below = &staged;
    if (bytes > wanted && (above == nullptr || bytes < above->tensor.bytes)) above = &staged;
  }
  std::vector<StagedTensor> nearest;
  for (const StagedTensor* staged : {below, above})
    if (staged != nullptr) nearest.push_back(*staged);
  return nearest;
}

}  // namespace

MemoryFailure memory_failure(const OutOfMemory& said, const ScenarioRequest& request,
                             const MemoryReport& report) {
  MemoryFailure failure{.said = said, .stage = stage_of(said, request.layout), .tensors = {}, .nearest = {}};
  const std::vector<StagedTensor> all = all_tensors(failure.stage, request, report);
  std::ranges::copy_if(all, std::back_inserter(failure.tensors),
                       [&](const StagedTensor& staged) { return said.may_be(staged.tensor.bytes); });
  if (failure.tensors.empty()) failure.tensors = scores_of(said, failure.stage, request);
  if (failure.tensors.empty()) failure.nearest = nearest_to(all, said.asked_bytes);
  if (said.gpu) keep_possible(failure.tensors, report, said.gpu->in_tensors);
  const bool is_one = !failure.tensors.empty() && !said.is_small() &&
                      std::ranges::all_of(failure.tensors, [&](const StagedTensor& staged) {
                        return staged.stages == failure.tensors.front().stages;
                      });
  if (is_one && failure.tensors.front().stages.size() == 1)
    failure.stage = failure.tensors.front().stages.front();
  return failure;
}

std::string text_of(const MemoryFailure& failure, const MemoryReport& report) {
  std::string text = text_of_size(failure, report);
  if (!failure.said.gpu) return text;
  return text + text_of_gpu(*failure.said.gpu) + text_of_comparison(failure, report) +
         text_of_causes(failure.said, counted_of(failure, report).peak_bytes());
}

Json json_of(const MemoryFailure& failure) {
  const auto tensor_json = [](const StagedTensor& staged) {
    return Json{{"name", staged.tensor.name},
                {"shape", staged.tensor.shape},
                {"bytes", staged.tensor.bytes},
                {"when", text_of(staged.tensor.phase)},
                {"pipeline_ranks", staged.stages}};
  };
  return {{"asked_bytes", failure.said.asked_bytes},
          {"pipeline_rank", failure.stage},
          {"tensors", json_list(failure.tensors, tensor_json)}};
}

}  // namespace verify
