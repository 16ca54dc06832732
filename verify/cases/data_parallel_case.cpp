#include "verify/cases/data_parallel_case.h"

#include "sim/tensor/checks.h"
#include "verify/cases/data_parallel_plan.h"
#include "verify/reference/adam.h"

namespace verify {

namespace {

using sim::Operation;
using sim::Ratio;

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
    Training training(rank, plan);
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      training.data_parallel.zero_grads();
      for (std::int64_t microbatch = 0; microbatch < s["microbatches"]; ++microbatch) {
        if (microbatch == 0) training.wait_for_parameters();
        training.backward(step, microbatch, microbatch + 1 == s["microbatches"]);
      }
      training.data_parallel.finish_grad_sync();
      if (plan.per_token()) training.data_parallel.divide_grads(plan.tokens_of(step));
      training.optimizer.step(kLearningRate);
      if (s["overlap"] == 1) training.optimizer.start_param_gather();
    }
    training.optimizer.finish_param_gather();
    training.publish();
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
