#pragma once

/// Says which training samples a rank sees in which microbatch, and distributes them to its tensor-parallel
/// group.
///
/// Shapes  A sample is S tokens and S labels. A microbatch is B samples; of each, a context-parallel rank has
///         the S/cp tokens that GptConfig::sequence_cut() gives it, and the labels of the same tokens. Token
///         s of these of sequence b is in row s B + b. On data-parallel rank r, microbatch k begins with
///         sample k B dp + r B of the iteration's samples.
/// Calls   get_batch: broadcasts of [T] i32 from the first rank of tp, one for each tensor that a stage
///         needs: tokens on the first stage, labels on the last. Context-parallel ranks read the same
///         samples, and send each other nothing.
/// Exact   A sample is a function of its number only, so it is the same on any layout.
/// Source  Megatron-LM, MegatronPretrainingSampler, get_batch_on_this_tp_rank and get_batch_on_this_cp_rank.

#include <functional>

#include "sim/model/gpt_model.h"

namespace sim {

struct Sample {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;  // kIgnoredLabel: the token has no loss
};
/// Returns the sample with a number, which counts from 0.
using SampleSource = std::function<Sample(std::int64_t number)>;

/// The sizes of a batch. first_sample gives the number of the first sample of a microbatch; its other samples
/// follow that one.
struct BatchShape {
  std::int64_t micro_batch_size = 1;  // B
  int data_parallel_size = 1;
  int num_microbatches = 1;

  std::int64_t global_batch_size() const { return micro_batch_size * data_parallel_size * num_microbatches; }
  std::int64_t first_sample(std::int64_t iteration, int microbatch, int data_parallel_rank) const {
    return iteration * global_batch_size() +
           (std::int64_t{microbatch} * data_parallel_size + data_parallel_rank) * micro_batch_size;
  }
};

Microbatch get_batch(Rank& rank, const GptConfig& config, const SampleSource& source,
                     std::int64_t first_sample, const GptChunk& chunk);

/// Returns how many labels of a microbatch have a loss.
std::int64_t tokens_with_loss(const Tensor& labels);

}  // namespace sim
