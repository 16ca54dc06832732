#include "verify/memory/activation_memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "verify/memory/layer_steps.h"

namespace verify {

namespace {

constexpr std::int64_t kMask = 1, kFloat = 4;  // bytes

std::int64_t layers_with_experts(const sim::GptConfig& model, const sim::StageLayers& chunk) {
  if (model.experts.num_experts == 0) return 0;
  const sim::LayerPattern& pattern = model.experts.moe_layer_freq;
  return pattern.count(chunk.offset + chunk.count) - pattern.count(chunk.offset);
}

/// The layers of a chunk by their kind, those that predict further tokens among them.
struct Kinds {
  std::int64_t dense = 0, with_experts = 0;
  std::int64_t all() const { return dense + with_experts; }
  Kinds without(const Kinds& others) const {
    return {.dense = dense - others.dense, .with_experts = with_experts - others.with_experts};
  }
};

Kinds kinds_of(const sim::GptConfig& model, const sim::StageLayers& chunk, bool predicts) {
  const std::int64_t with_experts = layers_with_experts(model, chunk);
  Kinds kinds{.dense = chunk.count - with_experts, .with_experts = with_experts};
  if (predicts)
    (model.experts.are_in(model.num_layers - 1) ? kinds.with_experts : kinds.dense) += model.mtp_num_layers;
  return kinds;
}

/// What a step of one chunk keeps and needs.
struct Chunk {
  std::int64_t loading = 0;           // while its batch is loaded
  std::int64_t kept = 0;              // activations of a microbatch
  std::int64_t loss_kept = 0;         // between the loss' forward and backward step
  std::int64_t loss_needed = 0;       // inside of them, in addition
  std::int64_t deferred = 0;          // until the drain, after the output layer's backward step
  std::int64_t output_needed = 0;     // in the backward step of the output layer, when the loss is gone
  std::int64_t forward_needed = 0;    // in the forward step of a layer, before the states around the output
  std::int64_t around_output = 0;     // those states, which are among what is kept
  std::int64_t gone_by_layers = 0;    // what of them is given back before the backward step of a layer
  std::int64_t waiting = 0;           // the output layer's gradient, until the embedding's is added to it
  std::int64_t layer_needed = 0;      // in the backward step of a layer
  std::int64_t left = 0;              // after the backward step, until the next forward step
  std::int64_t embedding_needed = 0;  // in the backward step of the embedding, when the layers' are gone
};

class Counter {
 public:
  explicit Counter(const ActivationShape& shape) : shape_(shape), e_(shape.element_bytes) {}

  Chunk chunk(const sim::StageLayers& layers, bool is_first, bool is_last) const {
    const Kinds kinds = kinds_of(shape_.model, layers, is_last);
    const Kinds again = recomputed(layers, kinds), rest = kinds.without(again);
    Chunk chunk{.kept = kept(layers, kinds, again),
                .forward_needed = kinds.with_experts == 0 ? 0 : forward_bytes_of_experts(shape_),
                .layer_needed = needed_by_a_layer(rest)};
    // Layers that are computed again come before the others, which have given back what they kept by then.
    const std::int64_t leaving = groups_that_leave_inputs(layers, kinds, again);
    chunk.left = 2 * leaving * width();
    if (again.all() > 0) {
      // Every group but the first has left the gradient of its input, and one of these is counted already:
      // that of the second group's input is that of the first group's output. Predictions are approximate.
      const std::int64_t of_others = std::max<std::int64_t>(leaving - 2, 0) * width();
      chunk.layer_needed =
          std::max(chunk.layer_needed, needed_by_a_group(again) + of_others - of_layers(rest));
    }
    if (is_first && shape_.options.hidden_dropout)
      chunk.kept += kMask * shape_.model.hidden_size * shape_.own_tokens();
    if (is_first || (is_last && shape_.model.mtp_num_layers > 0))
      chunk.embedding_needed = gradient_of_embedding() + width();
    if (is_first || is_last) add_mask(again, chunk);
    if (is_last) {
      add_output(chunk);
      chunk.layer_needed = std::max(chunk.layer_needed, needed_by_a_prediction());
    }
    if (is_first && is_last && !shape_.model.untie_embeddings_and_output_weights) add_waiting(chunk);
    return chunk;
  }

 private:
  /// A gradient of all rows, in the dtype of the weight: no kernel adds it to the gradients' buffer.
  std::int64_t gradient_of_embedding() const {
    return e_ * (shape_.padded_vocab_size / shape_.tp) * shape_.model.hidden_size;
  }
  std::int64_t width() const { return e_ * shape_.model.hidden_size * shape_.own_tokens(); }
  std::int64_t saved_input() const {
    return shape_.options.distributes_saved && !shape_.sequence_parallel ? width() / shape_.tp : width();
  }
  std::int64_t of_layers(const Kinds& kinds) const {
    return (kinds.dense == 0 ? 0 : kinds.dense * layer_activation_bytes(shape_)) +
           (kinds.with_experts == 0 ? 0 : kinds.with_experts * layer_activation_bytes(shape_, true));
  }
  /// The largest of `bytes` over the kinds of layers that are there.
  template <typename Bytes>
  std::int64_t largest(const Kinds& kinds, const Bytes& bytes) const {
    return std::max(kinds.dense > 0 ? bytes(false) : 0, kinds.with_experts > 0 ? bytes(true) : 0);
  }

  /// The layers of a chunk that full recomputation computes again: all of `kinds`, or of `block` the first
  /// ones, and none that predict further tokens.
  Kinds recomputed(const sim::StageLayers& layers, const Kinds& kinds) const {
    if (shape_.options.recompute == RecomputeMethod::uniform) return kinds;
    if (shape_.options.recompute != RecomputeMethod::block) return {};
    const std::int64_t count = std::min<std::int64_t>(shape_.options.recompute_layers, layers.count);
    return kinds_of(shape_.model, {.count = static_cast<int>(count), .offset = layers.offset}, false);
  }

  /// Layers are computed again in groups, each of which keeps its input. Groups of `block` have one layer.
  /// The inputs of layers that predict further tokens are among the states of add_output().
  std::int64_t kept(const sim::StageLayers& layers, const Kinds& kinds, const Kinds& again) const {
    const std::int64_t of_group =
        shape_.options.recompute == RecomputeMethod::uniform ? shape_.options.recompute_layers : 1;
    const std::int64_t in_groups = std::min<std::int64_t>(again.all(), layers.count);
    return (in_groups + of_group - 1) / of_group * saved_input() + of_layers(kinds.without(again));
  }

  /// A dispatcher keeps the probabilities of its experts until the next microbatch comes. They hold the input
  /// of what was computed again with them, and the gradient of that input. A layer that predicts further
  /// tokens has two inputs.
  std::int64_t groups_that_leave_inputs(const sim::StageLayers& layers, const Kinds& kinds,
                                        const Kinds& again) const {
    if (shape_.options.recomputes("moe")) return kinds.with_experts;
    if (shape_.options.recompute != RecomputeMethod::uniform) return again.with_experts;
    const std::int64_t of_group = shape_.options.recompute_layers;
    std::int64_t in_main = 0, groups = 0;
    for (std::int64_t first = 0; first < layers.count; first += of_group) {
      const std::int64_t count = std::min<std::int64_t>(of_group, layers.count - first);
      const std::int64_t with_experts = layers_with_experts(
          shape_.model,
          {.count = static_cast<int>(count), .offset = static_cast<int>(layers.offset + first)});
      in_main += with_experts;
      groups += with_experts > 0 ? 1 : 0;
    }
    return groups + 2 * (kinds.with_experts - in_main);
  }

  /// What the backward step of a layer holds for itself, of layers that keep their tensors, or of a group
  /// that is computed again from its input.
  std::int64_t needed_by_a_layer(const Kinds& kinds) const {
    return largest(kinds, [&](bool experts) { return backward_bytes(shape_, experts); });
  }
  std::int64_t needed_by_a_group(const Kinds& again) const {
    const std::int64_t layers = shape_.options.recompute == RecomputeMethod::uniform
                                    ? std::min(shape_.options.recompute_layers, again.all())
                                    : 1;
    return largest(again, [&](bool experts) { return backward_bytes_again(shape_, experts, layers); }) -
           saved_input();
  }
  /// Of a layer that predicts further tokens, whose inputs are among the states of add_output().
  std::int64_t needed_by_a_prediction() const {
    const sim::GptConfig& model = shape_.model;
    if (model.mtp_num_layers == 0 || shape_.options.recompute != RecomputeMethod::uniform) return 0;
    return backward_bytes_of_prediction(shape_, model.experts.are_in(model.num_layers - 1));
  }

  /// A rank of cp cuts its part from the whole mask of the microbatch. Where activations keep masks, the
  /// stage counts none of its own.
  void add_mask(const Kinds& again, Chunk& chunk) const {
    const std::int64_t mask = attention_mask_bytes(shape_);
    if (shape_.cp > 1) chunk.loading = mask * shape_.cp;
    if (keeps_attention_masks(shape_)) chunk.loading += mask;
    if (again.all() > 0 || shape_.options.recomputes("core_attn")) chunk.kept += mask;
  }

  /// The final norm's input and output. A layer that predicts further tokens keeps what its two norms read,
  /// both outputs in one tensor, and the input of its own final norm; all final outputs are joined in a copy.
  /// If it is computed again as a whole, it keeps only the first two.
  std::int64_t states_around_output() const {
    const std::int64_t predictions = shape_.model.mtp_num_layers;
    const bool is_whole = shape_.options.recompute != RecomputeMethod::uniform;
    return (2 + predictions * (is_whole ? 6 : 3)) * width();
  }
  std::int64_t statistics_around_output() const {
    const std::int64_t predictions =
        shape_.options.recompute == RecomputeMethod::uniform ? 0 : shape_.model.mtp_num_layers;
    return (1 + 3 * predictions) * (shape_.model.has_rms_norm() ? 1 : 2) * kFloat * shape_.own_tokens();
  }

  void add_output(Chunk& chunk) const {
    const sim::GptConfig& model = shape_.model;
    const std::int64_t losses = 1 + model.mtp_num_layers;
    const std::int64_t columns = shape_.padded_vocab_size / shape_.tp;
    const std::int64_t logits = columns * shape_.tokens;
    chunk.around_output = states_around_output() + statistics_around_output();
    chunk.kept += chunk.around_output;
    // Layers that predict further tokens have theirs until their own backward step.
    if (model.mtp_num_layers == 0) chunk.gone_by_layers = chunk.around_output;
    const std::int64_t converted = e_ == kFloat ? 0 : e_;
    switch (shape_.options.loss) {
      case LossKernel::unfused:
        chunk.loss_kept = losses * kFloat * logits;
        chunk.loss_needed = converted * logits;
        break;
      case LossKernel::fused:
        chunk.loss_kept = losses * kFloat * logits;
        chunk.loss_needed = (e_ + kFloat) * logits;
        break;
      case LossKernel::transformer_engine:
        chunk.loss_kept = losses * e_ * logits;
        break;
    }
    if (shape_.options.deferred_microbatches) chunk.deferred = e_ * logits + width();
    const std::int64_t weight = shape_.options.fused_weight_gradient ? 0 : columns * model.hidden_size;
    chunk.output_needed = e_ * (logits + weight + model.hidden_size * shape_.tokens);
  }

  /// PyTorch adds up both gradients of one weight before it gives them to the weight. A fused gradient of the
  /// output layer is in the buffer already; the tensor that stands for it is kept, so the sum is another one.
  void add_waiting(Chunk& chunk) const {
    if (shape_.options.fused_weight_gradient) {
      chunk.embedding_needed += gradient_of_embedding();
    } else {
      chunk.waiting = gradient_of_embedding();
    }
  }

  const ActivationShape& shape_;
  std::int64_t e_;
};

/// Walks through the steps of a rank, and keeps the largest moment.
class Walk {
 public:
  Walk(const std::vector<Chunk>& chunks, std::int64_t most_deferred)
      : chunks_(chunks), left_to_defer_(most_deferred) {}

  LargestMoment through(const sim::RankSchedule& schedule) {
    // The step before has left what its last microbatch leaves.
    std::vector<std::int64_t> left;
    for (const Chunk& chunk : chunks_) now_ += left.emplace_back(chunk.left);
    for (const sim::Step& step : sim::steps_of(schedule)) {
      const Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
      if (step.pass == sim::Pass::forward) {
        if (chunk.loading > 0) consider(step, "loading its batch", 0, chunk.loading);
        now_ -= std::exchange(left[static_cast<std::size_t>(step.chunk)], 0);
        now_ += chunk.kept - chunk.around_output;
        if (chunk.forward_needed > 0) consider(step, "in its experts", 0, chunk.forward_needed);
        now_ += chunk.around_output;
        loss_ += chunk.loss_kept;
        consider(step, chunk.loss_kept > 0 ? "in the loss" : "after its layers", chunk.loss_needed, 0);
      } else {
        if (chunk.loss_kept > 0) {
          consider(step, "in the loss", chunk.loss_needed, 0);
          loss_ -= chunk.loss_kept;
          consider(step, "in the output layer", 0, chunk.output_needed);
          if (left_to_defer_-- > 0) now_ += chunk.deferred;
        }
        now_ -= chunk.gone_by_layers;
        consider(step, "in a layer", 0, chunk.layer_needed + chunk.waiting);
        now_ -= chunk.kept - chunk.gone_by_layers;
        now_ += chunk.left - std::exchange(left[static_cast<std::size_t>(step.chunk)], chunk.left);
        if (chunk.embedding_needed > 0)
          consider(step, "in the embedding", 0, chunk.embedding_needed + chunk.waiting);
      }
    }
    return std::move(most_);
  }

 private:
  void consider(const sim::Step& step, const char* where, std::int64_t loss, std::int64_t temporary) {
    if (!most_.step.empty() && now_ + loss_ + loss + temporary <= most_.all()) return;
    const bool is_forward = step.pass == sim::Pass::forward;
    most_ = {
        .activations = now_,
        .logits_and_loss = loss_ + loss,
        .temporary = temporary,
        .step = fmt::format("{} of microbatch {}{}, {}", is_forward ? "forward" : "backward", step.microbatch,
                            chunks_.size() > 1 ? fmt::format(" in chunk {}", step.chunk) : "", where)};
  }

  const std::vector<Chunk>& chunks_;
  std::int64_t left_to_defer_ = 0;  // microbatches
  std::int64_t now_ = 0, loss_ = 0;
  LargestMoment most_;
};

}  // namespace

bool can_be_counted(const ActivationShape& shape, const sim::PipelineShape& pipeline) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const sim::GptConfig& model = shape.model;
  constexpr double kMostOfAnElement = 32, kMost = std::int64_t{1} << 53;
  const double heads = number(model.num_attention_heads);
  double of_head = number(model.kv_channels);
  if (const auto& latent = model.latent) {
    of_head = 2 * number(latent->qk_head_dim + latent->qk_pos_emb_head_dim + latent->v_head_dim);
    of_head += number(latent->q_lora_rank + latent->kv_lora_rank);
  }
  const double scores = shape.options.keeps_scores ? heads * number(model.seq_length) : 0;
  const double layers = number(model.num_layers + model.mtp_num_layers);
  const double of_layers =
      kMostOfAnElement * layers *
      (std::max(number(model.hidden_size), heads * of_head) + number(model.ffn_hidden_size) + scores);
  const sim::GptExperts& experts = model.experts;
  const double rows = number(experts.num_experts == 0 ? 0 : experts.routing.topk) * shape.etp *
                      (experts.token_dropping ? std::max(1.0, experts.token_dropping->capacity_factor) : 1) *
                      2;
  const double of_experts = kMostOfAnElement * layers *
                            (rows * (number(model.hidden_size) + number(experts.moe_ffn_hidden_size)) +
                             number(experts.num_experts) + number(experts.shared_expert_intermediate_size));
  const double in_flight =
      number(std::min(pipeline.num_microbatches, 2 * pipeline.pipeline_model_parallel_size));
  const double of_logits = 3 * kFloat * number(1 + model.mtp_num_layers) * number(shape.padded_vocab_size);
  return (of_layers + of_experts + of_logits + number(model.seq_length)) * number(shape.tokens) * in_flight <=
         kMost;
}

std::int64_t attention_mask_bytes(const ActivationShape& shape) {
  return shape.options.attention_mask ? kMask * shape.model.seq_length * shape.tokens : 0;
}

bool keeps_attention_masks(const ActivationShape& shape) {
  return shape.options.recomputes_layers() || shape.options.recomputes("core_attn");
}

std::vector<LargestMoment> largest_moments(const ActivationShape& shape, const sim::LayerPlacement& placement,
                                           sim::ScheduleFunction schedule,
                                           const sim::PipelineShape& pipeline) {
  SIM_CHECK(std::ssize(placement.stages) == pipeline.ranks());
  const Counter counter(shape);
  std::vector<LargestMoment> moments;
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    const auto& layers = placement.stages[static_cast<std::size_t>(rank)];
    SIM_CHECK(std::ssize(layers) == pipeline.chunks());
    std::vector<Chunk> chunks;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool is_first = rank == 0 && i == 0;
      const bool is_last = rank + 1 == pipeline.ranks() && i + 1 == layers.size();
      chunks.push_back(counter.chunk(layers[i], is_first, is_last));
    }
    const std::int64_t limit = shape.options.deferred_microbatches.value_or(0);
    const std::int64_t most_deferred = limit > 0 ? limit : pipeline.num_microbatches;
    moments.push_back(Walk(chunks, most_deferred).through(schedule(pipeline, rank)));
  }
  return moments;
}

}  // namespace verify
