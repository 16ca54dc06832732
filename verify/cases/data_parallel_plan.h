#pragma once

/// A trial of data-parallel training: DataParallelPlan derives its sizes, samples and tokens from a setting,
/// and Training is one rank's part of it, step by step.
///
/// Shapes  up to three parameters: a matrix, a vector, and a matrix. The vector may belong to an expert; then
///         each of ep ranks has one part of it, and the samples of all these ranks contribute to it. The
///         gradient of a sample is slope * parameter + offset, that of a quadratic loss, so that a stale
///         parameter changes the result.

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "sim/optimizer/checkpoint.h"
#include "sim/optimizer/learning_rate.h"
#include "sim/tensor/checks.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_setting.h"
#include "verify/cases/stretches.h"
#include "verify/reference/learning_rate.h"

namespace verify {

/// Epsilon is large because 1 / sqrt of a small moment magnifies the moment's rounding error.
inline constexpr sim::Ratio kAdamEpsilon = {1, 1};
inline constexpr sim::Ratio kWeightDecay = {1, 4};
inline constexpr sim::Ratio kClip = {1, 2};

/// The numbers that follow from a setting.
struct DataParallelPlan {
  const CaseSetting& s;

  std::int64_t ep() const { return largest_divisor(s.group_size, s["experts"]); }
  /// The number of distributed-optimizer instances. Each instance has all parts of every expert.
  std::int64_t instances() const {
    return distributed() ? largest_divisor(s.group_size / ep(), s["instances"]) : 1;
  }

  std::size_t parameters() const { return static_cast<std::size_t>(s["parameters"]); }
  static std::string name(std::size_t parameter) { return fmt::format("p{}", parameter); }
  /// Only matrices have weight decay.
  static bool decays(std::size_t parameter) { return parameter % 2 == 0; }
  bool is_expert(std::size_t parameter) const { return parameter == 1 && s["experts"] > 0; }
  /// The number of parts of a parameter, which consecutive ranks have.
  std::int64_t parts(std::size_t parameter) const { return is_expert(parameter) ? ep() : 1; }
  /// The number of elements of a parameter that one rank has, and the number of all its elements.
  std::int64_t own_size(std::size_t parameter) const { return s[fmt::format("size{}", parameter)]; }
  std::int64_t size(std::size_t parameter) const { return own_size(parameter) * parts(parameter); }
  /// The published name of a parameter's value before a step.
  static std::string name_before(std::size_t parameter, std::int64_t step) {
    return fmt::format("p{} before step {}", parameter, step);
  }

  bool distributed() const { return s["distributed"] == 1; }
  bool overlaps() const { return s["overlap"] == 1; }
  bool averages_in_collective() const { return s["loss"] == 1; }
  bool per_token() const { return s["loss"] == 2; }
  std::int64_t samples() const { return s.group_size * s["microbatches"]; }
  std::int64_t first_step() const { return verify::first_step(s); }
  std::int64_t end_step() const { return verify::end_step(s); }
  /// The number of tokens of one sample of a step: from 1 to 4 if the loss is per token, otherwise 1.
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

  /// Whether losses are multiplied by a loss scale. They are not if inputs are special, because gradients
  /// that are not finite would skip every step.
  bool is_scaled() const { return s["scaled"] == 1 && s.special == Special::none; }
  /// Whether the training is long enough for the loss scale to grow between two steps that are skipped.
  bool is_long() const { return s["steps"] >= 5; }
  /// Whether this step is skipped. One step of a scaled training in floats has a gradient that is not finite,
  /// and in a long one also each step but the first and the last two with a probability of 1/4.
  bool skips(std::int64_t step) const {
    const bool shows = own_size(0) > 0 && s["steps"] > 1;
    if (!is_scaled() || s.dtype == sim::DType::field || !shows) return false;
    const sim::KeyedRandom random = sim::KeyedRandom(s.seed).named("skipped");
    const bool is_inside = is_long() && step > 0 && step < s["steps"] - 2;
    return step == random.below(0, static_cast<std::uint32_t>(s["steps"])) ||
           (is_inside && random.below(static_cast<std::uint64_t>(step) + 1, 4) == 0);
  }
  /// Whether the gradients of the last step are published. They are not if that step was skipped, or if only
  /// a stretch of the training runs, because it may have no step.
  bool shows_gradients() const { return !s.stretch && !skips(s["steps"] - 1); }
  /// Whether the squared norm of the last gradients is published: where they are clipped by it.
  bool shows_norm() const { return shows_gradients() && s["clip"] == 1; }
  /// The number of optimizer updates before this step.
  std::int64_t updates_before(std::int64_t step) const {
    return updates_in(step, [this](std::int64_t i) { return skips(i); });
  }
  reference::LearningRateSetting rates() const {
    if (s["schedule"] == 0) return {.peak = 0.125};
    return {.initial = 1.0 / 16, .peak = 0.25, .least = 1.0 / 32, .warmup = 2, .decay_end = 7};
  }
  /// The learning rate of the ranks after this number of updates. A skipped step does not advance it.
  sim::Ratio rate_after(std::int64_t updates) const {
    const reference::LearningRateSetting rates = this->rates();
    return sim::learning_rate({.initial = rates.initial,
                               .peak = rates.peak,
                               .least = rates.least,
                               .warmup_steps = rates.warmup,
                               .decay_steps = rates.decay_end,
                               .decay = rates.decay_end > 0 ? sim::Decay::cosine : sim::Decay::constant},
                              updates);
  }
  reference::LossScaleSetting loss_scale() const {
    constexpr int kInitialPower = 4;
    return {.initial_power = kInitialPower,
            .least_power = drawn_least_power(s.seed, kInitialPower),
            .growth_interval = 2,
            .hysteresis = is_long() ? 2 : 1};
  }
  /// The loss scale after all steps, by the reference.
  std::int64_t last_loss_scale() const {
    return loss_scale_after(s["steps"], loss_scale(), [this](std::int64_t step) { return skips(step); });
  }

  /// The bucket size: one that the last parameter fills exactly (dimension `full`), any other, or none.
  std::optional<std::int64_t> bucket_size() const {
    if (s["full"] == 1) return std::max<std::int64_t>(own_size(parameters() - 1), 1);
    return s["bucket"] == 0 ? std::nullopt : std::optional(s["bucket"]);
  }
  sim::DataParallelConfig data_parallel() const {
    return {.bucket_size = bucket_size(),
            .distributed_optimizer = distributed(),
            .overlap_grad_reduce = overlaps(),
            .average_in_collective = averages_in_collective(),
            .per_token_loss = per_token()};
  }
  sim::OptimizerConfig optimizer() const {
    sim::OptimizerConfig config{.epsilon = kAdamEpsilon,
                                .weight_decay = kWeightDecay,
                                .decoupled_weight_decay = s["decoupled"] == 1,
                                .clip_grad = s["clip"] == 1 ? kClip : sim::Ratio{0, 1},
                                .overlap_param_gather = overlaps()};
    if (is_scaled()) config.loss_scale = loss_scale_config(loss_scale());
    return config;
  }
};

/// The parameters of a rank, with their gradient buffers and optimizer.
struct Training {
  Training(sim::Rank& of_rank, const DataParallelPlan& of_plan)
      : Training(of_rank, of_plan, make_parameters(of_rank, of_plan), of_plan.data_parallel(),
                 of_plan.optimizer()) {}
  Training(sim::Rank& of_rank, const DataParallelPlan& of_plan, std::vector<sim::Parameter> of_parameters,
           const sim::DataParallelConfig& config, const sim::OptimizerConfig& of_optimizer)
      : rank(of_rank),
        plan(of_plan),
        parameters(std::move(of_parameters)),
        data_parallel(of_rank, {pointers()}, config),
        optimizer(of_rank, data_parallel, of_optimizer) {}

  static std::vector<sim::Parameter> make_parameters(sim::Rank& rank, const DataParallelPlan& plan) {
    std::vector<sim::Parameter> parameters;
    const sim::Communicator& ep = rank.groups.get("ep");
    for (std::size_t i = 0; i < plan.parameters(); ++i) {
      const std::int64_t size = plan.size(i);
      const sim::Shape shape = DataParallelPlan::decays(i) ? sim::Shape{1, size} : sim::Shape{size};
      const sim::Partition part = plan.is_expert(i)
                                      ? sim::Partition{.dim = 0, .place = ep.rank(), .size = ep.size()}
                                      : sim::Partition{};
      parameters.push_back(
          sim::make_parameter(rank, DataParallelPlan::name(i), plan.s.dtype, shape, part, {}));
      parameters.back().attributes.allreduce = !plan.is_expert(i);
    }
    return parameters;
  }

  void wait_for_parameters() {
    for (const sim::Parameter& parameter : parameters) optimizer.wait_for(parameter);
    optimizer.finish_param_gather();
  }
  void publish_before(std::int64_t step) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      rank.publish(DataParallelPlan::name_before(i, step), parameters[i].value.flat());
  }

  /// Adds the gradients of this rank's sample, from the last parameter to the first.
  void backward(std::int64_t step, std::int64_t microbatch, bool is_last) {
    for (std::size_t i = parameters.size(); i-- > 0;) {
      // An expert sees the tokens of all ranks of its group, so their samples contribute to its gradient.
      const sim::ProcessGroup& seen = rank.groups.get(plan.is_expert(i) ? "ep" : "tp").group();
      for (const int member : seen.members) {
        const std::int64_t sample = member * plan.s["microbatches"] + microbatch;
        add_gradient(i, step, sample);
      }
      if (!is_last) continue;
      const bool overflows =
          plan.skips(step) && i == 0 && rank.id == static_cast<int>(step) % plan.s.group_size;
      if (overflows) sim::fill(parameters[0].main_grad, std::numeric_limits<double>::infinity());
      data_parallel.grad_ready(parameters[i]);
    }
  }

  /// Takes an optimizer step; returns false if it was skipped.
  bool update() { return optimizer.step(plan.rate_after(optimizer.steps())); }

  /// Publishes the value of each parameter, and its main parameter and moments, with zeros for the elements
  /// that this rank does not own.
  void publish() {
    const auto publish_number = [&](const char* name, std::int64_t value) {
      rank.publish(name,
                   sim::filled(rank.device, sim::sum_dtype(plan.s.dtype), {1}, static_cast<double>(value)));
    };
    if (plan.distributed()) publish_number("owned_bytes", optimizer.owned_bytes());
    publish_number("updates", optimizer.steps());
    if (plan.is_scaled()) publish_number("loss_scale", optimizer.loss_scale().numerator);
    if (plan.shows_norm()) rank.publish("grad norm squared", optimizer.grad_norm_squared());
    using Piece = sim::DistributedOptimizer::Piece;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      rank.publish(DataParallelPlan::name(i), parameters[i].value.flat());
      if (plan.shows_gradients()) publish_owned(i, ".grad", &Piece::grad);
      publish_owned(i, ".main", &Piece::main);
      publish_owned(i, ".exp_avg", &Piece::exp_avg);
      publish_owned(i, ".exp_avg_sq", &Piece::exp_avg_sq);
    }
  }

  sim::Rank& rank;
  const DataParallelPlan& plan;
  std::vector<sim::Parameter> parameters;
  sim::DistributedDataParallel data_parallel;
  sim::DistributedOptimizer optimizer;

 private:
  std::vector<sim::Parameter*> pointers() {
    std::vector<sim::Parameter*> all;
    for (sim::Parameter& parameter : parameters) all.push_back(&parameter);
    return all;
  }

  void add_gradient(std::size_t i, std::int64_t step, std::int64_t sample) {
    const sim::Shape own = {1, parameters[i].value.count()};
    const sim::Tensor slope = own_part(i, "slope", step, sample);
    const sim::Tensor offset = own_part(i, "offset", step, sample);
    const sim::Tensor product =
        sim::combine(sim::ReduceOp::product, slope, parameters[i].value.reshaped(own));
    sim::Tensor grad = sim::scale(sim::add(product, offset), {plan.tokens(step, sample), 1});
    if (plan.is_scaled()) sim::scale_in_place(grad, optimizer.loss_scale());
    sim::Tensor sum = parameters[i].main_grad.reshaped(own);
    sim::add_to(sum, sim::cast(grad, sum.dtype()));
  }
  /// Returns this rank's part of what is drawn for the whole parameter.
  sim::Tensor own_part(std::size_t i, const char* what, std::int64_t step, std::int64_t sample) {
    const std::int64_t own = plan.own_size(i);
    const std::int64_t part = plan.is_expert(i) ? rank.groups.get("ep").rank() : 0;
    return drawn_elements(rank, plan.s, DataParallelPlan::drawn_name(i, what, step, sample), plan.size(i),
                          part * own, own);
  }
  /// Publishes the elements that this rank owns, and zeros for the others. With several instances, only the
  /// ranks of the first one publish their elements, because all instances own the same.
  void publish_owned(std::size_t i, const char* what, sim::Tensor sim::DistributedOptimizer::Piece::*member) {
    const sim::Parameter& parameter = parameters[i];
    const sim::Tensor whole = sim::filled(rank.device, parameter.main_grad.dtype(),
                                          {plan.distributed() ? plan.size(i) : plan.own_size(i)}, 0);
    const std::int64_t per_instance = plan.s.group_size / plan.instances();
    const bool shows = !plan.distributed() || rank.id < per_instance;
    const std::int64_t begin =
        plan.distributed() && plan.is_expert(i) ? rank.groups.get("ep").rank() * plan.own_size(i) : 0;
    for (const auto& piece : optimizer.pieces()) {
      if (piece.parameter != &parameter || !shows) continue;
      sim::Tensor to = whole.rows(begin + piece.range.begin, begin + piece.range.end);
      sim::copy(piece.*member, to);
    }
    rank.publish(parameter.name + what, whole);
  }
};

}  // namespace verify
