#include "verify/full_size/step_work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/tensor/checks.h"
#include "verify/cases/cp_calls.h"
#include "verify/cases/latent_layer.h"
#include "verify/cases/token_calls.h"
#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/gradient_buffers.h"
#include "verify/full_size/moved_bytes.h"
#include "verify/memory/model_memory.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

using sim::Operation;
using Calls = std::vector<ExpectedCall>;

/// The multiply-adds of attention on a rank, without its linear layers.
struct AttentionProducts {
  std::int64_t forward = 0, backward = 0;
};

/// What a chunk is among all chunks of the model.
struct ChunkPlace {
  int rank = 0;
  std::int64_t number = 0;  // of the stage: chunk * pp + rank
  sim::StageLayers layers;
  bool is_first = false, is_last = false;
};

class StepWork {
 public:
  explicit StepWork(const ScenarioRequest& request)
      : request_(request),
        layout_(request.layout),
        shape_(request.model.config),
        tokens_(shape_.seq_length / layout_.cp * request.batch.micro_batch_size),
        dtype_(request.state.parameter == 2 ? sim::DType::bf16 : sim::DType::f32),
        layer_{.all = tokens_ * shape_.hidden_size,
               .tp = layout_.tp,
               .sequence_parallel = request.model.config.sequence_parallel && layout_.tp > 1} {
    if (has_experts(request)) experts_ = balanced_rows(request);
  }

  std::vector<RankWork> ranks() const {
    std::vector<RankWork> all;
    for (int rank = 0; rank < layout_.pp; ++rank) {
      RankWork work;
      const auto& chunks = request_.placement->stages[static_cast<std::size_t>(rank)];
      for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        const std::int64_t number = static_cast<std::int64_t>(chunk) * layout_.pp + rank;
        work.chunks.push_back(
            chunk_work({.rank = rank,
                        .number = number,
                        .layers = chunks[chunk],
                        .is_first = number == 0,
                        .is_last = number + 1 == std::ssize(chunks) * std::int64_t{layout_.pp}}));
      }
      add_gradients(rank, work.of_step);
      add_tied_embedding(rank, work);
      add_scalars(rank, work.of_step);
      all.push_back(std::move(work));
    }
    return all;
  }

 private:
  sim::DType sums() const { return sim::sum_dtype(dtype_); }

  void add(ExpectedCall call, std::int64_t times, std::vector<RepeatedCall>& to,
           int ep_rank = kAllEpRanks) const {
    if (call.dtype == sim::DType::field) call.dtype = call.of_sums ? sums() : dtype_;
    to.push_back({std::move(call), times, ep_rank});
  }
  void add(const Calls& calls, std::int64_t times, std::vector<RepeatedCall>& to,
           int ep_rank = kAllEpRanks) const {
    for (const ExpectedCall& call : calls) add(call, times, to, ep_rank);
  }

  // ---- passes

  ChunkWork chunk_work(const ChunkPlace& place) const {
    ChunkWork work;
    add_message(place, -1, Operation::recv, work.forward);
    add_message(place, 1, Operation::recv, work.backward);
    if (place.is_first) add_embedding(work);
    for (const auto& [kind, layers] : layers_by_kind(place.layers)) add_layers(kind, layers, work);
    if (place.is_last) add_output(work);
    add_message(place, 1, Operation::send, work.forward);
    add_message(place, -1, Operation::send, work.backward);
    return work;
  }

  /// The message to or from the stage that is `step` stages further on, if there is one.
  void add_message(const ChunkPlace& place, int step, Operation operation, PassWork& pass) const {
    if (step < 0 ? place.is_first : place.is_last) return;
    add({.site = "",
         .operation = operation,
         .elements = layer_.all / (layer_.sequence_parallel ? layout_.tp : 1),
         .group = "pp",
         .root_or_peer = static_cast<int>((place.number + step) % layout_.pp)},
        1, pass.calls);
  }

  /// What layers differ in: their attention over context-parallel ranks, and whether they have experts.
  struct LayerKind {
    sim::CpCommType attention = sim::CpCommType::p2p;
    bool has_experts = false;
    auto operator<=>(const LayerKind&) const = default;
  };
  std::map<LayerKind, std::int64_t> layers_by_kind(const sim::StageLayers& layers) const {
    std::map<LayerKind, std::int64_t> counts;
    for (std::int64_t layer = layers.offset; layer < layers.offset + layers.count; ++layer) {
      ++counts[{.attention = shape_.cp_comm_type_of(layer), .has_experts = shape_.experts.are_in(layer)}];
    }
    return counts;
  }

  void add_layers(const LayerKind& kind, std::int64_t layers, ChunkWork& work) const {
    const CpCalls attention = attention_calls(kind.attention);
    const AttentionProducts products = attention_products(kind.attention);
    const bool has_mlp = !kind.has_experts || shape_.experts.shared_expert_intermediate_size > 0;
    Calls forward, backward;
    heads_forward(forward);
    attention.forward(forward);
    layer_.row_forward(forward);
    if (has_mlp) layer_.column_forward(forward);
    if (has_mlp) layer_.row_forward(forward);
    const std::int64_t linear =
        projection_products() + (kind.has_experts ? expert_products() : mlp_products());
    std::int64_t again = 0;
    if (request_.training.recompute) {
      backward = forward;
      again = linear + products.forward;
    }
    if (request_.memory.recomputes("core_attn")) {
      attention.forward(backward);
      again += products.forward;
    }
    if (repeats_mlp_of(kind)) {
      layer_.column_forward(backward);
      layer_.row_forward(backward);
    }
    again += products_again(kind);
    if (has_mlp) layer_.row_backward(backward);
    if (has_mlp) layer_.column_backward(backward);
    layer_.row_backward(backward);
    attention.backward(backward);
    heads_backward(backward);
    add(forward, layers, work.forward.calls);
    add(backward, layers, work.backward.calls);
    if (kind.has_experts) add_experts(layers, work);
    work.forward.multiply_adds += layers * (linear + products.forward);
    work.backward.multiply_adds += layers * (2 * linear + products.backward + again);
    const std::int64_t moved = moved_bytes_of_layer(request_, kind.has_experts);
    work.forward.moved_bytes += layers * moved;
    work.backward.moved_bytes += layers * (request_.training.recompute ? 3 : 2) * moved;
  }

  /// Whether selective recomputation runs the MLP of a layer again, or its shared experts.
  bool repeats_mlp_of(const LayerKind& kind) const {
    if (!kind.has_experts) return request_.memory.recomputes("mlp");
    return shape_.experts.shared_expert_intermediate_size > 0 &&
           (request_.memory.recomputes("moe") || request_.memory.recomputes("shared_experts"));
  }
  /// The products that selective recomputation outside of attention repeats.
  std::int64_t products_again(const LayerKind& kind) const {
    if (!kind.has_experts) return request_.memory.recomputes("mlp") ? mlp_products() : 0;
    if (request_.memory.recomputes("moe")) return expert_products();
    return request_.memory.recomputes("shared_experts") ? shared_products() : 0;
  }

  /// The calls of experts, which differ by the place of a rank in ep unless each has as many rows. Of two
  /// forward passes one counts tokens.
  void add_experts(std::int64_t layers, ChunkWork& work) const {
    add(balance_loss_calls(request_), layers, work.forward.calls);
    for (int ep_rank = 0; ep_rank < (experts_.is_even() ? 1 : layout_.ep); ++ep_rank) {
      const ExpertCalls dispatch = balanced_dispatch(request_, experts_, ep_rank);
      Calls forward, backward;
      dispatch.forward(forward);
      if (request_.training.recompute || request_.memory.recomputes("moe")) dispatch.forward(backward);
      dispatch.backward(backward);
      const int made_by = experts_.is_even() ? kAllEpRanks : ep_rank;
      add(forward, layers, work.forward.calls, made_by);
      add(backward, layers, work.backward.calls, made_by);
    }
  }

  /// The calls between the input of attention and its heads.
  void heads_forward(Calls& calls) const {
    if (shape_.latent)
      latent_calls().forward_to_heads(calls);
    else
      layer_.column_forward(calls);
  }
  void heads_backward(Calls& calls) const {
    if (shape_.latent)
      latent_calls().backward_from_heads(calls);
    else
      layer_.column_backward(calls);
  }
  LatentCalls latent_calls() const {
    return {.tokens = tokens_,
            .hidden = shape_.hidden_size,
            .sizes = *shape_.latent,
            .tp = layout_.tp,
            .sequence_parallel = layer_.sequence_parallel};
  }

  /// The channels of a head: of a query or key, and of a value.
  std::int64_t key_channels() const {
    return shape_.latent ? shape_.latent->qk_head_dim + shape_.latent->qk_pos_emb_head_dim
                         : shape_.head_size();
  }
  std::int64_t value_channels() const {
    return shape_.latent ? shape_.latent->v_head_dim : shape_.head_size();
  }

  /// The calls of attention of the first context-parallel rank. The others make as many of the same sizes.
  CpCalls attention_calls(sim::CpCommType kind) const {
    const std::int64_t heads = tokens_ * shape_.num_attention_heads / layout_.tp;
    const std::int64_t groups = tokens_ * shape_.num_query_groups / layout_.tp;
    return {.kind = kind,
            .cp = layout_.cp,
            .inner = inner_cp(request_),
            .place = 0,
            .queries = heads * key_channels(),
            .keys = groups * key_channels(),
            .values = groups * value_channels(),
            .context = heads * value_channels()};
  }

  /// The multiply-adds of the linear layers of attention for the tokens of a microbatch, forward.
  std::int64_t projection_products() const {
    if (shape_.latent) return latent_products(*shape_.latent);
    const std::int64_t channels =
        (2 * shape_.num_attention_heads + 2 * shape_.num_query_groups) * shape_.head_size();
    return tokens_ * shape_.hidden_size * channels / layout_.tp;
  }
  /// Those of latent attention. Each rank computes the latent states of its own tokens.
  std::int64_t latent_products(const sim::LatentSizes& latent) const {
    const std::int64_t down = latent.q_lora_rank + latent.kv_lora_rank + latent.qk_pos_emb_head_dim;
    const std::int64_t own_tokens = tokens_ / (layer_.sequence_parallel ? layout_.tp : 1);
    const std::int64_t queries =
        (latent.q_lora_rank > 0 ? latent.q_lora_rank : shape_.hidden_size) * key_channels();
    const std::int64_t keys_and_values = latent.kv_lora_rank * (latent.qk_head_dim + latent.v_head_dim);
    const std::int64_t of_a_head = queries + keys_and_values + shape_.hidden_size * latent.v_head_dim;
    return own_tokens * shape_.hidden_size * down +
           tokens_ * shape_.num_attention_heads * of_a_head / layout_.tp;
  }
  /// Those of an MLP with `inside` features inside for rows of tokens, in all its shards.
  std::int64_t products_of_mlp(std::int64_t rows, std::int64_t inside) const {
    return rows * shape_.hidden_size * (shape_.gated ? 3 : 2) * inside;
  }
  std::int64_t mlp_products() const { return products_of_mlp(tokens_, shape_.ffn_hidden_size) / layout_.tp; }
  /// Those of a router, the experts of a rank that has most rows, and the shared experts with their gate.
  std::int64_t expert_products() const {
    const sim::GptExperts& experts = shape_.experts;
    const std::int64_t of_own_tokens = experts.num_experts + (experts.shared_expert_gate ? 1 : 0);
    return tokens_ / layout_.tp * shape_.hidden_size * of_own_tokens +
           products_of_mlp(experts_.most_rows() * layout_.ep * layout_.etp, experts.moe_ffn_hidden_size) /
               layout_.etp +
           shared_products();
  }
  std::int64_t shared_products() const {
    return products_of_mlp(tokens_, shape_.experts.shared_expert_intermediate_size) / layout_.tp;
  }

  /// Scores, and their product with the values, in the blocks of queries and keys that a rank has. A ring
  /// computes its scores again in backward, and a product of the context with its gradient. Otherwise
  /// backward has two products for each of forward.
  AttentionProducts attention_products(sim::CpCommType kind) const {
    const int exchanging = layout_.cp == 1 ? 1 : exchanging_ranks(kind, layout_.cp, inner_cp(request_));
    const int ring = kind == sim::CpCommType::all_gather ? 1 : layout_.cp / exchanging;
    const std::int64_t heads = shape_.num_attention_heads / layout_.tp;  // over all that exchange them
    const std::int64_t batch = request_.batch.micro_batch_size;
    const std::int64_t keys = batch * key_channels(), values = batch * value_channels();  // of a pair
    const std::int64_t s = shape_.seq_length;
    if (kind == sim::CpCommType::all_gather && layout_.cp > 1) {
      const std::int64_t half = s / (2 * layout_.cp);
      const std::int64_t forward = heads * (keys + values) * half * half * (2 * layout_.cp + 1);
      return {forward, 2 * forward};
    }
    if (ring == 1) {
      const std::int64_t forward = heads * (keys + values) * s * s / exchanging;
      return {forward, 2 * forward};
    }
    const std::int64_t half = s / (2 * ring);
    const std::int64_t pairs = heads * 2 * half * half * (ring + 1) / exchanging;
    return {pairs * (keys + values),
            pairs * (3 * keys + 2 * values) + heads * values / exchanging * (s / ring)};
  }

  /// Learned positions are added to whole sequences, which are scattered afterwards.
  void add_embedding(ChunkWork& work) const {
    Calls forward, backward;
    get_batch("get_batch.tokens", forward);
    TokenCalls embedding = layer_;
    embedding.sequence_parallel = layer_.sequence_parallel && !shape_.has_learned_positions();
    embedding.embedding_forward(forward);
    if (layer_.sequence_parallel && shape_.has_learned_positions())
      backward.push_back(
          {"language_model_embedding.backward", Operation::all_gather, layer_.all / layout_.tp});
    embedding.embedding_backward(backward);
    add(forward, 1, work.forward.calls);
    add(backward, 1, work.backward.calls);
  }
  void add_output(ChunkWork& work) const {
    Calls forward, backward;
    get_batch("get_batch.labels", forward);
    layer_.column_forward(forward);
    loss_calls(tokens_, false, layout_.tp, forward);
    layer_.column_backward(backward);
    add(forward, 1, work.forward.calls);
    add(backward, 1, work.backward.calls);
    const std::int64_t products = tokens_ * shape_.hidden_size * (vocabulary() / layout_.tp);
    work.forward.multiply_adds += products;
    work.backward.multiply_adds += 2 * products;
    work.forward.moved_bytes += moved_bytes_of_output(request_);
    work.backward.moved_bytes += 2 * moved_bytes_of_output(request_);
  }
  std::int64_t vocabulary() const {
    return *padded_vocabulary(shape_.vocab_size, layout_.tp, shape_.make_vocab_size_divisible_by);
  }
  void get_batch(const char* site, Calls& calls) const {
    if (layout_.tp == 1) return;
    calls.push_back({.site = site,
                     .operation = Operation::broadcast,
                     .elements = tokens_,
                     .dtype = sim::DType::i32,
                     .root_or_peer = 0});
  }

  // ---- once in a step

  void add_gradients(int rank, std::vector<RepeatedCall>& calls) const {
    std::map<std::int64_t, std::int64_t> partial;  // gradients of own tokens, or own heads, by their elements
    const std::vector<HeldParameter> held = parameters_at_full_size(request_, rank);
    for (const HeldParameter& parameter : held) {
      const bool sees_a_part = layer_.sequence_parallel || parameter.is_head_norm;
      const bool is_replicated = parameter.shards == 1 && !parameter.is_expert;
      const bool is_position = shape_.has_learned_positions() && rank == 0 && &parameter == &held[1];
      if (sees_a_part && is_replicated && !is_position) ++partial[parameter.elements];
    }
    for (const auto& [elements, times] : partial) {
      Calls sum;
      sequence_parallel_sum(elements, layout_.tp, sum);
      add(sum, times, calls);
    }
    for (const GradientBuffer& buffer : gradient_buffers(request_, rank)) add_buckets(buffer, calls);
    add_biases_of_experts(rank, calls);
  }

  void add_buckets(const GradientBuffer& buffer, std::vector<RepeatedCall>& calls) const {
    if (buffer.replicas == 1) return;
    for (const reference::GradientBucket& bucket : buffer.buckets) {
      const auto over_replicas = [&](const char* site, Operation operation, std::int64_t elements,
                                     bool of_sums) {
        add({.site = site,
             .operation = operation,
             .elements = elements,
             .of_sums = of_sums,
             .group = buffer.group},
            1, calls);
      };
      if (!request_.state.is_distributed) {
        over_replicas("data_parallel.all_reduce", Operation::all_reduce, bucket.elements, true);
        continue;
      }
      const std::int64_t part = bucket.elements / buffer.replicas;
      over_replicas("data_parallel.reduce_scatter", Operation::reduce_scatter, part, true);
      over_replicas("optimizer.gather_params", Operation::all_gather, part, false);
    }
  }

  /// The tokens of each expert, by which the biases of all routers of a rank move.
  void add_biases_of_experts(int rank, std::vector<RepeatedCall>& calls) const {
    const sim::GptExperts& experts = shape_.experts;
    if (!experts.expert_bias || layout_.grid_size == layout_.pp) return;
    std::int64_t routers = 0;
    for (const sim::StageLayers& chunk : request_.placement->stages[static_cast<std::size_t>(rank)])
      for (std::int64_t layer = chunk.offset; layer < chunk.offset + chunk.count; ++layer)
        routers += experts.are_in(layer) ? 1 : 0;
    if (routers == 0) return;
    add({.site = "expert_bias.tokens",
         .operation = Operation::all_reduce,
         .elements = routers * experts.num_experts,
         .dtype = sim::DType::i32,
         .group = "tp-dp-cp"},
        1, calls);
  }

  /// The embedding and its copy on the last stage are tied when they are made, and summed in every step.
  void add_tied_embedding(int rank, RankWork& work) const {
    const bool has_one = rank == 0 || rank + 1 == layout_.pp;
    if (shape_.untie_embeddings_and_output_weights || layout_.pp == 1 || !has_one) return;
    ExpectedCall call{.site = "tied_embeddings.tie",
                      .operation = Operation::all_reduce,
                      .elements = vocabulary() / layout_.tp * shape_.hidden_size,
                      .group = "embd"};
    add(call, 1, work.of_making);
    call.site = "tied_embeddings.grads";
    call.of_sums = true;
    add(call, 1, work.of_step);
  }

  /// The norm of all gradients, the logged loss, and the number of tokens.
  void add_scalars(int rank, std::vector<RepeatedCall>& calls) const {
    const auto one = [&](const char* site, Operation operation, const char* group, sim::DType dtype,
                         int root) {
      add({.site = site,
           .operation = operation,
           .elements = 1,
           .dtype = dtype,
           .group = group,
           .root_or_peer = root},
          1, calls);
    };
    const bool is_distributed = request_.state.is_distributed;
    const int sharers = is_distributed ? layout_.grid_size : layout_.tp * layout_.pp;
    const bool has_replicas = layout_.dp * layout_.cp > 1, is_last = rank + 1 == layout_.pp;
    if (sharers > 1)
      one("optimizer.grad_norm", Operation::all_reduce, is_distributed ? "intra-dist-opt" : "mp", sums(), -1);
    if (!is_distributed && has_expert_buffers(request_) && layout_.etp * layout_.ep * layout_.pp > 1)
      one("optimizer.grad_norm", Operation::all_reduce, "tp-ep-pp", sums(), -1);
    if (has_replicas && is_last) one("training_log.loss", Operation::all_reduce, "dp-cp", sums(), -1);
    if (!request_.training.calculate_per_token_loss) return;
    if (layout_.pp > 1)
      one("finalize_model_grads.tokens", Operation::broadcast, "pp", sim::DType::i32, layout_.pp - 1);
    if (has_replicas)
      one("finalize_model_grads.sum_tokens", Operation::all_reduce, "dp-cp", sim::DType::i32, -1);
  }

  const ScenarioRequest& request_;
  const sim::Layout& layout_;
  const sim::GptConfig& shape_;
  std::int64_t tokens_;  // of a microbatch on a rank
  sim::DType dtype_;
  TokenCalls layer_;
  BalancedRows experts_;
};

/// The channels of a head that rotary positions turn in pairs.
std::int64_t rotated_channels(const sim::GptConfig& shape) {
  return shape.latent ? shape.latent->qk_pos_emb_head_dim : shape.head_size();
}

/// Whether the heads of a rank can be exchanged over context-parallel ranks, where its layers do so.
bool exchanges_heads(const ScenarioRequest& request) {
  const sim::Layout& layout = request.layout;
  const std::int64_t groups = request.model.config.num_query_groups / layout.tp;
  const auto& types = request.model.config.cp_comm_types;
  return std::all_of(types.begin(), types.end(), [&](sim::CpCommType type) {
    return groups % exchanging_ranks(type, layout.cp, inner_cp(request)) == 0;
  });
}

/// The modules whose recomputation is counted, and whether it makes calls: always, never, or over cp.
enum class Repeated { never, over_cp, always };
constexpr std::pair<std::string_view, Repeated> kRecomputed[] = {
    {"layernorm", Repeated::never}, {"moe_act", Repeated::never}, {"core_attn", Repeated::over_cp},
    {"mlp", Repeated::always},      {"moe", Repeated::always},    {"shared_experts", Repeated::always}};

const std::pair<std::string_view, Repeated>* recomputed_module(const std::string& module) {
  const auto* const found =
      std::ranges::find(kRecomputed, module, &std::pair<std::string_view, Repeated>::first);
  return found == std::end(kRecomputed) ? nullptr : found;
}

bool knows_recomputed(const MemoryOptions& memory) {
  return memory.recompute != RecomputeMethod::modules ||
         std::ranges::all_of(memory.modules,
                             [](const auto& one) { return recomputed_module(one) != nullptr; });
}

/// Why a step has no closed form, in the order in which the reasons are given.
struct Reason {
  bool (*stops)(const ScenarioRequest&);
  const char* sentence;
};
constexpr Reason kReasons[] = {
    {[](const ScenarioRequest& r) { return r.model.config.mtp_num_layers > 0; },
     "multi-token-prediction layers are not run at full size"},
    {[](const ScenarioRequest& r) { return r.placement->encoder_ranks > 0; },
     "encoder-decoder models are not run at full size"},
    {[](const ScenarioRequest& r) { return r.layout.instances > 1; },
     "several optimizer instances are not run at full size"},
    {[](const ScenarioRequest& r) { return r.layout.world_size != r.layout.grid_size; },
     "a grid of a part of the world is not run at full size"},
    {[](const ScenarioRequest& r) {
       return r.model.config.seq_length % (r.layout.cp > 1 ? 2 * r.layout.cp : 1) != 0;
     },
     "the length of a sequence is not a multiple of 2 cp"},
    {[](const ScenarioRequest& r) {
       return r.memory.recompute == RecomputeMethod::block || !knows_recomputed(r.memory);
     },
     "of the modules that are computed again, core_attn, layernorm, mlp, moe, moe_act and shared_experts are "
     "counted, and whole layers by --recompute-method uniform"},
    {[](const ScenarioRequest& r) { return r.state.dtypes.starts_with("fp16"); },
     "--fp16, which scales losses, is not run at full size"},
    {[](const ScenarioRequest& r) { return r.state.parameter == 2 && r.state.gradient != 4; },
     "gradients of 16 bits are not reduced at full size"},
    {[](const ScenarioRequest& r) {
       return r.model.config.has_learned_positions() &&
              r.model.config.positions() != r.model.config.seq_length;
     },
     "--max-position-embeddings is not the length of a sequence"},
    {[](const ScenarioRequest& r) {
       return r.model.config.num_query_groups % r.layout.tp != 0 ||
              r.model.config.num_attention_heads % r.layout.tp != 0;
     },
     "ranks that share a query group are not run at full size"},
    {[](const ScenarioRequest& r) { return r.model.config.ffn_hidden_size % r.layout.tp != 0; },
     "the sizes of the model are not multiples of tp"},
    {[](const ScenarioRequest& r) { return rotated_channels(r.model.config) % 2 != 0; },
     "an odd number of channels has rotary positions"},
    {[](const ScenarioRequest& r) { return !exchanges_heads(r); },
     "the query groups of a rank are not a multiple of those that exchange heads"},
    {[](const ScenarioRequest& r) {
       return r.model.config.sequence_parallel && r.model.config.seq_length / r.layout.cp % r.layout.tp != 0;
     },
     "the length of a sequence is not a multiple of tp"}};

/// Returns why a step has no schedule whose chunks are those of the layers; "" if it has one.
std::string why_no_schedule(const ScenarioRequest& request) {
  if (request.layout.pp > 1 && !request.schedule)
    return request.no_schedule.empty() ? "a step has no schedule" : request.no_schedule;
  const std::int64_t chunks_of_schedule = request.schedule ? request.schedule->shape.chunks() : 1;
  const bool has_others = std::ranges::any_of(request.placement->stages, [&](const auto& chunks) {
    return std::ssize(chunks) != chunks_of_schedule;
  });
  return has_others ? "the chunks of the schedule are not those of the layers" : "";
}

}  // namespace

std::int64_t RankWork::multiply_adds(std::int64_t microbatches) const {
  std::int64_t sum = 0;
  for (const ChunkWork& chunk : chunks) sum += chunk.forward.multiply_adds + chunk.backward.multiply_adds;
  return microbatches * sum;
}

std::string why_no_step_work(const ScenarioRequest& request) {
  if (!request.not_proved.training.empty()) return request.not_proved.training;
  for (const auto& [stops, reason] : kReasons)
    if (stops(request)) return reason;
  if (std::string reason = has_experts(request) ? why_no_experts(request) : ""; !reason.empty())
    return reason;
  return why_no_schedule(request);
}

bool repeats_calls(const ScenarioRequest& request) {
  return request.memory.recompute == RecomputeMethod::modules &&
         std::ranges::any_of(request.memory.modules, [&](const std::string& name) {
           const auto* const module = recomputed_module(name);
           return module == nullptr || module->second == Repeated::always ||
                  (module->second == Repeated::over_cp && request.layout.cp > 1);
         });
}

std::vector<RankWork> step_work(const ScenarioRequest& request) { return StepWork(request).ranks(); }

}  // namespace verify
