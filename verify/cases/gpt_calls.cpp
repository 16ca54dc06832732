#include "verify/cases/gpt_calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "verify/cases/cp_calls.h"
#include "verify/cases/expert_calls.h"
#include "verify/cases/latent_layer.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/gradient_buckets.h"
#include "verify/reference/pipeline_order.h"

namespace verify {

namespace {

using sim::Operation;
using Calls = std::vector<ExpectedCall>;

ExpectedCall over(const char* group, std::string site, Operation operation, std::int64_t elements) {
  return {.site = std::move(site), .operation = operation, .elements = elements, .group = group};
}
ExpectedCall sums_over(const char* group, std::string site, Operation operation, std::int64_t elements) {
  ExpectedCall call = over(group, std::move(site), operation, elements);
  call.of_sums = true;
  return call;
}

/// A parameter of this rank.
struct OwnParameter {
  std::int64_t elements = 0;
  bool is_expert = false;  // reduced in the buffers of experts
  int chunk = 0;
  bool is_tied = false;             // tied to a parameter of another stage
  bool has_grad_of_tokens = false;  // with sequence parallelism: its gradient sees only this rank's tokens
  bool has_grad_of_heads = false;   // its gradient sees only this rank's heads
};

struct OwnBucket {
  std::int64_t elements = 0;
  bool is_expert = false;
  int chunk = 0;
  std::size_t first = 0;  // of its parameters, the first of the model: its gradient is ready last
};

class RankCalls {
 public:
  RankCalls(const GptPlan& plan, int rank, const ChosenExperts* chosen)
      : plan_(plan),
        chosen_(chosen),
        model_(plan.model()),
        tp_(plan.tp()),
        pp_(plan.pp()),
        cp_(plan.cp()),
        dp_(plan.dp()),
        chunks_(plan.chunks()),
        place_(plan.places()[static_cast<std::size_t>(rank)]),
        pp_rank_(place_.pp),
        shape_(plan.pipeline()),
        schedule_(plan.schedule()(shape_, pp_rank_)),
        tokens_{.all = model_.tokens() * model_.hidden_size,
                .tp = tp_,
                .sequence_parallel = model_.sequence_parallel},
        tokens_of_rank_(plan.tokens_of_cp_ranks()),
        parameters_(own_parameters()),
        buckets_(own_buckets()) {}

  Calls of_all_steps() const {
    Calls all;
    if (const OwnParameter* tied = tied_parameter())
      all.push_back(over("embd", "tied_embeddings.tie", Operation::all_reduce, tied->elements));
    // Where no call depends on chosen experts, all steps are the same, but for those that are skipped.
    std::map<bool, Calls> by_skipped;
    for (std::int64_t i = 0; i < plan_.s["steps"]; ++i) {
      const bool skips = plan_.skips(i);
      if (chosen_ != nullptr || !by_skipped.contains(skips)) by_skipped[skips] = of_step(i);
      const Calls& step = by_skipped[skips];
      all.insert(all.end(), step.begin(), step.end());
    }
    return all;
  }

  /// Names the first step of the schedule that is not the one of the source; "" where all are.
  std::string departure() const {
    const std::vector<sim::Step> made = steps_of(schedule_);
    const std::vector<reference::PipelineStep> stated =
        reference::pipeline_order(plan_.pipeline_order(), pp_rank_);
    for (std::size_t i = 0; i < std::max(made.size(), stated.size()); ++i) {
      const auto step = [&](bool is_made) -> std::string {
        if (i >= (is_made ? made.size() : stated.size())) return "nothing";
        if (!is_made) return text_of(stated[i]);
        return text_of(
            reference::PipelineStep{made[i].pass == sim::Pass::backward, made[i].microbatch, made[i].chunk});
      };
      if (step(true) != step(false))
        return fmt::format("step {} of its schedule is {}, where the source has {}", i, step(true),
                           step(false));
    }
    return "";
  }

 private:
  // ---- coordinates and parameters of this rank

  bool is_first(int chunk) const { return pp_rank_ == 0 && chunk == 0; }
  bool is_last(int chunk) const { return pp_rank_ + 1 == pp_ && chunk + 1 == chunks_; }
  std::int64_t layers_of_a_chunk() const { return model_.num_layers / (std::int64_t{pp_} * chunks_); }

  /// The parameters of this rank, in the order in which its chunks use them.
  std::vector<OwnParameter> own_parameters() const {
    std::vector<OwnParameter> all;
    const bool ties_stages = plan_.is_tied() && pp_ > 1;
    for (const GptParameter& parameter : plan_.parameters()) {
      if (parameter.stage % pp_ != pp_rank_ || !is_own(parameter)) continue;
      const bool is_word_embedding = parameter.name == "embedding.word_embeddings.weight";
      const bool is_replicated = parameter.placement == Placement::replicated;
      const bool is_expert = parameter.expert >= 0;
      const int parts = is_expert ? plan_.experts().etp() : tp_;
      all.push_back({.elements = parameter.rows * parameter.columns / (is_replicated ? 1 : parts),
                     .is_expert = is_expert && plan_.experts().have_own_buffers(tp_),
                     .chunk = static_cast<int>(parameter.stage / pp_),
                     .is_tied = ties_stages && (is_word_embedding || !parameter.same_as.empty()),
                     .has_grad_of_tokens = parameter.has_grad_of_tokens,
                     .has_grad_of_heads = parameter.has_grad_of_heads});
    }
    return all;
  }
  /// Whether this rank has the parameter, if its stage has it.
  bool is_own(const GptParameter& parameter) const {
    return parameter.expert < 0 || parameter.expert / plan_.experts().local() == place_.ep;
  }

  /// This rank's tied parameter, or null. Two stages have one, each in a chunk of its own.
  const OwnParameter* tied_parameter() const {
    const auto tied =
        std::ranges::find_if(parameters_, [](const OwnParameter& parameter) { return parameter.is_tied; });
    return tied == parameters_.end() ? nullptr : &*tied;
  }

  // ---- buckets

  bool is_distributed() const { return plan_.s["distributed"] == 1; }
  bool overlaps() const { return plan_.s["overlap"] == 1; }

  /// The ranks that reduce a bucket of experts, or of dense parameters.
  int replicas(bool is_expert) const { return is_expert ? plan_.experts().edp() : dp_ * cp_; }
  static const char* group_of_replicas(bool is_expert) { return is_expert ? "edp" : "dp-cp"; }

  /// The buckets of each chunk: those of dense parameters, and then those of experts.
  std::vector<OwnBucket> own_buckets() const {
    std::vector<OwnBucket> buckets;
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (const bool is_expert : {false, true}) {
        const std::vector<OwnBucket> own = own_buckets(chunk, is_expert);
        buckets.insert(buckets.end(), own.begin(), own.end());
      }
    }
    return buckets;
  }
  std::vector<OwnBucket> own_buckets(int chunk, bool is_expert) const {
    std::vector<reference::GradientParameter> placed;
    std::vector<std::size_t> places;  // in parameters_
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].chunk != chunk || parameters_[i].is_expert != is_expert) continue;
      placed.push_back({.elements = parameters_[i].elements, .is_shared = parameters_[i].is_tied});
      places.push_back(i);
    }
    if (placed.empty()) return {};
    const std::int64_t size = chunk == 0 ? plan_.s["bucket"] : 0;
    const std::vector<reference::GradientBucket> all =
        reference::gradient_buckets(placed, {.owners = is_distributed() ? replicas(is_expert) : 1,
                                             .bucket_size = size == 0 ? std::nullopt : std::optional(size),
                                             .distributed_optimizer = is_distributed()});
    std::vector<OwnBucket> buckets;
    for (const reference::GradientBucket& bucket : all) {
      buckets.push_back({.elements = bucket.elements,
                         .is_expert = is_expert,
                         .chunk = chunk,
                         .first = places[static_cast<std::size_t>(bucket.parameters.back())]});
    }
    return buckets;
  }

  void reduce(const OwnBucket& bucket, Calls& calls) const {
    const int size = replicas(bucket.is_expert);
    if (size == 1) return;
    const char* group = group_of_replicas(bucket.is_expert);
    if (is_distributed()) {
      calls.push_back(sums_over(group, "data_parallel.reduce_scatter", Operation::reduce_scatter,
                                bucket.elements / size));
    } else {
      calls.push_back(sums_over(group, "data_parallel.all_reduce", Operation::all_reduce, bucket.elements));
    }
    if (plan_.averages_in_collective()) calls.back().reduce_op = sim::ReduceOp::average;
  }

  /// Reduces the buckets of a chunk in the order in which they become ready.
  void reduce_buckets_of(int chunk, Calls& calls) const {
    std::vector<OwnBucket> own;
    std::copy_if(buckets_.begin(), buckets_.end(), std::back_inserter(own),
                 [&](const OwnBucket& bucket) { return bucket.chunk == chunk; });
    std::ranges::sort(own, std::greater<>(), &OwnBucket::first);
    for (const OwnBucket& bucket : own) reduce(bucket, calls);
  }

  // ---- the schedule

  void get_batch(const char* site, Calls& calls) const {
    if (tp_ == 1) return;
    calls.push_back(over("tp", site, Operation::broadcast, model_.tokens()));
    calls.back().dtype = sim::DType::i32;
    calls.back().root_or_peer = 0;
  }

  bool has_learned_positions() const { return model_.rotary_base == 0; }
  /// Learned position embeddings are added to whole sequences, which are split afterwards.
  TokenCalls embedding() const {
    TokenCalls calls = tokens_;
    calls.sequence_parallel = tokens_.sequence_parallel && !has_learned_positions();
    return calls;
  }

  /// A microbatch of a step.
  struct Microbatch {
    std::int64_t step = 0;
    int number = 0;
  };

  void forward(const Microbatch& microbatch, int chunk, Calls& calls) const {
    if (is_first(chunk)) get_batch("get_batch.tokens", calls);
    if (is_last(chunk)) get_batch("get_batch.labels", calls);
    if (is_first(chunk)) embedding().embedding_forward(calls);
    for (std::int64_t i = 0; i < layers_of_a_chunk(); ++i)
      layer_forward(microbatch, first_layer(chunk) + i, !model_.recompute, calls);
    if (!is_last(chunk)) return;
    tokens_.column_forward(calls);
    loss_calls(model_.tokens(), false, tp_, calls);
    if (cp_ == 1 || plan_.per_token() || !plan_.has_whole_sequence_loss()) return;
    calls.push_back(over("cp", "loss_func.tokens", Operation::all_reduce, 1));
    calls.back().dtype = sim::DType::i32;
  }

  void backward(const Microbatch& microbatch, int chunk, Calls& calls) const {
    if (is_last(chunk)) tokens_.column_backward(calls);
    for (std::int64_t i = layers_of_a_chunk(); i-- > 0;) {
      const std::int64_t layer = first_layer(chunk) + i;
      if (model_.recompute) layer_forward(microbatch, layer, true, calls);
      layer_backward(microbatch, layer, calls);
    }
    if (!is_first(chunk)) return;
    if (tokens_.sequence_parallel && has_learned_positions()) {
      calls.push_back(
          over("tp", "language_model_embedding.backward", Operation::all_gather, tokens_.all / tp_));
    }
    embedding().embedding_backward(calls);
  }

  std::int64_t first_layer(int chunk) const {
    return (std::int64_t{chunk} * pp_ + pp_rank_) * layers_of_a_chunk();
  }

  // ---- layers

  bool has_experts(std::int64_t layer) const { return plan_.has_experts() && plan_.experts().are_in(layer); }

  CpCalls attention(std::int64_t layer) const {
    const std::int64_t heads = model_.tokens() * model_.num_attention_heads / tp_;
    const std::int64_t of_keys = model_.tokens() * model_.num_query_groups / tp_ * model_.kv_channels;
    CpCalls calls{.kind = model_.cp_comm_type_of(layer),
                  .cp = cp_,
                  .inner = plan_.inner_cp(),
                  .place = place_.cp,
                  .queries = heads * model_.kv_channels,
                  .keys = of_keys,
                  .values = of_keys,
                  .context = heads * model_.kv_channels};
    if (!model_.latent) return calls;
    calls.queries = calls.keys = heads * model_.latent->query_channels();
    calls.values = calls.context = heads * model_.latent->v_head_dim;
    return calls;
  }
  LatentCalls latent() const {
    return {.tokens = model_.tokens(),
            .hidden = model_.hidden_size,
            .sizes = *model_.latent,
            .tp = tp_,
            .sequence_parallel = tokens_.sequence_parallel};
  }
  void forward_to_heads(Calls& calls) const {
    if (model_.latent) return latent().forward_to_heads(calls);
    tokens_.column_forward(calls);
  }
  void backward_from_heads(Calls& calls) const {
    if (model_.latent) return latent().backward_from_heads(calls);
    tokens_.column_backward(calls);
  }

  /// With `counts`, the routers compute their losses.
  void layer_forward(const Microbatch& microbatch, std::int64_t layer, bool counts, Calls& calls) const {
    forward_to_heads(calls);
    attention(layer).forward(calls);
    tokens_.row_forward(calls);
    if (!has_experts(layer) || plan_.experts().are_shared()) {  // an MLP, or shared experts
      tokens_.column_forward(calls);
      tokens_.row_forward(calls);
    }
    if (!has_experts(layer)) return;
    if (counts) count_tokens(calls);
    experts_of(microbatch, layer).forward(calls);
  }
  void layer_backward(const Microbatch& microbatch, std::int64_t layer, Calls& calls) const {
    if (has_experts(layer)) experts_of(microbatch, layer).backward(calls);
    if (!has_experts(layer) || plan_.experts().are_shared()) {
      tokens_.row_backward(calls);
      tokens_.column_backward(calls);
    }
    tokens_.row_backward(calls);
    attention(layer).backward(calls);
    backward_from_heads(calls);
  }

  /// The sum of the counts of a router's balance loss.
  void count_tokens(Calls& calls) const {
    using enum GptExpertsPlan::Balance;
    const GptExpertsPlan experts = plan_.experts();
    if (!experts.counts_tokens()) return;
    const bool is_global = experts.balance() == global_aux_loss;
    if (tp_ * cp_ * (is_global ? dp_ : 1) == 1) return;
    const std::int64_t sequences = experts.balance() == seq_aux_loss ? model_.micro_batch_size : 1;
    calls.push_back(over(is_global ? "tp-dp-cp" : "tp-cp", "aux_loss.counts", Operation::all_reduce,
                         sequences * experts.number()));
    calls.back().dtype = sim::DType::i32;
  }

  ExpertCalls experts_of(const Microbatch& microbatch, std::int64_t layer) const {
    const GptExpertsPlan experts = plan_.experts();
    const std::int64_t tokens = model_.tokens() / tp_;
    ExpertCalls calls{.type = experts.dispatcher(),
                      .ep = experts.ep(),
                      .etp = experts.etp(),
                      .place = place_.ep * experts.etp() + place_.etp,
                      .tokens = tokens,
                      .hidden = model_.hidden_size,
                      .experts = experts.number(),
                      .is_padded = experts.pads_to_capacity()};
    if (!experts.are_rows_chosen()) {
      if (experts.pads_to_capacity())
        calls.rows_to_ep.assign(static_cast<std::size_t>(experts.ep()), experts.padded_rows(tokens));
      return calls;
    }
    calls.is_chosen = [=, this, owners = owners_of_tokens(),
                       first_of_step = microbatch.step * plan_.global_batch()](int place, std::int64_t token,
                                                                               std::int64_t expert) {
      const GptPlan::Place& owner = owners[static_cast<std::size_t>(place)];
      const std::int64_t own_row = owner.tp * tokens + token, size = model_.micro_batch_size;
      const std::int64_t row =
          tokens_of_rank_[static_cast<std::size_t>(owner.cp)][static_cast<std::size_t>(own_row / size)] *
              size +
          own_row % size;
      const std::int64_t first = first_of_step + (microbatch.number * dp_ + owner.dp) * size;
      return chosen_->has(first + row % size, layer, row / size, expert);
    };
    return calls;
  }
  /// The ranks of this rank's tp-ep group, by their places in it.
  std::vector<GptPlan::Place> owners_of_tokens() const {
    const GptExpertsPlan experts = plan_.experts();
    std::vector<GptPlan::Place> owners(static_cast<std::size_t>(experts.ep() * experts.etp()));
    for (const GptPlan::Place& place : plan_.places()) {
      if (place.pp == pp_rank_ && place.edp == place_.edp)
        owners[static_cast<std::size_t>(place.ep * experts.etp() + place.etp)] = place;
    }
    return owners;
  }

  // ---- messages

  void exchange(const std::vector<sim::Message>& batch, Calls& calls) const {
    const std::string site = site_of_messages(batch);
    const std::int64_t elements = tokens_.all / (tokens_.sequence_parallel ? tp_ : 1);
    for (const sim::Message& message : batch) {
      const Operation operation = message.is_send ? Operation::send : Operation::recv;
      calls.push_back(over("pp", site, operation, elements));
      calls.back().root_or_peer = message.peer;
    }
  }

  void run_schedule(std::int64_t step, Calls& calls) const {
    std::vector<int> left(static_cast<std::size_t>(chunks_), shape_.microbatches());
    for (const sim::Action& action : schedule_.actions) {
      if (!action.messages.empty()) exchange(action.messages, calls);
      if (!action.step) continue;
      const int chunk = action.step->chunk;
      const Microbatch microbatch{step, action.step->microbatch};
      if (action.step->pass == sim::Pass::forward) {
        forward(microbatch, chunk, calls);
        continue;
      }
      backward(microbatch, chunk, calls);
      const bool is_complete = --left[static_cast<std::size_t>(chunk)] == 0;
      if (is_complete && overlaps()) reduce_buckets_of(chunk, calls);
    }
  }

  // ---- after the schedule

  void finalize_grads(Calls& calls) const {
    for (const OwnBucket& bucket : buckets_) {
      if (!overlaps()) reduce(bucket, calls);
    }
    for (const OwnParameter& parameter : parameters_) {
      if ((tokens_.sequence_parallel && parameter.has_grad_of_tokens) || parameter.has_grad_of_heads)
        sequence_parallel_sum(parameter.elements, tp_, calls);
    }
    if (const OwnParameter* tied = tied_parameter())
      calls.push_back(sums_over("embd", "tied_embeddings.grads", Operation::all_reduce, tied->elements));
    move_expert_biases(calls);
    if (plan_.per_token()) count_tokens_with_loss(calls);
  }

  void count_tokens_with_loss(Calls& calls) const {
    if (pp_ > 1) {
      calls.push_back(over("pp", "finalize_model_grads.tokens", Operation::broadcast, 1));
      calls.back().dtype = sim::DType::i32;
      calls.back().root_or_peer = pp_ - 1;
    }
    if (dp_ * cp_ > 1) {
      calls.push_back(over("dp-cp", "finalize_model_grads.sum_tokens", Operation::all_reduce, 1));
      calls.back().dtype = sim::DType::i32;
    }
  }

  void move_expert_biases(Calls& calls) const {
    std::int64_t routers = 0;
    for (const GptPlan::BiasedRouter& router : plan_.biased_routers())
      routers += router.stage % pp_ == pp_rank_ ? 1 : 0;
    if (routers == 0 || tp_ * cp_ * dp_ == 1) return;
    calls.push_back(
        over("tp-dp-cp", "expert_bias.tokens", Operation::all_reduce, routers * plan_.experts().number()));
    calls.back().dtype = sim::DType::i32;
  }

  /// All ranks that hold different gradients share the search for values that are not finite, and the norm.
  /// With ZeRO-1 these are all ranks; otherwise those of experts in buffers of their own are others than
  /// those of dense parameters.
  void over_sharers(const char* site, sim::ReduceOp reduce_op, Calls& calls) const {
    const auto share = [&](const char* group, int size) {
      if (size == 1) return;
      calls.push_back(sums_over(group, site, Operation::all_reduce, 1));
      calls.back().reduce_op = reduce_op;
    };
    if (is_distributed()) return share("intra-dist-opt", tp_ * pp_ * cp_ * dp_);
    share("mp", tp_ * pp_);
    if (plan_.has_experts() && plan_.experts().have_own_buffers(tp_))
      share("tp-ep-pp", plan_.experts().etp() * plan_.experts().ep() * pp_);
  }

  void update(bool is_skipped, Calls& calls) const {
    if (plan_.is_scaled()) over_sharers("optimizer.found_nonfinite", sim::ReduceOp::max, calls);
    if (is_skipped) return;
    over_sharers("optimizer.grad_norm", sim::ReduceOp::sum, calls);
    if (!is_distributed()) return;
    auto in_order = buckets_;
    if (overlaps()) std::ranges::reverse(in_order);
    std::ranges::stable_sort(in_order, {}, [](const OwnBucket& bucket) {
      return std::pair(bucket.chunk, bucket.is_expert);  // of which each has a buffer
    });
    for (const OwnBucket& bucket : in_order) {
      const int size = replicas(bucket.is_expert);
      if (size == 1) continue;
      calls.push_back(over(group_of_replicas(bucket.is_expert), "optimizer.gather_params",
                           Operation::all_gather, bucket.elements / size));
    }
  }

  Calls of_step(std::int64_t step) const {
    Calls calls;
    run_schedule(step, calls);
    finalize_grads(calls);
    update(plan_.skips(step), calls);
    if (is_last(chunks_ - 1) && dp_ * cp_ > 1)
      calls.push_back(sums_over("dp-cp", "training_log.loss", Operation::all_reduce, 1));
    return calls;
  }

  const GptPlan& plan_;
  const ChosenExperts* chosen_;
  sim::GptConfig model_;
  int tp_, pp_, cp_, dp_, chunks_;
  GptPlan::Place place_;
  int pp_rank_;
  sim::PipelineShape shape_;
  sim::RankSchedule schedule_;
  TokenCalls tokens_;
  std::vector<std::vector<std::int64_t>> tokens_of_rank_;  // of a sequence, by context-parallel rank
  std::vector<OwnParameter> parameters_;
  std::vector<OwnBucket> buckets_;
};

}  // namespace

ExpectedRun expected_gpt_run(const GptPlan& plan, int rank, const ChosenExperts* chosen) {
  const RankCalls calls(plan, rank, chosen);
  return {.calls = calls.of_all_steps(), .departure = calls.departure()};
}

std::string site_of_messages(const std::vector<sim::Message>& batch) {
  std::string site = "pipeline.";
  for (const bool sends : {true, false}) {
    std::string passes;
    for (const sim::Message& message : batch) {
      if (message.is_send == sends)
        passes += message.input.pass == sim::Pass::forward ? "_forward" : "_backward";
    }
    if (passes.empty()) continue;
    if (!site.ends_with('.')) site += "_";
    site += (sends ? "send" : "recv") + passes;
  }
  return site;
}

}  // namespace verify
