#include <algorithm>
#include <string_view>

#include "sim/base/check.h"
#include "sim/tensor/checks.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/data_parallel_plan.h"
#include "verify/cases/spread.h"
#include "verify/cases/stretches.h"
#include "verify/reference/adam.h"
#include "verify/reference/gradient_buckets.h"

namespace verify {

namespace {

using sim::Operation;

/// The gradient of a sample is slope * parameter + offset, that of a quadratic loss, so that a stale
/// parameter changes the result.
class DistributedOptimizerCase : public CaseOf<DistributedOptimizerCase> {
 public:
  std::string name() const override { return "distributed_optimizer"; }
  Ranks ranks() const override { return Ranks::data_parallel; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const DataParallelPlan plan{s};
    return {.world_size = s.group_size,
            .expert_model_parallel_size = plan.ep(),
            .expert_tensor_parallel_size = 1,
            .num_distributed_optimizer_instances = plan.instances()};
  }
  std::vector<Dimension> dimensions() const override {
    return {{"parameters", 1, 3},
            {"size0", 0, 150},
            {"size1", 0, 70},
            {"size2", 0, 300},
            {"bucket", 0, 200},
            {"full", 0, 1},
            {.name = "experts", .least = 0, .most = 4, .at = at_scenario::experts, .is_an_axis = true},
            {.name = "instances", .least = 1, .most = 4, .at = at_scenario::instances, .is_an_axis = true},
            {"microbatches", 1, 3},
            {"steps", 1, 10},
            {"schedule", 0, 1},
            {"distributed", 0, 1},
            {"overlap", 0, 1},
            {"loss", 0, 2},
            {"decoupled", 0, 1},
            {"clip", 0, 1},
            {"scaled", 0, 1}};
  }

  /// The parts of a step come in its order, so that the first wrong one is where a mistake begins.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const DataParallelPlan plan{s};
    std::vector<CaseOutput> outputs;
    if (plan.distributed())
      outputs.push_back(
          {.name = "owned_bytes", .placement = Placement::partial, .is_of_the_way = true});  // by instances
    outputs.push_back({"updates"});
    if (plan.is_scaled()) outputs.push_back({"loss_scale"});
    const auto add = [&](std::string name, std::size_t parameter) {
      CaseOutput output{.name = std::move(name), .placement = Placement::columns};
      for (int rank = 0; rank < s.group_size; ++rank)
        output.part_of.push_back(rank % static_cast<int>(plan.parts(parameter)));
      outputs.push_back(std::move(output));
    };
    for (std::int64_t step = std::max<std::int64_t>(plan.first_step(), 1); step < plan.end_step(); ++step) {
      for (std::size_t i = 0; i < plan.parameters(); ++i) add(DataParallelPlan::name_before(i, step), i);
    }
    if (plan.shows_norm()) outputs.push_back({"grad norm squared"});
    for (const char* what : {".grad", ".exp_avg", ".exp_avg_sq", ".main", ""}) {
      const std::string_view state = what;
      if (state == ".grad" && !plan.shows_gradients()) continue;
      for (std::size_t i = 0; i < plan.parameters(); ++i) {
        if (plan.distributed() && !state.empty())
          outputs.push_back({DataParallelPlan::name(i) + what, Placement::partial});
        else
          add(DataParallelPlan::name(i) + what, i);
      }
    }
    return outputs;
  }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const DataParallelPlan plan{s};
    const std::int64_t last = s["steps"] - 1;
    std::vector<NamedNumber> numbers = {{"microbatches", s["microbatches"]}};
    if (s["experts"] > 0) numbers.push_back({"ep", plan.ep()});
    if (plan.instances() > 1) numbers.push_back({"instances", plan.instances()});
    if (!plan.per_token()) return numbers;
    numbers.push_back({"all tokens of the step", plan.tokens_of(last)});
    for (int rank = 0; rank < s.group_size; ++rank) {
      std::int64_t tokens = 0;
      for (std::int64_t i = 0; i < s["microbatches"]; ++i)
        tokens += plan.tokens(last, rank * s["microbatches"] + i);
      numbers.push_back({fmt::format("the tokens of rank {}", rank), tokens});
    }
    numbers.push_back({"samples * the tokens of sample 0", plan.samples() * plan.tokens(last, 0)});
    return numbers;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const DataParallelPlan plan{s};
    const std::vector<PlannedBucket> buckets = planned_buckets(plan);
    std::vector<ExpectedCall> all;
    for (std::int64_t step = plan.first_step(); step < plan.end_step(); ++step)
      add_step(plan, buckets, plan.skips(step), all);
    return all;
  }

  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    std::vector<CaseSetting> all;
    for (const std::int64_t distributed : {0, 1}) {
      for (const std::int64_t bucket : {0, 1, 65}) {
        CaseSetting twin = s;
        twin.dimensions["clip"] = 0;       // a twin would sum the norm in another order
        twin.dimensions["instances"] = 1;  // with several instances, the gradients as well
        twin.dimensions["distributed"] = distributed;
        twin.dimensions["overlap"] = bucket % 2;
        twin.dimensions["bucket"] = bucket;
        twin.dimensions["full"] = 0;
        all.push_back(std::move(twin));
      }
    }
    return all;
  }

  /// The training runs on s.group_size ranks, then on another number of ranks, and then on s.group_size
  /// again.
  std::vector<CaseSetting> stretches(const CaseSetting& s) const override {
    const sim::KeyedRandom random = sim::KeyedRandom(s.seed).named("stretches");
    CaseSetting whole = s;
    whole.dimensions["microbatches"] = 2 * s["microbatches"];  // so that another number of ranks is possible
    if (s["experts"] > 0) whole.dimensions["experts"] = DataParallelPlan{s}.ep();
    if (s.dtype == sim::DType::field) whole.dimensions["loss"] = 2;
    const std::vector<CaseSetting> others = other_numbers_of_ranks(whole);
    CaseSetting between = others[random.below(1, static_cast<std::uint32_t>(others.size()))];
    between.dimensions["bucket"] = random.below(2, 200);
    between.dimensions["instances"] = 1 + random.below(3, 4);
    return in_stretches(whole, std::move(between));
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const DataParallelPlan plan{s};
    Training training(rank, plan);
    if (plan.first_step() > 0) {
      // As after a step, a gather is under way when the load begins.
      if (plan.overlaps()) training.optimizer.start_param_gather();
      const std::int64_t step = sim::load_checkpoint(rank, training.optimizer, *s.stretch->store);
      SIM_CHECK(step == plan.first_step());
    }
    for (std::int64_t step = plan.first_step(); step < plan.end_step(); ++step) {
      training.data_parallel.zero_grads();
      for (std::int64_t microbatch = 0; microbatch < s["microbatches"]; ++microbatch) {
        if (microbatch == 0) training.wait_for_parameters();
        if (microbatch == 0 && step > 0) training.publish_before(step);
        training.backward(step, microbatch, microbatch + 1 == s["microbatches"]);
      }
      training.data_parallel.finish_grad_sync();
      if (plan.per_token()) training.data_parallel.divide_grads(plan.tokens_of(step));
      if (training.update() && plan.overlaps()) training.optimizer.start_param_gather();
    }
    // With overlap, the last gather is still under way when the save begins.
    if (s.stretch && s.stretch->saves)
      sim::save_checkpoint(rank, training.optimizer, *s.stretch->store, plan.end_step());
    training.optimizer.finish_param_gather();
    training.publish();
  }

  /// If a variance is near 0, the worst cases of all operations, added up over the steps, give no finite
  /// bound. Then the bounds are the spread of perturbed runs.
  Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                    const CaseSetting& s) const override {
    Wholes<reference::Bounded> wholes = reference(inputs, s);
    if (s.special != Special::none || is_bounded(wholes)) return wholes;
    const auto run = [&](reference::Perturbation by) {
      const reference::Number<reference::Perturbed> number(by);
      return reference(Inputs<reference::Perturbed>(s, number), s);
    };
    return spread(rounding_of(s.dtype, s.group_size), run, {}, 1);
  }
  using CaseOf<DistributedOptimizerCase>::serial;

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const auto& number = inputs.number();
    const DataParallelPlan plan{s};
    std::vector<Matrix> values;
    std::vector<reference::AdamState<Scalar>> states;
    for (std::size_t i = 0; i < plan.parameters(); ++i) {
      values.push_back(inputs.parameter(DataParallelPlan::name(i), 1, plan.size(i)));
      const Matrix zero = Matrix::Constant(1, plan.size(i), number.of(0, 1));
      states.push_back({values.back(), zero, zero});
    }
    Wholes<Scalar> wholes;
    std::vector<Matrix> grads;
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      for (std::size_t i = 0; i < values.size() && step > 0; ++i)
        wholes[DataParallelPlan::name_before(i, step)] = values[i];
      if (plan.skips(step)) continue;
      grads = gradients_of(inputs, plan, step, values);
      if (plan.shows_norm()) wholes["grad norm squared"] = Matrix::Constant(1, 1, squares_of(grads));
      update(number, plan, step, grads, values, states);
    }
    // Each instance owns two moments in the dtype of sums; for bf16 it owns the main parameter as well.
    const auto sum_bytes = static_cast<std::int64_t>(sim::size_of(sim::sum_dtype(s.dtype)));
    const std::int64_t copies = s.dtype == sim::DType::bf16 ? 3 : 2;
    std::int64_t elements = 0;
    for (const Matrix& value : values) elements += value.size();
    wholes["owned_bytes"] =
        Matrix::Constant(1, 1, number.of(elements * copies * sum_bytes * plan.instances(), 1));
    wholes["updates"] = Matrix::Constant(1, 1, number.of(plan.updates_before(s["steps"]), 1));
    if (plan.is_scaled()) wholes["loss_scale"] = Matrix::Constant(1, 1, number.of(plan.last_loss_scale(), 1));
    for (std::size_t i = 0; i < values.size(); ++i) {
      wholes[DataParallelPlan::name(i)] = values[i];
      if (plan.shows_gradients()) wholes[DataParallelPlan::name(i) + ".grad"] = grads[i];
      wholes[DataParallelPlan::name(i) + ".main"] = states[i].main;
      wholes[DataParallelPlan::name(i) + ".exp_avg"] = states[i].exp_avg;
      wholes[DataParallelPlan::name(i) + ".exp_avg_sq"] = states[i].exp_avg_sq;
    }
    return wholes;
  }

 private:
  // ---- calls

  /// A bucket of the dense gradients or of the expert gradients.
  struct PlannedBucket {
    bool of_experts;
    std::int64_t elements;
    std::int64_t ranks;        // number of ranks that reduce it together
    std::size_t last_to_come;  // parameter whose gradient is ready last: the first one in the model's order
  };

  static std::vector<PlannedBucket> planned_buckets(const DataParallelPlan& plan) {
    std::vector<PlannedBucket> buckets;
    for (const bool of_experts : {false, true}) {
      std::vector<std::size_t> own;
      std::vector<reference::GradientParameter> parameters;
      for (std::size_t i = 0; i < plan.parameters(); ++i) {
        if (plan.is_expert(i) != of_experts) continue;
        own.push_back(i);
        parameters.push_back({plan.own_size(i)});
      }
      const std::int64_t replicas = plan.s.group_size / (of_experts ? plan.ep() : 1);
      const std::int64_t ranks = replicas / plan.instances();
      for (const reference::GradientBucket& bucket :
           reference::gradient_buckets(parameters, {.owners = plan.distributed() ? ranks : 1,
                                                   .bucket_size = plan.bucket_size(),
                                                   .distributed_optimizer = plan.distributed()})) {
        const auto first = static_cast<std::size_t>(bucket.parameters.back());
        if (bucket.elements > 0) buckets.push_back({of_experts, bucket.elements, ranks, own[first]});
      }
    }
    return buckets;
  }

  using Calls = std::vector<ExpectedCall>;

  static std::string group_of(const DataParallelPlan& plan, const PlannedBucket& bucket) {
    return fmt::format("{}{}", plan.instances() > 1 ? "intra-" : "", bucket.of_experts ? "edp" : "dp-cp");
  }
  static void add_sum(const char* site, Operation operation, std::int64_t elements, std::string group,
                      sim::ReduceOp reduce_op, Calls& all) {
    all.push_back({.site = site,
                   .operation = operation,
                   .elements = elements,
                   .of_sums = true,
                   .group = std::move(group),
                   .reduce_op = reduce_op});
  }

  static void add_step(const DataParallelPlan& plan, const std::vector<PlannedBucket>& buckets,
                       bool is_skipped, Calls& all) {
    reduce(plan, buckets, all);
    const bool shares_norm = plan.s.group_size / plan.instances() > 1;
    const bool has_experts = plan.parameters() > 1 && plan.is_expert(1);
    // Without ZeRO-1, ranks that hold the same gradients find the same without a call.
    const bool shares_search = plan.distributed() ? shares_norm : has_experts && plan.ep() > 1;
    const char* sharers = plan.distributed() ? "intra-dist-opt" : "tp-ep-pp";
    if (plan.is_scaled() && shares_search)
      add_sum("optimizer.found_nonfinite", Operation::all_reduce, 1, sharers, sim::ReduceOp::max, all);
    if (is_skipped) return;
    if (plan.s["clip"] == 1 && shares_search)
      add_sum("optimizer.grad_norm", Operation::all_reduce, 1, sharers, sim::ReduceOp::sum, all);
    if (plan.distributed()) gather(plan, buckets, all);
  }

  static void reduce(const DataParallelPlan& plan, const std::vector<PlannedBucket>& buckets, Calls& all) {
    const auto of_gradients = plan.averages_in_collective() ? sim::ReduceOp::average : sim::ReduceOp::sum;
    std::vector<PlannedBucket> by_arrival = buckets;
    if (plan.overlaps()) {
      std::ranges::stable_sort(by_arrival,
                               [](const auto& a, const auto& b) { return a.last_to_come > b.last_to_come; });
    }
    for (const PlannedBucket& bucket : by_arrival) {
      if (bucket.ranks == 1) continue;
      if (plan.distributed()) {
        add_sum("data_parallel.reduce_scatter", Operation::reduce_scatter, bucket.elements / bucket.ranks,
                group_of(plan, bucket), of_gradients, all);
      } else {
        add_sum("data_parallel.all_reduce", Operation::all_reduce, bucket.elements, group_of(plan, bucket),
                of_gradients, all);
      }
    }
    for (const PlannedBucket& bucket : buckets) {
      if (plan.instances() == 1) break;
      add_sum("data_parallel.all_reduce_across", Operation::all_reduce, bucket.elements / bucket.ranks,
              "inter-edp", of_gradients, all);
    }
  }

  static void gather(const DataParallelPlan& plan, std::vector<PlannedBucket> buckets, Calls& all) {
    if (plan.overlaps()) std::ranges::reverse(buckets);
    for (const bool of_experts : {false, true}) {
      for (const PlannedBucket& bucket : buckets) {
        if (bucket.of_experts != of_experts || bucket.ranks == 1) continue;
        all.push_back({.site = "optimizer.gather_params",
                       .operation = Operation::all_gather,
                       .elements = bucket.elements / bucket.ranks,
                       .group = group_of(plan, bucket)});
      }
    }
  }

  // ---- stretches

  /// Returns settings on other numbers of ranks, with the same samples and the same number of parts of each
  /// expert.
  static std::vector<CaseSetting> other_numbers_of_ranks(const CaseSetting& s) {
    const DataParallelPlan plan{s};
    std::vector<CaseSetting> others;
    for (int ranks = 1; ranks <= plan.samples() && ranks <= 2 * s.group_size; ++ranks) {
      if (plan.samples() % ranks != 0 || ranks == s.group_size) continue;
      CaseSetting other = s;
      other.group_size = ranks;
      other.dimensions["microbatches"] = plan.samples() / ranks;
      if (DataParallelPlan{other}.ep() == plan.ep()) others.push_back(std::move(other));
    }
    return others;  // never empty: twice as many ranks are always possible
  }

  // ---- the reference

  template <typename Scalar>
  using Matrices = std::vector<reference::Matrix<Scalar>>;

  template <typename Scalar>
  static Matrices<Scalar> gradients_of(const Inputs<Scalar>& inputs, const DataParallelPlan& plan,
                                       std::int64_t step, const Matrices<Scalar>& values) {
    Matrices<Scalar> grads;
    for (std::size_t i = 0; i < values.size(); ++i)
      grads.push_back(gradient(inputs, plan, i, step, values[i]));
    return grads;
  }

  template <typename Scalar>
  static Scalar squares_of(const Matrices<Scalar>& grads) {
    reference::Sum<Scalar> squares;
    for (const auto& grad : grads) {
      for (Eigen::Index k = 0; k < grad.size(); ++k) squares.add_product(grad.data()[k], grad.data()[k]);
    }
    return squares.value_in_parts();
  }

  /// Takes a step with these gradients, which are clipped where the plan clips.
  template <typename Scalar>
  static void update(const reference::Number<Scalar>& number, const DataParallelPlan& plan, std::int64_t step,
                     Matrices<Scalar>& grads, Matrices<Scalar>& values,
                     std::vector<reference::AdamState<Scalar>>& states) {
    if (plan.s["clip"] == 1) {
      const Scalar factor = reference::clip_factor(number, grads, {kClip.numerator, kClip.denominator});
      for (auto& grad : grads) {
        for (Eigen::Index k = 0; k < grad.size(); ++k) grad.data()[k] = grad.data()[k] * factor;
      }
    }
    const std::int64_t updates = plan.updates_before(step);
    const reference::Fraction rate = reference::learning_rate(plan.rates(), updates);
    for (std::size_t i = 0; i < values.size(); ++i) {
      reference::adam(number,
                      {.learning_rate = rate,
                       .beta1 = {9, 10},
                       .beta2 = {999, 1000},
                       .epsilon = {kAdamEpsilon.numerator, kAdamEpsilon.denominator},
                       .weight_decay = {DataParallelPlan::decays(i) ? kWeightDecay.numerator : 0,
                                        kWeightDecay.denominator},
                       .decoupled = plan.s["decoupled"] == 1,
                       .step = updates + 1},
                      grads[i], states[i]);
      for (Eigen::Index k = 0; k < values[i].size(); ++k)
        values[i].data()[k] = number.stored(states[i].main.data()[k]);
      if (plan.s.dtype != sim::DType::bf16) states[i].main = values[i];
    }
  }

  /// Returns the gradient of the loss: the sum over samples divided by the number of ranks, or by the number
  /// of all tokens.
  template <typename Scalar>
  static reference::Matrix<Scalar> gradient(const Inputs<Scalar>& inputs, const DataParallelPlan& plan,
                                            std::size_t parameter, std::int64_t step,
                                            const reference::Matrix<Scalar>& value) {
    const auto& number = inputs.number();
    const Eigen::Index size = value.cols();
    std::vector<reference::Sum<Scalar>> sums(static_cast<std::size_t>(size));
    for (std::int64_t sample = 0; sample < plan.samples(); ++sample) {
      const auto slope =
          inputs.matrix(DataParallelPlan::drawn_name(parameter, "slope", step, sample), 1, size);
      const auto offset =
          inputs.matrix(DataParallelPlan::drawn_name(parameter, "offset", step, sample), 1, size);
      const Scalar tokens = number.of(plan.tokens(step, sample), 1);
      for (Eigen::Index k = 0; k < size; ++k) {
        const Scalar product = number.stored(slope(0, k) * value(0, k));
        sums[static_cast<std::size_t>(k)].add(number.stored(number.stored(product + offset(0, k)) * tokens));
      }
    }
    // Megatron divides by the number of ranks. Dividing by a rank's microbatches is left to the loss.
    const Scalar share = number.of(1, plan.per_token() ? plan.tokens_of(step) : plan.s.group_size);
    reference::Matrix<Scalar> grad(1, size);
    for (Eigen::Index k = 0; k < size; ++k) grad(0, k) = sums[static_cast<std::size_t>(k)].value() * share;
    return grad;
  }
};

}  // namespace

std::unique_ptr<Case> distributed_optimizer_case() { return std::make_unique<DistributedOptimizerCase>(); }

}  // namespace verify
