#pragma once

/// What a trial of data-parallel training is made of: sizes, samples and tokens of a setting, and a rank's side of it, step by step.
///
/// Shapes  up to three parameters, every second one a vector. A sample's gradient is slope * parameter + offset, of a quadratic loss:
///         a stale parameter shows.

#include <fmt/format.h>
#include <optional>

#include "sim/optimizer/distributed_optimizer.h"
#include "sim/tensor/checks.h"
#include "verify/case.h"

namespace verify {

inline constexpr sim::Ratio kLearningRate = {1, 8};
/// Large: 1 / sqrt of a small moment magnifies what rounding did to it.
inline constexpr sim::Ratio kEpsilon = {1, 1};
inline constexpr sim::Ratio kWeightDecay = {1, 4};
inline constexpr sim::Ratio kClip = {1, 2};

/// What a setting comes to.
struct Plan {
  const CaseSetting& s;

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < s["parameters"]; ++i) all.push_back(s[fmt::format("size{}", i)]);
    return all;
  }
  static std::string name(std::size_t parameter) { return fmt::format("p{}", parameter); }
  /// Of matrices alone: every second parameter is a vector.
  static bool decays(std::size_t parameter) { return parameter % 2 == 0; }
  bool distributed() const { return s["distributed"] == 1; }
  bool per_token() const { return s["loss"] == 2; }
  std::int64_t samples() const { return s.tp * s["microbatches"]; }
  /// Of one sample of a step, from 1 to 4.
  std::int64_t tokens(std::int64_t step, std::int64_t sample) const {
    if (!per_token()) return 1;
    const auto index = static_cast<std::uint64_t>(step * samples() + sample);
    return 1 + sim::KeyedRandom(s.seed).named("tokens").below(index, 4);
  }
  std::int64_t tokens_of(std::int64_t step) const {
    std::int64_t all = 0;
    for (std::int64_t sample = 0; sample < samples(); ++sample) all += tokens(step, sample);
    return all;
  }
  static std::string drawn_name(std::size_t parameter, const char* what, std::int64_t step,
                                std::int64_t sample) {
    return fmt::format("p{}.{}.{}.{}", parameter, what, step, sample);
  }
  sim::DataParallelConfig data_parallel() const {
    return {.bucket_size = s["bucket"] == 0 ? std::nullopt : std::optional(s["bucket"]),
            .distributed_optimizer = distributed(),
            .overlap_grad_reduce = s["overlap"] == 1,
            .average_in_collective = s["loss"] == 1,
            .per_token_loss = per_token()};
  }
};

/// A rank's parameters, with their buffers and optimizer.
struct Training {
  Training(sim::Rank& of_rank, const Plan& of_plan)
      : rank(of_rank),
        plan(of_plan),
        parameters(make_parameters(of_rank, of_plan)),
        data_parallel(of_rank, pointers(), of_plan.data_parallel()),
        optimizer(of_rank, data_parallel,
                  {.epsilon = kEpsilon,
                   .weight_decay = kWeightDecay,
                   .decoupled_weight_decay = of_plan.s["decoupled"] == 1,
                   .clip_grad = of_plan.s["clip"] == 1 ? kClip : sim::Ratio{0, 1},
                   .overlap_param_gather = of_plan.s["overlap"] == 1}) {}

  void wait_for_parameters() {
    for (const sim::Parameter& parameter : parameters) optimizer.wait_for(parameter);
    optimizer.finish_param_gather();
  }

  /// Adds the gradients of this rank's sample, from the last parameter to the first.
  void backward(std::int64_t step, std::int64_t microbatch, bool is_last) {
    const CaseSetting& s = plan.s;
    const std::int64_t sample = rank.groups.get("dp-cp").rank() * s["microbatches"] + microbatch;
    for (std::size_t i = parameters.size(); i-- > 0;) {
      sim::Parameter& parameter = parameters[i];
      const sim::Shape shape = {1, parameter.value.count()};
      const sim::Tensor slope = drawn(rank, s, Plan::drawn_name(i, "slope", step, sample), shape);
      const sim::Tensor offset = drawn(rank, s, Plan::drawn_name(i, "offset", step, sample), shape);
      const sim::Tensor product =
          sim::combine(sim::ReduceOp::product, slope, parameter.value.reshaped(shape));
      const sim::Tensor grad = sim::scale(sim::add(product, offset), {plan.tokens(step, sample), 1});
      sim::Tensor sum = parameter.main_grad.reshaped(shape);
      sim::add_to(sum, sim::cast(grad, sum.dtype()));
      if (is_last) data_parallel.grad_ready(parameter);
    }
  }

  /// The whole of each parameter, and zeros but for what this rank owns of the rest.
  void publish() {
    if (plan.distributed()) {
      rank.publish("owned_bytes", sim::filled(rank.device, sim::sum_dtype(plan.s.dtype), {1},
                                              static_cast<double>(optimizer.owned_bytes())));
    }
    using Piece = sim::DistributedOptimizer::Piece;
    for (const sim::Parameter& parameter : parameters) {
      rank.publish(parameter.name, parameter.value.flat());
      publish_owned(parameter, ".main", &Piece::main);
      publish_owned(parameter, ".exp_avg", &Piece::exp_avg);
      publish_owned(parameter, ".exp_avg_sq", &Piece::exp_avg_sq);
    }
  }

  sim::Rank& rank;
  const Plan& plan;
  std::vector<sim::Parameter> parameters;
  sim::DistributedDataParallel data_parallel;
  sim::DistributedOptimizer optimizer;

 private:
  static std::vector<sim::Parameter> make_parameters(sim::Rank& rank, const Plan& plan) {
    std::vector<sim::Parameter> parameters;
    for (std::size_t i = 0; i < plan.sizes().size(); ++i) {
      const std::int64_t size = plan.sizes()[i];
      const sim::Shape shape = Plan::decays(i) ? sim::Shape{1, size} : sim::Shape{size};
      parameters.push_back(sim::make_parameter(rank, Plan::name(i), plan.s.dtype, shape, {}, {}));
    }
    return parameters;
  }
  std::vector<sim::Parameter*> pointers() {
    std::vector<sim::Parameter*> all;
    for (sim::Parameter& parameter : parameters) all.push_back(&parameter);
    return all;
  }
  void publish_owned(const sim::Parameter& parameter, const char* what,
                     sim::Tensor sim::DistributedOptimizer::Piece::*member) {
    const sim::Tensor whole =
        sim::filled(rank.device, parameter.main_grad.dtype(), {parameter.value.count()}, 0);
    for (const auto& piece : optimizer.pieces()) {
      if (piece.parameter != &parameter) continue;
      sim::Tensor to = whole.rows(piece.range.begin, piece.range.end);
      sim::copy(piece.*member, to);
    }
    rank.publish(parameter.name + what, whole);
  }
};

}  // namespace verify
