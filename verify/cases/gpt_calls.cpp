#include "verify/cases/gpt_calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

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
  int chunk = 0;
  bool is_tied = false;             // tied to a parameter of another stage
  bool has_grad_of_tokens = false;  // with sequence parallelism: its gradient sees only this rank's tokens
};

struct OwnBucket {
  std::int64_t elements = 0;
  int completed_by = 0;      // the chunk whose backward steps end last
  std::size_t complete = 0;  // index in parameters_ of that chunk's last parameter
};

class RankCalls {
 public:
  RankCalls(const GptPlan& plan, int rank)
      : plan_(plan),
        model_(plan.model()),
        tp_(plan.tp()),
        pp_(plan.pp()),
        dp_(plan.dp()),
        chunks_(plan.chunks()),
        pp_rank_(plan.places()[static_cast<std::size_t>(rank)].pp),
        shape_(plan.pipeline()),
        schedule_(plan.schedule()(shape_, pp_rank_)),
        tokens_{.all = model_.tokens() * model_.hidden_size,
                .tp = tp_,
                .sequence_parallel = model_.sequence_parallel},
        parameters_(own_parameters()),
        buckets_(own_buckets()) {}

  Calls of_all_steps() const {
    Calls all;
    if (const OwnParameter* tied = tied_parameter())
      all.push_back(over("embd", "tied_embeddings.tie", Operation::all_reduce, tied->elements));
    const Calls taken = of_step(false), skipped = of_step(true);
    for (std::int64_t i = 0; i < plan_.s["steps"]; ++i) {
      const Calls& step = plan_.skips(i) ? skipped : taken;
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
      if (parameter.stage % pp_ != pp_rank_) continue;
      const bool is_word_embedding = parameter.name == "embedding.word_embeddings.weight";
      const bool is_replicated = parameter.placement == Placement::replicated;
      all.push_back({.elements = parameter.rows * parameter.columns / (is_replicated ? 1 : tp_),
                     .chunk = static_cast<int>(parameter.stage / pp_),
                     .is_tied = ties_stages && (is_word_embedding || !parameter.same_as.empty()),
                     .has_grad_of_tokens = is_replicated && parameter.is_vector});
    }
    return all;
  }

  /// This rank's tied parameter, or null. Two stages have one, each in a chunk of its own.
  const OwnParameter* tied_parameter() const {
    const auto tied = std::find_if(parameters_.begin(), parameters_.end(),
                                   [](const OwnParameter& parameter) { return parameter.is_tied; });
    return tied == parameters_.end() ? nullptr : &*tied;
  }

  // ---- buckets

  bool is_distributed() const { return plan_.s["distributed"] == 1; }
  bool overlaps() const { return plan_.s["overlap"] == 1; }

  /// For each chunk, the number of chunks whose backward steps end before its own do.
  std::vector<int> order_of_completion() const {
    std::vector<int> left(static_cast<std::size_t>(chunks_), shape_.microbatches());
    std::vector<int> place(left.size(), 0);
    int completed = 0;
    for (const sim::Action& action : schedule_.actions) {
      if (!action.step || action.step->pass == sim::Pass::forward) continue;
      const auto chunk = static_cast<std::size_t>(action.step->chunk);
      if (--left[chunk] == 0) place[chunk] = completed++;
    }
    return place;
  }

  std::vector<OwnBucket> own_buckets() const {
    std::vector<reference::GradientParameter> placed;
    for (const OwnParameter& parameter : parameters_)
      placed.push_back({.elements = parameter.elements, .is_shared = parameter.is_tied});
    const std::int64_t size = plan_.s["bucket"];
    const std::vector<reference::GradientBucket> all =
        reference::gradient_buckets(placed, {.owners = is_distributed() ? dp_ : 1,
                                             .bucket_size = size == 0 ? std::nullopt : std::optional(size),
                                             .distributed_optimizer = is_distributed()});
    const std::vector<int> completion = order_of_completion();
    std::vector<OwnBucket> buckets;
    for (const reference::GradientBucket& bucket : all) {
      OwnBucket own{.elements = bucket.elements};
      int latest = -1;
      for (const int index : bucket.parameters) {
        const auto place = static_cast<std::size_t>(index);
        const int chunk = parameters_[place].chunk;
        const int completed = completion[static_cast<std::size_t>(chunk)];
        if (completed < latest || (completed == latest && place < own.complete)) continue;
        latest = completed;
        own.completed_by = chunk;
        own.complete = place;
      }
      buckets.push_back(own);
    }
    return buckets;
  }

  void reduce(const OwnBucket& bucket, Calls& calls) const {
    if (dp_ == 1) return;
    if (is_distributed()) {
      calls.push_back(sums_over("dp-cp", "data_parallel.reduce_scatter", Operation::reduce_scatter,
                                bucket.elements / dp_));
    } else {
      calls.push_back(sums_over("dp-cp", "data_parallel.all_reduce", Operation::all_reduce, bucket.elements));
    }
  }

  /// Reduces the buckets that a chunk completes, in the order in which they become ready.
  void reduce_completed_by(int chunk, Calls& calls) const {
    std::vector<OwnBucket> completed;
    std::copy_if(buckets_.begin(), buckets_.end(), std::back_inserter(completed),
                 [&](const OwnBucket& bucket) { return bucket.completed_by == chunk; });
    std::sort(completed.begin(), completed.end(),
              [](const OwnBucket& a, const OwnBucket& b) { return a.complete < b.complete; });
    for (const OwnBucket& bucket : completed) reduce(bucket, calls);
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

  void forward(int chunk, Calls& calls) const {
    if (is_first(chunk)) get_batch("get_batch.tokens", calls);
    if (is_last(chunk)) get_batch("get_batch.labels", calls);
    if (is_first(chunk)) embedding().embedding_forward(calls);
    for (std::int64_t i = 0; i < layers_of_a_chunk(); ++i) tokens_.layer_forward(calls);
    if (!is_last(chunk)) return;
    tokens_.column_forward(calls);
    loss_calls(model_.tokens(), false, tp_, calls);
  }

  void backward(int chunk, Calls& calls) const {
    if (is_last(chunk)) tokens_.column_backward(calls);
    for (std::int64_t i = 0; i < layers_of_a_chunk(); ++i) {
      if (model_.recompute) tokens_.layer_forward(calls);
      tokens_.layer_backward(calls);
    }
    if (!is_first(chunk)) return;
    if (tokens_.sequence_parallel && has_learned_positions()) {
      calls.push_back(
          over("tp", "language_model_embedding.backward", Operation::all_gather, tokens_.all / tp_));
    }
    embedding().embedding_backward(calls);
  }

  /// Returns the name of the call site of a batch, such as "pipeline.send_forward_recv_backward".
  static std::string site_of(const std::vector<sim::Message>& batch) {
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

  void exchange(const std::vector<sim::Message>& batch, Calls& calls) const {
    const std::string site = site_of(batch);
    const std::int64_t elements = tokens_.all / (tokens_.sequence_parallel ? tp_ : 1);
    for (const sim::Message& message : batch) {
      const Operation operation = message.is_send ? Operation::send : Operation::recv;
      calls.push_back(over("pp", site, operation, elements));
      calls.back().root_or_peer = message.peer;
    }
  }

  void run_schedule(Calls& calls) const {
    std::vector<int> left(static_cast<std::size_t>(chunks_), shape_.microbatches());
    for (const sim::Action& action : schedule_.actions) {
      if (!action.messages.empty()) exchange(action.messages, calls);
      if (!action.step) continue;
      const int chunk = action.step->chunk;
      if (action.step->pass == sim::Pass::forward) {
        forward(chunk, calls);
        continue;
      }
      backward(chunk, calls);
      const bool is_complete = --left[static_cast<std::size_t>(chunk)] == 0;
      if (is_complete && overlaps()) reduce_completed_by(chunk, calls);
    }
  }

  // ---- after the schedule

  void finalize_grads(Calls& calls) const {
    for (const OwnBucket& bucket : buckets_) {
      if (!overlaps()) reduce(bucket, calls);
    }
    for (const OwnParameter& parameter : parameters_) {
      if (tokens_.sequence_parallel && parameter.has_grad_of_tokens)
        sequence_parallel_sum(parameter.elements, tp_, calls);
    }
    if (const OwnParameter* tied = tied_parameter())
      calls.push_back(sums_over("embd", "tied_embeddings.grads", Operation::all_reduce, tied->elements));
    if (!plan_.per_token()) return;
    if (pp_ > 1) {
      calls.push_back(over("pp", "finalize_model_grads.tokens", Operation::broadcast, 1));
      calls.back().dtype = sim::DType::i32;
      calls.back().root_or_peer = pp_ - 1;
    }
    if (dp_ > 1) {
      calls.push_back(over("dp-cp", "finalize_model_grads.sum_tokens", Operation::all_reduce, 1));
      calls.back().dtype = sim::DType::i32;
    }
  }

  /// All ranks that hold different gradients share the search for values that are not finite, and the norm;
  /// with ZeRO-1 these are all ranks.
  void update(bool is_skipped, Calls& calls) const {
    const int sharers = is_distributed() ? tp_ * pp_ * dp_ : tp_ * pp_;
    const char* group = is_distributed() ? "intra-dist-opt" : "mp";
    if (sharers > 1 && plan_.is_scaled())
      calls.push_back(sums_over(group, "optimizer.found_nonfinite", Operation::all_reduce, 1));
    if (is_skipped) return;
    if (sharers > 1) calls.push_back(sums_over(group, "optimizer.grad_norm", Operation::all_reduce, 1));
    if (!is_distributed() || dp_ == 1) return;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      calls.push_back(
          over("dp-cp", "optimizer.gather_params", Operation::all_gather, bucket->elements / dp_));
    }
  }

  Calls of_step(bool is_skipped) const {
    Calls calls;
    run_schedule(calls);
    finalize_grads(calls);
    update(is_skipped, calls);
    if (is_last(chunks_ - 1) && dp_ > 1)
      calls.push_back(sums_over("dp-cp", "training_log.loss", Operation::all_reduce, 1));
    return calls;
  }

  const GptPlan& plan_;
  sim::GptConfig model_;
  int tp_, pp_, dp_, chunks_, pp_rank_;
  sim::PipelineShape shape_;
  sim::RankSchedule schedule_;
  TokenCalls tokens_;
  std::vector<OwnParameter> parameters_;
  std::vector<OwnBucket> buckets_;
};

}  // namespace

ExpectedRun expected_gpt_run(const GptPlan& plan, int rank) {
  const RankCalls calls(plan, rank);
  return {.calls = calls.of_all_steps(), .departure = calls.departure()};
}

}  // namespace verify
