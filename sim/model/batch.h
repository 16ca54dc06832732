#pragma once

/// Which sample of the training a rank sees in which microbatch, and how its tensor-parallel group gets it.
///
/// Shapes  a sample is S tokens and S labels; a microbatch B of them, token s of sequence b in row s B + b.
///         Of the samples of an iteration, microbatch k has m_k = k B dp + r B, ... on data-parallel rank r.
/// Calls   get_batch: one broadcast of [T] i32 from the first rank of tp, of what a stage needs: tokens on
///         the first, labels on the last.
/// Exact   samples are a function of their number alone: the same on any layout.
/// Source  Megatron-LM, MegatronPretrainingSampler and get_batch_on_this_tp_rank.

#include <functional>

#include "sim/model/gpt_model.h"

namespace sim {

struct Sample {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;  // kIgnoredLabel: no loss
};
/// By its number, from 0.
using SampleSource = std::function<Sample(std::int64_t number)>;

/// The number of the first sample of a microbatch; its others follow.
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

/// Labels of a microbatch that have a loss.
std::int64_t tokens_with_loss(const Tensor& labels);

}  // namespace sim
