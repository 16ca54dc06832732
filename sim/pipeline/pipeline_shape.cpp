#include "sim/pipeline/pipeline_shape.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"

namespace sim {

namespace {

void require_sizes(const PipelineShape& shape) {
  const auto require_size = [](const char* option, std::int64_t size) {
    if (size >= 1 && size <= kMostSteps) return;
    refuse({.code = size < 1 ? "pipeline_sizes" : "schedule_size",
            .option = option,
            .numbers = fmt::format("the size is {}", size),
            .rule = fmt::format("a size is from 1 to {}", kMostSteps),
            .hint = {},
            .to_try = SizeToTry{option, 8}});
  };
  require_size("--pipeline-model-parallel-size", shape.pipeline_model_parallel_size);
  require_size("--num-microbatches", shape.num_microbatches);
  require_size("--virtual-pipeline-model-parallel-size",
               shape.virtual_pipeline_model_parallel_size.value_or(1));
  // The product of three factors of at most 2^20 fits into 64 bits.
  const std::int64_t forward = shape.pipeline_model_parallel_size * shape.num_microbatches *
                               shape.virtual_pipeline_model_parallel_size.value_or(1);
  if (forward <= kMostSteps / 2) return;
  refuse({.code = "schedule_size",
          .option = "--num-microbatches",
          .numbers = fmt::format("{} microbatches on {} ranks of {} chunks: {} forward steps",
                                 shape.num_microbatches, shape.pipeline_model_parallel_size, shape.chunks(),
                                 forward),
          .rule = fmt::format("a schedule has at most {} forward steps over all ranks", kMostSteps / 2),
          .hint = "fewer microbatches, because the steps repeat themselves"});
}

void require_without_chunks(const PipelineShape& shape) {
  if (!shape.overlap_moe_expert_parallel_comm || shape.pipeline_model_parallel_size == 1) return;
  refuse({.code = "overlap_needs_vpp",
          .option = "--overlap-moe-expert-parallel-comm",
          .numbers = "no virtual pipeline size is given",
          .rule = "on a pipeline, only the interleaved schedule has a step to overlap with",
          .hint = {},
          .to_try = SizeToTry{"--virtual-pipeline-model-parallel-size", 2, "leave it out"}});
}

void require_groups(const PipelineShape& shape) {
  const std::int64_t p = shape.pipeline_model_parallel_size;
  const std::int64_t m = shape.num_microbatches;
  const std::int64_t n = shape.microbatch_group_size_per_virtual_pipeline_stage.value_or(p);
  if (n < p || n > m) {
    refuse({.code = "microbatch_group_size",
            .option = "--microbatch-group-size-per-virtual-pipeline-stage",
            .numbers = fmt::format("groups of {} on {} pipeline ranks, of {} microbatches", n, p, m),
            .rule =
                "a group has at least as many microbatches as there are pipeline ranks, and at most all of "
                "them",
            .hint = {},
            .to_try = SizeToTry{
                m < p ? "--num-microbatches" : "--microbatch-group-size-per-virtual-pipeline-stage", p}});
  }
  const std::int64_t rest = m % n;
  if (rest == 0 || rest >= p) return;
  refuse({.code = "microbatch_group_remainder",
          .option = "--num-microbatches",
          .numbers = fmt::format(
              "{} microbatches in groups of {}: the last group has {}, and there are {} pipeline ranks", m, n,
              rest, p),
          .rule = "the last group is full, or has at least as many microbatches as there are pipeline ranks",
          .hint = {},
          .to_try = SizeToTry{"--num-microbatches", m - rest}});
}

/// Returns the number of a stage of the model, counted in the forward direction.
int stage_of(const PipelineShape& shape, int rank, int chunk) { return chunk * shape.ranks() + rank; }

std::optional<Peer> at_stage(const PipelineShape& shape, int stage, Step step) {
  if (stage < 0 || stage >= shape.ranks() * shape.chunks()) return std::nullopt;
  step.chunk = stage / shape.ranks();
  return Peer{stage % shape.ranks(), step};
}

}  // namespace

std::string text_of(const Step& step) {
  return fmt::format("{} {} of chunk {}", step.pass == Pass::forward ? 'F' : 'B', step.microbatch,
                     step.chunk);
}

void check(const PipelineShape& shape) {
  require_sizes(shape);
  if (!shape.is_interleaved()) return require_without_chunks(shape);
  if (shape.pipeline_model_parallel_size == 1) {
    refuse({.code = "vpp_needs_pp",
            .option = "--virtual-pipeline-model-parallel-size",
            .numbers = fmt::format("{} chunks with 1 pipeline rank", shape.chunks()),
            .rule = "virtual stages interleave on a pipeline of at least 2 ranks",
            .hint = "leave it out, or --pipeline-model-parallel-size 2"});
  }
  require_groups(shape);
}

std::optional<Peer> source_of(const PipelineShape& shape, int rank, const Step& step) {
  const int stage = stage_of(shape, rank, step.chunk);
  return at_stage(shape, step.pass == Pass::forward ? stage - 1 : stage + 1, step);
}

std::optional<Peer> consumer_of(const PipelineShape& shape, int rank, const Step& step) {
  const int stage = stage_of(shape, rank, step.chunk);
  return at_stage(shape, step.pass == Pass::forward ? stage + 1 : stage - 1, step);
}

}  // namespace sim
