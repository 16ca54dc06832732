#pragma once

/// Training a GPT on one rank of a tp x cp x pp x dp world: the rank's chunks of the model, their gradient
/// buffers and optimizer, and the step.
///
/// Shapes  those of GptConfig; p, m and v of the pipeline; layers as placed. Each chunk has gradient
///         buffers of its own.
/// Calls   a step: the schedule's messages over pp, and inside each of its steps the calls of get_batch and
///         of the chunk, and with a loss of whole sequences an all_reduce of the number of tokens over cp;
///         data-parallel reductions while the schedule runs (a chunk's when its last backward
///         step is done), or after it. Then, in this order: all_reduces of sequence-parallel gradients over
///         tp; of the tied embedding over embd; with expert biases an all_reduce of the routed tokens over
///         tp-dp-cp; with a per-token loss, a broadcast of the number of tokens over pp and its all_reduce
///         over dp-cp; the calls of the optimizer; on the last stage one all_reduce of the loss over dp-cp.
/// Errors  gpt_training: the placement and the pipeline have different stages; those of its parts.
/// Exact   The objective is the mean over microbatches of the mean over a microbatch's tokens; with
///         per_token_loss it is the mean over all tokens. Context-parallel ranks each have a part of the
///         tokens. By default a loss is the mean over those of a rank, and the objective is the mean of these
///         means, which weighs a token of a rank with few labels more: it is the mean over the tokens of a
///         microbatch only where all of these ranks have equally many. With whole_sequence_loss it always is:
///         each rank divides its sum by the tokens of its whole cp group. Both modes follow Megatron's
///         schedules.py, where a loss function returns a sum and a number of tokens, or a loss. Experts with
///         a capacity drop tokens of each rank by themselves (token_dropping.h): then the step is not the
///         same with other tp, cp or microbatches.
/// Source  Megatron-LM, train_step and finalize_model_grads.

#include "sim/layout/layer_placement.h"
#include "sim/model/batch.h"
#include "sim/model/tied_embeddings.h"
#include "sim/optimizer/checkpoint.h"
#include "sim/pipeline/run_schedule.h"

namespace sim {

struct GptTrainingConfig {
  GptConfig model;
  LayerPlacement placement;
  PipelineShape pipeline;
  ScheduleFunction schedule = nullptr;
  DataParallelConfig data_parallel;
  OptimizerConfig optimizer;
  /// Whether a loss is divided by the tokens of all context-parallel ranks. It has no effect with a loss per
  /// token, which always is.
  bool whole_sequence_loss = false;
};

class GptTraining : private StageProgram {
 public:
  GptTraining(Rank& rank, GptTrainingConfig config, SampleSource source);

  struct Result {
    Tensor loss;  // [1] on the last stage, an empty Tensor() on all others
    bool is_skipped = false;
  };
  /// Runs the three functions below, one after the other.
  Result step(std::int64_t iteration, Ratio learning_rate);

  /// Computes the gradients of all microbatches.
  void forward_backward(std::int64_t iteration);
  void finalize_model_grads();
  Result update(Ratio learning_rate);
  /// Sums the gradients of the tied embedding, as a part of finalize_model_grads.
  void reduce_tied_embeddings() { all_reduce_embedding_grads(rank_, chunks_); }

  /// Saves a checkpoint after a step, or loads one before a step (optimizer/checkpoint.h): the optimizer's
  /// state, and the expert biases.
  void save(CheckpointStore& store, std::int64_t iteration);
  std::int64_t load(CheckpointStore& store);

  std::deque<GptModel>& chunks() { return chunks_; }
  DistributedDataParallel& data_parallel() { return data_parallel_; }
  DistributedOptimizer& optimizer() { return optimizer_; }
  /// Returns the parameters of all chunks, chunk by chunk.
  std::vector<Parameter*> parameters();
  /// Returns the largest number of activations that this rank kept at once, of one microbatch in one chunk
  /// each.
  int most_in_flight() const { return most_in_flight_; }

 private:
  Tensor forward(int microbatch, int chunk, const Tensor& input) override;
  Tensor backward(int microbatch, int chunk, const Tensor& grad_output) override;
  void grads_are_complete(int chunk) override;

  BatchShape batch_shape() const;
  bool is_per_token() const { return config_.data_parallel.per_token_loss; }
  /// Returns the number of tokens by which the loss of a microbatch is divided: those of this rank that have
  /// a loss, or those of its cp group.
  std::int64_t divisor_of_loss(std::int64_t own_tokens);
  /// The weight of a token's loss in the objective of a step, as far as it is known before the step ends.
  /// `tokens` is what divisor_of_loss() returns.
  Ratio share_of_token(std::int64_t tokens) const;
  /// The factor of the auxiliary losses of experts: each is a loss of one microbatch.
  Ratio aux_loss_scale() const;
  std::vector<TopKRouter*> routers();
  std::vector<CheckpointBuffer> expert_biases();
  void update_expert_biases();
  void take_loss(const Tensor& loss, std::int64_t divisor);
  std::int64_t all_tokens();
  Tensor reduced_loss();

  Rank& rank_;
  GptTrainingConfig config_;
  SampleSource source_;
  Communicator& pp_;
  std::deque<GptModel> chunks_;
  DistributedDataParallel data_parallel_;
  DistributedOptimizer optimizer_;

  // The state of the running step.
  struct InFlight {
    GptModel::Saved saved;
    std::int64_t divisor = 0;  // of its loss
  };
  std::int64_t iteration_ = 0;
  std::map<std::pair<int, int>, InFlight> in_flight_;  // by microbatch and chunk
  int most_in_flight_ = 0;
  Tensor loss_;                     // [1], the sum so far
  std::int64_t tokens_ = 0;         // with a loss, in this rank's microbatches
  std::int64_t tokens_of_all_ = 0;  // with a loss, in the whole batch
};

}  // namespace sim
