#include "verify/full_size/step_totals.h"

#include <fmt/format.h>

#include "verify/cases/cp_calls.h"
#include "verify/cases/token_calls.h"
#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/full_size_training.h"
#include "verify/memory/model_memory.h"
#include "verify/options/padded_vocabulary.h"
#include "verify/options/schedule_request.h"
#include "verify/output/phrases.h"
#include "verify/reference/gradient_buckets.h"

namespace verify {

namespace {

using sim::Operation;

class Step {
 public:
  explicit Step(const ScenarioRequest& request)
      : request_(request),
        layout_(request.layout),
        shape_(*request.model.shape),
        microbatches_(microbatches_of_batch(request.batch, layout_.dp)),
        tokens_(shape_.seq_length / layout_.cp * request.batch.micro_batch_size),
        ranks_of_stage_(std::int64_t{layout_.tp} * layout_.cp * layout_.dp),
        layer_{.all = tokens_ * shape_.hidden_size,
               .tp = layout_.tp,
               .sequence_parallel = request.model.sequence_parallel && layout_.tp > 1} {}

  StepTotals totals() {
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) add_layer(layer);
    add_experts();
    add_embedding();
    add_output();
    add_messages();
    for (int rank = 0; rank < layout_.pp; ++rank) add_gradients(rank);
    add_tied_embedding();
    add_scalars();
    return std::move(totals_);
  }

 private:
  using Calls = std::vector<ExpectedCall>;

  void add(const ExpectedCall& call, std::int64_t times) {
    const bool is_message = sim::is_point_to_point(call.operation);
    CallTotal& total = totals_[{call.group, is_message ? "" : call.site, call.operation}];
    total.calls += times;
    total.elements += times * call.elements;
  }
  /// Adds calls that each rank of a stage makes in every microbatch.
  void add_of_microbatches(const Calls& calls) {
    for (const ExpectedCall& call : calls) add(call, ranks_of_stage_ * microbatches_);
  }

  void add_layer(std::int64_t layer) {
    Calls calls;
    const CpCalls attention = attention_of(layer);
    const ExpertOptions& experts = request_.model.experts;
    const bool has_mlp = !experts.are_in(layer) || experts.shared_expert_intermediate_size > 0;
    for (int pass = 0; pass < forward_passes(); ++pass) {
      layer_.column_forward(calls);
      attention.forward(calls);
      layer_.row_forward(calls);
      if (!has_mlp) continue;
      layer_.column_forward(calls);
      layer_.row_forward(calls);
    }
    if (has_mlp) {
      layer_.row_backward(calls);
      layer_.column_backward(calls);
    }
    layer_.row_backward(calls);
    attention.backward(calls);
    layer_.column_backward(calls);
    add_of_microbatches(calls);
  }
  int forward_passes() const { return request_.training.recompute ? 2 : 1; }

  /// Adds the calls of the layers of experts. Of two forward passes one counts tokens.
  void add_experts() {
    std::int64_t layers = 0;
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer)
      layers += request_.model.experts.are_in(layer) ? 1 : 0;
    if (layers == 0) return;
    for (const ExpectedCall& call : balance_loss_calls(request_))
      add(call, layers * ranks_of_stage_ * microbatches_);
    const int places = layout_.ep * layout_.etp;
    for (int place = 0; place < places; ++place) {
      const ExpertCalls dispatch = balanced_dispatch(request_, place);
      Calls calls;
      for (int pass = 0; pass < forward_passes(); ++pass) dispatch.forward(calls);
      dispatch.backward(calls);
      for (const ExpectedCall& call : calls) add(call, layers * ranks_of_stage_ / places * microbatches_);
    }
  }
  /// The calls of attention of the first context-parallel rank. The others make as many of the same sizes.
  CpCalls attention_of(std::int64_t layer) const {
    const auto& types = request_.model.cp_comm_types;
    const std::int64_t channels = tokens_ * shape_.head_size() / layout_.tp;
    const std::int64_t of_queries = shape_.num_attention_heads * channels;
    const std::int64_t of_keys = shape_.num_query_groups * channels;
    sim::CpCommType kind = sim::CpCommType::p2p;
    if (!types.empty()) kind = types.size() == 1 ? types[0] : types[static_cast<std::size_t>(layer)];
    return {.kind = kind,
            .cp = layout_.cp,
            .inner = inner_cp(request_),
            .place = 0,
            .queries = of_queries,
            .keys = of_keys,
            .values = of_keys,
            .context = of_queries};
  }

  /// Learned positions are added to whole sequences, which are scattered afterwards.
  void add_embedding() {
    Calls calls;
    get_batch("get_batch.tokens", calls);
    TokenCalls embedding = layer_;
    embedding.sequence_parallel = layer_.sequence_parallel && !shape_.learned_positions;
    embedding.embedding_forward(calls);
    if (layer_.sequence_parallel && shape_.learned_positions)
      calls.push_back({"language_model_embedding.backward", Operation::all_gather, layer_.all / layout_.tp});
    embedding.embedding_backward(calls);
    add_of_microbatches(calls);
  }
  void add_output() {
    Calls calls;
    get_batch("get_batch.labels", calls);
    layer_.column_forward(calls);
    loss_calls(tokens_, false, layout_.tp, calls);
    layer_.column_backward(calls);
    add_of_microbatches(calls);
  }
  void get_batch(const char* site, Calls& calls) const {
    if (layout_.tp > 1) calls.push_back({site, Operation::broadcast, tokens_});
  }

  std::int64_t chunks() const { return request_.schedule ? request_.schedule->shape.chunks() : 1; }

  /// Each microbatch crosses every border between two stages, forward and backward.
  void add_messages() {
    const std::int64_t borders = layout_.pp * chunks() - 1;
    if (layout_.pp == 1) return;
    const std::int64_t elements = layer_.all / (layer_.sequence_parallel ? layout_.tp : 1);
    for (const Operation operation : {Operation::send, Operation::recv}) {
      const ExpectedCall message{.site = "", .operation = operation, .elements = elements, .group = "pp"};
      add(message, 2 * borders * microbatches_ * ranks_of_stage_);
    }
  }

  /// The chunks of a pipeline rank as one list of layers.
  Stage stage_of(int rank) const {
    return {.layers = request_.placement->stages[static_cast<std::size_t>(rank)],
            .is_first = rank == 0,
            .is_last = rank + 1 == layout_.pp};
  }

  /// Whether experts have buffers of their own, which other ranks share than those of dense parameters.
  bool has_expert_buffers() const {
    return has_experts(request_) && (layout_.ep > 1 || layout_.etp != layout_.tp);
  }

  void add_gradients(int rank) {
    const std::vector<HeldParameter> held = held_parameters(
        shape_, stage_of(rank),
        {.tp = layout_.tp, .ep = layout_.ep, .etp = has_experts(request_) ? layout_.etp : layout_.tp});
    std::vector<reference::GradientParameter> dense, of_experts;
    for (const HeldParameter& parameter : held) {
      if (parameter.is_router_bias) continue;
      auto& placed = parameter.is_expert && has_expert_buffers() ? of_experts : dense;
      placed.push_back({.elements = parameter.elements, .is_shared = parameter.is_shared && layout_.pp > 1});
      const bool sees_own_tokens = layer_.sequence_parallel && parameter.shards == 1 && !parameter.is_expert;
      const bool is_position = shape_.learned_positions && rank == 0 && &parameter == &held[1];
      if (!sees_own_tokens || is_position) continue;
      Calls calls;
      sequence_parallel_sum(parameter.elements, layout_.tp, calls);
      for (const ExpectedCall& call : calls) add(call, ranks_of_stage_);
    }
    add_buckets(dense, "dp-cp", layout_.dp * layout_.cp, bucket_size(request_, rank));
    add_buckets(of_experts, "edp", layout_.edp, bucket_size(request_, rank));
    add_biases_of_experts(rank);
  }

  void add_buckets(const std::vector<reference::GradientParameter>& placed, const char* group, int replicas,
                   std::optional<std::int64_t> bucket_size) {
    if (replicas == 1 || placed.empty()) return;
    const bool is_distributed = request_.state.is_distributed;
    for (const auto& bucket : reference::gradient_buckets(placed, {.owners = is_distributed ? replicas : 1,
                                                                  .bucket_size = bucket_size,
                                                                  .distributed_optimizer = is_distributed})) {
      const auto over_replicas = [&](const char* site, Operation operation, std::int64_t elements) {
        add({.site = site, .operation = operation, .elements = elements, .group = group}, ranks_of_stage_);
      };
      if (!is_distributed) {
        over_replicas("data_parallel.all_reduce", Operation::all_reduce, bucket.elements);
        continue;
      }
      over_replicas("data_parallel.reduce_scatter", Operation::reduce_scatter, bucket.elements / replicas);
      over_replicas("optimizer.gather_params", Operation::all_gather, bucket.elements / replicas);
    }
  }

  /// The tokens of each expert, by which the biases of all routers of a rank move.
  void add_biases_of_experts(int rank) {
    const ExpertOptions& experts = request_.model.experts;
    if (!experts.expert_bias || ranks_of_stage_ == 1) return;
    std::int64_t routers = 0;
    for (const sim::StageLayers& chunk : request_.placement->stages[static_cast<std::size_t>(rank)])
      for (std::int64_t layer = chunk.offset; layer < chunk.offset + chunk.count; ++layer)
        routers += experts.are_in(layer) ? 1 : 0;
    if (routers == 0) return;
    add({.site = "expert_bias.tokens",
         .operation = Operation::all_reduce,
         .elements = routers * experts.num_experts,
         .group = "tp-dp-cp"},
        ranks_of_stage_);
  }

  /// The embedding and its copy on the last stage are tied when they are made, and summed in every step.
  void add_tied_embedding() {
    if (shape_.untied_output || layout_.pp == 1) return;
    const std::int64_t rows =
        *padded_vocabulary(shape_.vocab_size, layout_.tp, shape_.make_vocab_size_divisible_by);
    for (const char* site : {"tied_embeddings.tie", "tied_embeddings.grads"}) {
      add({.site = site,
           .operation = Operation::all_reduce,
           .elements = rows / layout_.tp * shape_.hidden_size,
           .group = "embd"},
          2 * ranks_of_stage_);
    }
  }

  /// The norm of all gradients, the logged loss, and the number of tokens.
  void add_scalars() {
    const std::int64_t world = ranks_of_stage_ * layout_.pp;
    const auto one = [&](const char* site, Operation operation, const char* group, std::int64_t times) {
      add({.site = site, .operation = operation, .elements = 1, .group = group}, times);
    };
    const std::int64_t sharers = request_.state.is_distributed ? world : layout_.tp * layout_.pp;
    if (sharers > 1)
      one("optimizer.grad_norm", Operation::all_reduce,
          request_.state.is_distributed ? "intra-dist-opt" : "mp", world);
    if (!request_.state.is_distributed && has_expert_buffers() && layout_.etp * layout_.ep * layout_.pp > 1)
      one("optimizer.grad_norm", Operation::all_reduce, "tp-ep-pp", world);
    if (layout_.dp * layout_.cp > 1)
      one("training_log.loss", Operation::all_reduce, "dp-cp", ranks_of_stage_);
    if (!request_.training.calculate_per_token_loss) return;
    if (layout_.pp > 1) one("finalize_model_grads.tokens", Operation::broadcast, "pp", world);
    if (layout_.dp * layout_.cp > 1)
      one("finalize_model_grads.sum_tokens", Operation::all_reduce, "dp-cp", world);
  }

  const ScenarioRequest& request_;
  const sim::Layout& layout_;
  const ModelShape& shape_;
  std::int64_t microbatches_;
  std::int64_t tokens_;          // of a microbatch on a rank
  std::int64_t ranks_of_stage_;  // that hold parts of the same stages
  TokenCalls layer_;
  StepTotals totals_;
};

std::string text_of(const CallTotal& total) {
  return fmt::format("{} of {} elements", counted(total.calls, "call"), total.elements);
}

}  // namespace

StepTotals expected_step_totals(const ScenarioRequest& request) { return Step(request).totals(); }

StepTotals totals_of(const std::vector<sim::LedgerRow>& ledger) {
  StepTotals totals;
  for (const sim::LedgerRow& row : ledger) {
    const bool is_message = sim::is_point_to_point(row.operation);
    CallTotal& total = totals[{row.kind, is_message ? "" : row.site, row.operation}];
    total.calls += row.calls;
    total.elements += row.elements;
  }
  return totals;
}

std::string difference(const StepTotals& expected, const StepTotals& made) {
  StepTotals all = expected;
  all.insert(made.begin(), made.end());
  const auto total_in = [](const StepTotals& totals, const TotalKey& key) {
    const auto found = totals.find(key);
    return found == totals.end() ? CallTotal() : found->second;
  };
  for (const auto& [key, unused] : all) {
    const CallTotal stated = total_in(expected, key), own = total_in(made, key);
    if (stated == own) continue;
    return fmt::format("{} {} over {}: {}, where the closed form has {}", sim::name_of(key.operation),
                       key.site.empty() ? "of messages" : "at '" + key.site + "'", key.kind, text_of(own),
                       text_of(stated));
  }
  return "";
}

}  // namespace verify
