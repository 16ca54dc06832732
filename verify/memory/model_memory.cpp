#include "verify/memory/model_memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/optimizer/range_map.h"
#include "verify/checks/parameter_count.h"
#include "verify/memory/activation_memory.h"
#include "verify/memory/fixed_memory.h"
#include "verify/output/phrases.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

std::int64_t vocabulary_of(const sim::GptConfig& shape, int tp) {
  return *verify::padded_vocabulary(shape.vocab_size, tp, shape.make_vocab_size_divisible_by);
}

/// Whether the embedding is on the first stage and, as a copy, on the last one.
bool has_two_embeddings(const sim::GptConfig& shape, const Stage& stage) {
  return (!shape.untie_embeddings_and_output_weights || shape.mtp_num_layers > 0) &&
         stage.is_first != stage.is_last;
}

/// Whether the norm after the layers is on a stage.
bool has_final_norm(const sim::GptConfig& shape, const Stage& stage) {
  if (shape.mtp_num_layers == 0) return stage.is_last;
  return std::ranges::any_of(stage.layers, [&](const sim::StageLayers& chunk) {
    return chunk.count > 0 && chunk.offset + chunk.count == shape.num_layers;
  });
}

/// What the row says of experts; "" for a dense model.
std::string text_of_experts(const MemoryReport& report, const StageMemory& most) {
  if (report.expert_owners == 0) return "";
  return fmt::format(" ({} of these parameters are experts, whose states have {})",
                     byte_text(most.expert_parameters), counted(report.expert_owners, "owner"));
}

std::string text_of_judgement(const MemoryReport& report, std::size_t fullest) {
  if (!report.gpu_memory) return "";
  const std::optional<bool> fits = report.fits();
  if (!fits) {
    return fmt::format("; whether it fits into {} is not known, because activations are not counted",
                       byte_text(*report.gpu_memory));
  }
  const std::int64_t peak = report.stages[fullest].peak_bytes();
  if (*fits) return fmt::format("; it fits into {}", byte_text(*report.gpu_memory));
  return fmt::format("; that is {} more than {}", byte_text(peak - *report.gpu_memory),
                     byte_text(*report.gpu_memory));
}

std::string text_of_most(const MemoryReport& report, bool has_experts) {
  const std::size_t fullest = report.fullest();
  const StageMemory& most = report.stages[fullest];
  const std::string activations = report.has_activations
                                      ? fmt::format(", {} of activations{}", byte_text(most.passing_bytes()),
                                                    has_experts ? " if the router spreads tokens evenly" : "")
                                      : "";
  return fmt::format(
      "stage {} holds most: {} of parameters, {} of gradients, {} of optimizer states over {}{}{}, {} of "
      "workspaces and buffers; {} a rank ({}, {}){}",
      fullest, byte_text(most.parameters), byte_text(most.gradients), byte_text(most.optimizer()),
      counted(report.owners, "owner"), text_of_experts(report, most), activations,
      byte_text(most.workspaces_and_buffers()), byte_text(most.peak_bytes()), report.state.dtypes,
      report.state.is_distributed ? "ZeRO-1" : "no ZeRO-1", text_of_judgement(report, fullest));
}

void add_activations(const ActivationShape& shape, const sim::LayerPlacement& placement,
                     const ActivationRun& run, MemoryReport& report) {
  if (!can_be_counted(shape, run.pipeline)) return;
  const auto moments = largest_moments(shape, placement, run.schedule, run.pipeline);
  for (std::size_t stage = 0; stage < moments.size(); ++stage) {
    StageMemory& memory = report.stages[stage];
    memory.activations = moments[stage].activations;
    memory.logits_and_loss = moments[stage].logits_and_loss;
    memory.temporary = moments[stage].temporary;
    const bool has_mask = stage == 0 || stage + 1 == moments.size();
    if (has_mask && !keeps_attention_masks(shape)) memory.attention_mask = attention_mask_bytes(shape);
    const bool is_in_step = memory.step_bytes() >= memory.static_bytes();
    memory.peak_in = is_in_step ? moments[stage].step : "between steps, with copies of gradients";
  }
  report.has_activations = true;
}

/// Lists the parameters of a stage, in the order of the model.
class Holder {
 public:
  Holder(const sim::GptConfig& shape, const ShardSizes& sizes) : shape_(shape), sizes_(sizes) {}

  /// `is_output`: the output layer has no weight but this one.
  void embedding(bool is_tied, bool is_output) {
    sharded("embedding of words", vocabulary() * shape_.hidden_size, is_tied);
    if (is_output) multiplies(shape_.hidden_size);
    if (shape_.has_learned_positions())
      replicated(shape_.positions() * shape_.hidden_size, "embedding of positions");
  }
  void layer(std::int64_t number) {
    norm();
    if (shape_.latent) {
      latent_attention(*shape_.latent);
    } else {
      attention();
    }
    norm();
    if (shape_.experts.are_in(number)) {
      experts();
    } else {
      mlp(shape_.ffn_hidden_size, shape_.bias);
    }
  }
  void final_norm() { norm(); }
  /// The layers that predict further tokens, each with three norms and a matrix that joins two states.
  void predictions() {
    for (std::int64_t i = 0; i < shape_.mtp_num_layers; ++i) {
      for (int norms = 0; norms < 3; ++norms) norm();
      sharded("matrix that joins two states of a prediction", 2 * shape_.hidden_size * shape_.hidden_size);
      multiplies(2 * shape_.hidden_size);
      layer(shape_.num_layers - 1);
    }
  }
  /// `has_copy`: a copy of the embedding of another stage is here. It is the output layer's weight where that
  /// is tied, unless layers that predict further tokens need it: then the output layer has one of its own.
  void output(bool has_copy) {
    const std::int64_t words = vocabulary() * shape_.hidden_size;
    const auto copy = [&](bool is_shared) {
      sharded("copy of the embedding of words", words, is_shared);
      held_.back().is_copy = true;
      if (!shape_.untie_embeddings_and_output_weights) multiplies(shape_.hidden_size);
    };
    if (has_copy) copy(true);
    if (shape_.untie_embeddings_and_output_weights) {
      sharded("output layer", words);
      multiplies(shape_.hidden_size);
    } else if (has_copy && shape_.mtp_num_layers > 0) {
      copy(false);
    }
  }
  std::vector<HeldParameter> held() { return std::move(held_); }

 private:
  std::int64_t vocabulary() const { return vocabulary_of(shape_, sizes_.tp); }
  std::int64_t up(std::int64_t inside) const { return (shape_.gated ? 2 : 1) * inside; }

  void replicated(std::int64_t elements, const char* name = "") {
    held_.push_back({.elements = elements, .name = name});
  }
  void sharded(const char* name, std::int64_t elements, bool is_shared = false) {
    held_.push_back(
        {.elements = elements / sizes_.tp, .shards = sizes_.tp, .is_shared = is_shared, .name = name});
  }
  /// The last parameter is the weight of a matrix product with this number of inputs on the rank.
  void multiplies(std::int64_t inputs) { held_.back().inputs = inputs; }
  void norm() { norm(shape_.hidden_size); }
  void norm(std::int64_t width) {
    replicated(width);
    if (!shape_.has_rms_norm()) replicated(width);
  }
  void attention() {
    const std::int64_t h = shape_.hidden_size;
    const std::int64_t attended = shape_.num_attention_heads * shape_.head_size();
    const std::int64_t qkv = attended + 2 * shape_.num_query_groups * shape_.head_size();
    linear("matrix of queries, keys and values", qkv, h, true, shape_.bias || shape_.add_qkv_bias);
    if (shape_.qk_layernorm) {
      const std::size_t first = held_.size();
      for (int norms = 0; norms < 2; ++norms) norm(shape_.head_size());
      for (std::size_t i = first; i < held_.size(); ++i) held_[i].is_head_norm = true;
    }
    linear("matrix after attention", h, attended, false, shape_.bias);
  }
  void latent_attention(const sim::LatentSizes& latent) {
    const std::int64_t h = shape_.hidden_size, heads = shape_.num_attention_heads, rank = latent.q_lora_rank;
    const std::int64_t queries = heads * (latent.qk_head_dim + latent.qk_pos_emb_head_dim);
    if (rank > 0) down("down-projection of queries", rank);
    if (rank > 0 && shape_.qk_layernorm) norm(rank);
    linear("up-projection of queries", queries, rank > 0 ? rank : h, true, false);
    down("down-projection of keys and values", latent.kv_lora_rank + latent.qk_pos_emb_head_dim);
    if (shape_.qk_layernorm) norm(latent.kv_lora_rank);
    linear("up-projection of keys and values", heads * (latent.qk_head_dim + latent.v_head_dim),
           latent.kv_lora_rank, true, false);
    linear("matrix after attention", h, heads * latent.v_head_dim, false, shape_.bias);
  }
  /// A matrix into a narrow hidden state, which Transformer Engine's layers have whole on every rank.
  void down(const char* name, std::int64_t outputs) {
    if (sizes_.cuts_latents) {
      sharded(name, outputs * shape_.hidden_size);
    } else {
      replicated(outputs * shape_.hidden_size, name);
    }
    multiplies(shape_.hidden_size);
  }
  void linear(const char* name, std::int64_t outputs, std::int64_t inputs, bool by_rows, bool has_bias) {
    sharded(name, outputs * inputs);
    multiplies(by_rows ? inputs : inputs / sizes_.tp);
    if (!has_bias) return;
    if (by_rows) {
      sharded("bias", outputs);
    } else {
      replicated(outputs);
    }
  }
  void mlp(std::int64_t inside, bool has_bias) {
    linear("first matrix of an MLP", up(inside), shape_.hidden_size, true, has_bias);
    linear("second matrix of an MLP", shape_.hidden_size, inside, false, has_bias);
  }
  /// A rank holds an ep-th of the experts, each cut over etp. A bias needs etp 1.
  void expert() {
    const std::int64_t h = shape_.hidden_size, f = shape_.experts.moe_ffn_hidden_size;
    const auto cut = [&](const char* name, std::int64_t elements) {
      held_.push_back({.elements = elements / sizes_.etp,
                       .shards = std::int64_t{sizes_.ep} * sizes_.etp,
                       .is_expert = true,
                       .name = name});
    };
    cut("first matrix of an expert", up(f) * h);
    multiplies(h);
    if (shape_.bias) cut("bias", up(f));
    cut("second matrix of an expert", h * f);
    multiplies(f / sizes_.etp);
    if (shape_.bias) cut("bias", h);
  }
  void experts() {
    const sim::GptExperts& experts = shape_.experts;
    replicated(experts.num_experts * shape_.hidden_size, "matrix of a router");
    if (shape_.bias) {
      replicated(experts.num_experts);
      held_.back().is_router_bias = true;
    }
    for (std::int64_t e = 0; e < experts.num_experts / sizes_.ep; ++e) expert();
    if (experts.shared_expert_intermediate_size == 0) return;
    mlp(experts.shared_expert_intermediate_size, false);
    if (experts.shared_expert_gate) replicated(shape_.hidden_size);
  }

  const sim::GptConfig& shape_;
  ShardSizes sizes_;
  std::vector<HeldParameter> held_;
};

void add_buffer(const HeldBytes& buffer, const StateBytes& state, StageMemory& memory) {
  memory.parameters += buffer.parameters;
  memory.gradients += buffer.gradients;
  memory.main_parameters += buffer.owned * state.main;
  memory.gradient_copies += buffer.owned * state.copied_gradient;
  memory.optimizer_moments += buffer.optimizer - buffer.owned * (state.main + state.copied_gradient);
}

/// Returns the bytes of all buffers of a stage: experts have buffers of their own if their grid is another
/// one.
StageMemory memory_of_buffers(std::vector<HeldParameter> held, const MemoryReport& report) {
  const BufferContents contents = contents_of_buffers(std::move(held), report.expert_owners > 0);
  StageMemory memory;
  add_buffer(held_bytes(contents.dense, report.owners, report.state), report.state, memory);
  if (contents.experts.empty()) return memory;
  const std::int64_t dense = memory.parameters;
  add_buffer(held_bytes(contents.experts, report.expert_owners, report.state), report.state, memory);
  memory.expert_parameters = memory.parameters - dense;
  return memory;
}

}  // namespace

std::vector<HeldParameter> held_parameters(const sim::GptConfig& shape, const Stage& stage,
                                           const ShardSizes& sizes) {
  Holder holder(shape, sizes);
  const bool two = has_two_embeddings(shape, stage);
  if (stage.is_first) holder.embedding(two, stage.is_last && !shape.untie_embeddings_and_output_weights);
  for (const sim::StageLayers& chunk : stage.layers)
    for (std::int64_t layer = chunk.offset; layer < chunk.offset + chunk.count; ++layer) holder.layer(layer);
  if (has_final_norm(shape, stage)) holder.final_norm();
  if (stage.is_last) holder.predictions();
  if (stage.is_last) holder.output(two);
  return holder.held();
}

BufferContents contents_of_buffers(std::vector<HeldParameter> held, bool experts_are_apart) {
  BufferContents contents;
  if (experts_are_apart) {
    std::ranges::copy_if(held, std::back_inserter(contents.experts), &HeldParameter::is_expert);
    std::erase_if(held, [](const HeldParameter& parameter) { return parameter.is_expert; });
  }
  contents.dense = std::move(held);
  return contents;
}

sim::BufferLayout buffer_of(const std::vector<HeldParameter>& parameters, int owners, bool is_distributed) {
  std::vector<sim::BufferParameter> sizes;
  for (const HeldParameter& parameter : parameters)
    sizes.push_back({parameter.elements, parameter.is_shared});
  const std::int64_t bucket_size = std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * owners);
  return sim::buffer_layout(
      sizes, {.owners = owners, .bucket_size = bucket_size, .distributed_optimizer = is_distributed});
}

HeldBytes held_bytes(const std::vector<HeldParameter>& parameters, int owners, const StateBytes& state) {
  const sim::BufferLayout layout = buffer_of(parameters, owners, state.is_distributed);
  std::int64_t most = 0;
  for (int rank = 0; rank < owners && state.is_distributed; ++rank) {
    std::int64_t owned = 0;
    for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket) {
      for (const sim::OwnedPiece& piece : sim::owned_pieces(layout, bucket, rank))
        owned += piece.param.size();
    }
    most = std::max(most, owned);
  }
  if (!state.is_distributed) most = layout.numel();
  return {.parameters = layout.numel() * state.parameter,
          .gradients = layout.numel() * state.gradient,
          .optimizer = most * state.optimizer,
          .owned = most};
}

std::size_t MemoryReport::fullest() const {
  const auto most = std::ranges::max_element(stages, {}, &StageMemory::peak_bytes);
  return static_cast<std::size_t>(most - stages.begin());
}

std::optional<bool> MemoryReport::fits() const {
  if (!gpu_memory) return std::nullopt;
  if (stages[fullest()].peak_bytes() > *gpu_memory) return false;
  return has_activations ? std::optional(true) : std::nullopt;
}

bool MemoryReport::fits_as_asked() const { return !gpu_memory || fits().value_or(false); }

ActivationShape activation_shape(const sim::GptConfig& shape, const sim::Layout& layout,
                                 const ActivationRun& run, const StateBytes& state,
                                 const MemoryOptions& options) {
  return {.model = shape,
          .options = options,
          .padded_vocab_size = vocabulary_of(shape, layout.tp),
          .tokens = run.micro_batch_size * shape.seq_length / layout.cp,
          .micro_batch_size = run.micro_batch_size,
          .element_bytes = state.parameter,
          .tp = layout.tp,
          .etp = layout.etp,
          .ep = layout.ep,
          .cp = layout.cp,
          .sequence_parallel = run.sequence_parallel};
}

MemoryReport check_memory(const sim::GptConfig& shape, const sim::Layout& layout,
                          const sim::LayerPlacement& placement, const ActivationRun& run,
                          const StateBytes& state, const MemoryOptions& options) {
  const ShardSizes sizes{
      .tp = layout.tp, .ep = layout.ep, .etp = layout.etp, .cuts_latents = options.local_layers};
  const bool has_experts = shape.experts.num_experts > 0;
  const auto owners = [&](int replicas) { return state.is_distributed ? replicas / layout.instances : 1; };
  const auto stages = static_cast<int>(placement.stages.size());
  const ActivationShape activations = activation_shape(shape, layout, run, state, options);
  std::int64_t elements = 0;
  MemoryReport report{.row = {},
                      .owners = owners(layout.dp * layout.cp),
                      .expert_owners = has_experts && sizes.has_expert_grid() ? owners(layout.edp) : 0,
                      .state = state,
                      .gpu_memory = options.gpu_memory};
  StageMemory of_buffers;
  std::vector<HeldParameter> held_before;
  for (int s = 0; s < stages; ++s) {
    const Stage stage{.layers = placement.stages[static_cast<std::size_t>(s)],
                      .is_first = s == 0,
                      .is_last = s + 1 == stages};
    std::vector<HeldParameter> held = held_parameters(shape, stage, sizes);
    for (const HeldParameter& parameter : held) {
      if (!parameter.is_copy) elements += parameter.elements * parameter.shards;
    }
    // Most stages hold what the one before them holds.
    if (s == 0 || held != held_before) {
      of_buffers = memory_of_buffers(held, report);
      if (options.fused_weight_gradient)
        of_buffers.placeholder_gradients = state.parameter * placeholder_elements(held);
    }
    held_before = std::move(held);
    StageMemory memory = of_buffers;
    memory.workspace = workspace_bytes(activations);
    memory.communication_buffers =
        communication_buffer_bytes(activations, stages, std::ssize(stage.layers), stage.is_last);
    report.stages.push_back(std::move(memory));
  }
  if (run.schedule != nullptr) add_activations(activations, placement, run, report);
  const std::int64_t padding = (vocabulary_of(shape, layout.tp) - shape.vocab_size) * shape.hidden_size *
                               (shape.untie_embeddings_and_output_weights ? 2 : 1);
  const std::int64_t expected = parameter_count(shape) + padding;
  report.row = elements == expected
                   ? CheckResult{"memory", report.fits_as_asked(), text_of_most(report, has_experts)}
                   : CheckResult{"memory", false,
                                 fmt::format("ranks hold {} elements in all, but the model has {}", elements,
                                             expected)};
  return report;
}

}  // namespace verify
