#include "verify/cases/data_parallel_case.h"

#include <fmt/format.h>
#include <optional>

#include "sim/optimizer/distributed_optimizer.h"
#include "sim/tensor/checks.h"
#include "verify/reference/adam.h"

namespace verify {

namespace {

using sim::Operation;
using sim::Ratio;
using sim::Tensor;

constexpr Ratio kLearningRate = {1, 8};
constexpr Ratio kEpsilon = {1, 1};  // large: 1 / sqrt of a small moment magnifies what rounding did to it
constexpr Ratio kWeightDecay = {1, 4};
constexpr Ratio kClip = {1, 2};
constexpr const char* kSizes[] = {"size0", "size1", "size2"};

/// What a setting comes to.
struct Plan {
  const CaseSetting& s;

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < s["parameters"]; ++i) all.push_back(s[kSizes[i]]);
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

/// The sample's gradient is slope * parameter + offset: a quadratic loss, so that a stale parameter shows.
class DistributedOptimizerCase : public CaseOf<DistributedOptimizerCase> {
 public:
  std::string name() const override { return "distributed_optimizer"; }
  bool is_data_parallel() const override { return true; }
  std::vector<Dimension> dimensions() const override {
    return {{"parameters", 1, 3}, {"size0", 0, 150},      {"size1", 0, 70},    {"size2", 0, 300},
            {"bucket", 0, 200},   {"microbatches", 1, 3}, {"steps", 1, 3},     {"distributed", 0, 1},
            {"overlap", 0, 1},    {"loss", 0, 2},         {"decoupled", 0, 1}, {"clip", 0, 1}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const Plan plan{s};
    const Placement owned = plan.distributed() ? Placement::partial : Placement::replicated;
    std::vector<CaseOutput> outputs;
    if (plan.distributed()) outputs.push_back({"owned_bytes", Placement::partial});
    for (std::size_t i = 0; i < plan.sizes().size(); ++i) {
      outputs.push_back({Plan::name(i)});
      for (const char* what : {".main", ".exp_avg", ".exp_avg_sq"})
        outputs.push_back({Plan::name(i) + what, owned});
    }
    return outputs;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const Plan plan{s};
    std::vector<sim::BufferParameter> parameters;
    for (const std::int64_t size : plan.sizes()) parameters.push_back({size});
    const sim::BufferLayout layout =
        sim::buffer_layout(parameters, {.owners = plan.distributed() ? s.tp : 1,
                                        .bucket_size = plan.data_parallel().bucket_size,
                                        .distributed_optimizer = plan.distributed()});
    std::vector<ExpectedCall> step;
    const auto add = [&](const char* site, Operation operation, std::int64_t elements, bool of_sums,
                         const char* group) {
      step.push_back(
          {.site = site, .operation = operation, .elements = elements, .of_sums = of_sums, .group = group});
    };
    for (const sim::Bucket& bucket : layout.buckets) {
      const std::int64_t all = bucket.range.size();
      if (all == 0) continue;
      if (plan.distributed()) {
        add("data_parallel.reduce_scatter", Operation::reduce_scatter, all / s.tp, true, "dp-cp");
      } else {
        add("data_parallel.all_reduce", Operation::all_reduce, all, true, "dp-cp");
      }
    }
    if (plan.distributed()) {
      if (s["clip"] == 1) add("optimizer.grad_norm", Operation::all_reduce, 1, true, "intra-dist-opt");
      for (auto bucket = layout.buckets.rbegin(); bucket != layout.buckets.rend(); ++bucket) {
        if (bucket->range.size() == 0) continue;
        add("optimizer.gather_params", Operation::all_gather, bucket->range.size() / s.tp, false, "dp-cp");
      }
    }
    std::vector<ExpectedCall> all;
    for (std::int64_t i = 0; i < s["steps"]; ++i) all.insert(all.end(), step.begin(), step.end());
    return all;
  }

  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    std::vector<CaseSetting> all;
    for (const std::int64_t distributed : {0, 1}) {
      for (const std::int64_t bucket : {0, 1, 65}) {
        CaseSetting twin = s;
        twin.dimensions["clip"] = 0;  // the norm is added up in another order
        twin.dimensions["distributed"] = distributed;
        twin.dimensions["overlap"] = bucket % 2;
        twin.dimensions["bucket"] = bucket;
        all.push_back(std::move(twin));
      }
    }
    return all;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const Plan plan{s};
    std::vector<sim::Parameter> parameters;
    for (std::size_t i = 0; i < plan.sizes().size(); ++i) {
      const std::int64_t size = plan.sizes()[i];
      const sim::Shape shape = Plan::decays(i) ? sim::Shape{1, size} : sim::Shape{size};
      parameters.push_back(sim::make_parameter(rank, Plan::name(i), s.dtype, shape, {}, {}));
    }
    std::vector<sim::Parameter*> pointers;
    for (sim::Parameter& parameter : parameters) pointers.push_back(&parameter);
    sim::DistributedDataParallel data_parallel(rank, pointers, plan.data_parallel());
    sim::DistributedOptimizer optimizer(rank, data_parallel,
                                        {.epsilon = kEpsilon,
                                         .weight_decay = kWeightDecay,
                                         .decoupled_weight_decay = s["decoupled"] == 1,
                                         .clip_grad = s["clip"] == 1 ? kClip : Ratio{0, 1},
                                         .overlap_param_gather = s["overlap"] == 1});
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      data_parallel.zero_grads();
      for (std::int64_t microbatch = 0; microbatch < s["microbatches"]; ++microbatch)
        backward(rank, plan, pointers, data_parallel, optimizer, step, microbatch);
      data_parallel.finish_grad_sync();
      if (plan.per_token()) data_parallel.divide_grads(plan.tokens_of(step));
      optimizer.step(kLearningRate);
      if (s["overlap"] == 1) optimizer.start_param_gather();
    }
    optimizer.finish_param_gather();
    if (plan.distributed()) {
      rank.publish("owned_bytes", sim::filled(rank.device, sim::sum_dtype(s.dtype), {1},
                                              static_cast<double>(optimizer.owned_bytes())));
    }
    publish(rank, pointers, optimizer);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const auto& number = inputs.number();
    const Plan plan{s};
    const std::vector<std::int64_t> sizes = plan.sizes();
    std::vector<Matrix> values;
    std::vector<reference::AdamState<Scalar>> states;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      values.push_back(inputs.parameter(Plan::name(i), 1, sizes[i]));
      const Matrix zero = Matrix::Constant(1, sizes[i], number.of(0, 1));
      states.push_back({values.back(), zero, zero});
    }
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      std::vector<Matrix> grads;
      for (std::size_t i = 0; i < sizes.size(); ++i)
        grads.push_back(gradient(inputs, plan, i, step, values[i]));
      if (s["clip"] == 1) {
        const Scalar factor = reference::clip_factor(number, grads, {kClip.numerator, kClip.denominator});
        for (Matrix& grad : grads) {
          for (Eigen::Index k = 0; k < grad.size(); ++k) grad.data()[k] = grad.data()[k] * factor;
        }
      }
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        reference::adam(
            number,
            {.learning_rate = {kLearningRate.numerator, kLearningRate.denominator},
             .beta1 = {9, 10},
             .beta2 = {999, 1000},
             .epsilon = {kEpsilon.numerator, kEpsilon.denominator},
             .weight_decay = {Plan::decays(i) ? kWeightDecay.numerator : 0, kWeightDecay.denominator},
             .decoupled = s["decoupled"] == 1,
             .step = step + 1},
            grads[i], states[i]);
        for (Eigen::Index k = 0; k < values[i].size(); ++k)
          values[i].data()[k] = number.stored(states[i].main.data()[k]);
        if (s.dtype != sim::DType::bf16) states[i].main = values[i];
      }
    }
    Wholes<Scalar> wholes;
    // Two moments of the dtype of sums, and of bf16 the main parameter.
    const auto sum_bytes = static_cast<std::int64_t>(sim::size_of(sim::sum_dtype(s.dtype)));
    const std::int64_t copies = s.dtype == sim::DType::bf16 ? 3 : 2;
    std::int64_t elements = 0;
    for (const std::int64_t size : sizes) elements += size;
    wholes["owned_bytes"] = Matrix::Constant(1, 1, number.of(elements * copies * sum_bytes, 1));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      wholes[Plan::name(i)] = values[i];
      wholes[Plan::name(i) + ".main"] = states[i].main;
      wholes[Plan::name(i) + ".exp_avg"] = states[i].exp_avg;
      wholes[Plan::name(i) + ".exp_avg_sq"] = states[i].exp_avg_sq;
    }
    return wholes;
  }

 private:
  /// Adds the gradients of this rank's sample, from the last parameter to the first.
  static void backward(sim::Rank& rank, const Plan& plan, const std::vector<sim::Parameter*>& parameters,
                       sim::DistributedDataParallel& data_parallel, sim::DistributedOptimizer& optimizer,
                       std::int64_t step, std::int64_t microbatch) {
    const CaseSetting& s = plan.s;
    const std::int64_t sample = rank.groups.get("dp-cp").rank() * s["microbatches"] + microbatch;
    for (std::size_t i = 0; i < parameters.size() && microbatch == 0; ++i) optimizer.wait_for(*parameters[i]);
    if (microbatch == 0) optimizer.finish_param_gather();
    for (std::size_t i = parameters.size(); i-- > 0;) {
      sim::Parameter& parameter = *parameters[i];
      const sim::Shape shape = {1, parameter.value.count()};
      const Tensor slope = drawn(rank, s, Plan::drawn_name(i, "slope", step, sample), shape);
      const Tensor offset = drawn(rank, s, Plan::drawn_name(i, "offset", step, sample), shape);
      const Tensor product = sim::combine(sim::ReduceOp::product, slope, parameter.value.reshaped(shape));
      const Tensor grad = sim::scale(sim::add(product, offset), {plan.tokens(step, sample), 1});
      Tensor sum = parameter.main_grad.reshaped(shape);
      sim::add_to(sum, sim::cast(grad, sum.dtype()));
      if (microbatch + 1 == s["microbatches"]) data_parallel.grad_ready(parameter);
    }
  }

  /// The whole of each parameter, and zeros but for what this rank owns of the rest.
  static void publish(sim::Rank& rank, const std::vector<sim::Parameter*>& parameters,
                      sim::DistributedOptimizer& optimizer) {
    for (const sim::Parameter* parameter : parameters) {
      rank.publish(parameter->name, parameter->value.flat());
      const auto owned = [&](const char* what, Tensor sim::DistributedOptimizer::Piece::*member) {
        const Tensor whole =
            sim::filled(rank.device, parameter->main_grad.dtype(), {parameter->value.count()}, 0);
        for (const auto& piece : optimizer.pieces()) {
          if (piece.parameter != parameter) continue;
          Tensor to = whole.rows(piece.range.begin, piece.range.end);
          sim::copy(piece.*member, to);
        }
        rank.publish(parameter->name + what, whole);
      };
      owned(".main", &sim::DistributedOptimizer::Piece::main);
      owned(".exp_avg", &sim::DistributedOptimizer::Piece::exp_avg);
      owned(".exp_avg_sq", &sim::DistributedOptimizer::Piece::exp_avg_sq);
    }
  }

  /// Of the mean over samples, or over all tokens.
  template <typename Scalar>
  static reference::Matrix<Scalar> gradient(const Inputs<Scalar>& inputs, const Plan& plan,
                                            std::size_t parameter, std::int64_t step,
                                            const reference::Matrix<Scalar>& value) {
    const auto& number = inputs.number();
    const Eigen::Index size = value.cols();
    std::vector<reference::Sum<Scalar>> sums(static_cast<std::size_t>(size));
    for (std::int64_t sample = 0; sample < plan.samples(); ++sample) {
      const auto slope = inputs.matrix(Plan::drawn_name(parameter, "slope", step, sample), 1, size);
      const auto offset = inputs.matrix(Plan::drawn_name(parameter, "offset", step, sample), 1, size);
      const Scalar tokens = number.of(plan.tokens(step, sample), 1);
      for (Eigen::Index k = 0; k < size; ++k) {
        const Scalar product = number.stored(slope(0, k) * value(0, k));
        sums[static_cast<std::size_t>(k)].add(number.stored(number.stored(product + offset(0, k)) * tokens));
      }
    }
    // Megatron divides by the ranks; the microbatches of a rank are the loss's to divide.
    const Scalar share = number.of(1, plan.per_token() ? plan.tokens_of(step) : plan.s.tp);
    reference::Matrix<Scalar> grad(1, size);
    for (Eigen::Index k = 0; k < size; ++k) grad(0, k) = sums[static_cast<std::size_t>(k)].value() * share;
    return grad;
  }
};

}  // namespace

std::unique_ptr<Case> distributed_optimizer_case() { return std::make_unique<DistributedOptimizerCase>(); }

}  // namespace verify
