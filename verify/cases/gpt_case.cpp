#include "verify/cases/gpt_case.h"

#include <limits>

#include "sim/tensor/checks.h"
#include "verify/cases/gpt_calls.h"
#include "verify/cases/gpt_plan.h"
#include "verify/cases/rotary_table.h"
#include "verify/cases/spread.h"
#include "verify/reference/adam.h"
#include "verify/reference/gpt.h"

namespace verify {

namespace {

/// Returns a tensor of the shape of this rank's parameter, with the pieces that the rank owns in their places
/// and zeros elsewhere.
sim::Tensor owned(sim::Rank& rank, sim::DistributedOptimizer& optimizer, const sim::Parameter& parameter,
                  sim::Tensor sim::DistributedOptimizer::Piece::*member) {
  const sim::Tensor all = sim::filled(rank.device, parameter.main_grad.dtype(), {parameter.value.count()}, 0);
  for (const auto& piece : optimizer.pieces()) {
    if (piece.parameter != &parameter) continue;
    sim::Tensor to = all.rows(piece.range.begin, piece.range.end);
    sim::copy(piece.*member, to);
  }
  return all.reshaped(parameter.value.shape());
}

class GptTrainingCase : public CaseOf<GptTrainingCase> {
 public:
  std::string name() const override { return "gpt_training"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::FieldFunctions field_functions() const override { return sim::FieldFunctions::keyed; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const GptPlan plan{s};
    return {.world_size = s.group_size,
            .tensor_model_parallel_size = plan.tp(),
            .pipeline_model_parallel_size = plan.pp(),
            .virtual_pipeline_model_parallel_size = plan.pipeline().virtual_pipeline_model_parallel_size,
            .order = plan.order()};
  }
  std::vector<Dimension> dimensions() const override {
    return {{"tp", 1, 4, false, at_scenario::tp, true},
            {"pp", 1, 4, false, at_scenario::pp, true},
            {"schedule", 0, 3, false, at_scenario::schedule, false, "pp"},
            {"layers", 1, 2},
            {"microbatches", 1, 3},
            {"micro_batch", 1, 2},
            {"sequence", 1, 3},
            {"hidden", 1, 4},
            {"queries", 1, 2, false, at_scenario::queries},
            {"half_channels", 1, 1},
            {"ffn", 1, 2},
            {"vocabulary", 2, 4},
            {"padding", 0, 1},
            {"steps", 1, 3},
            {"loss", 0, 2},
            {"ignored", 0, 1},
            {"tied", 0, 1, false, at_scenario::tied},
            {"sequence_parallel", 0, 1, false, at_scenario::sequence_parallel, false, "tp"},
            {"rotary", 0, 1, false, at_scenario::rotary},
            {"rms_norm", 0, 1, false, at_scenario::rms_norm},
            {"gated", 0, 1, false, at_scenario::gated},
            {"bias", 0, 2, false, at_scenario::biases},
            {"recompute", 0, 1},
            {"distributed", 0, 1},
            {"overlap", 0, 1},
            {"bucket", 0, 40},
            {"clip", 0, 1},
            {"scaled", 0, 2}};
  }

  /// Losses come first, then gradients from the last layer to the first: this is the order in which a mistake
  /// becomes visible.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const GptPlan plan{s};
    const std::vector<GptPlan::Place> places = plan.places();
    const int last = plan.pp() - 1;
    std::vector<CaseOutput> outputs;
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      CaseOutput loss{.name = fmt::format("loss of step {}", step)};
      for (const GptPlan::Place& place : places) loss.part_of.push_back(place.pp == last ? 0 : -1);
      outputs.push_back(std::move(loss));
    }
    std::vector<GptParameter> parameters = plan.parameters();
    std::reverse(parameters.begin(), parameters.end());
    const bool adds = s["distributed"] == 1;
    for (const GptParameter& parameter : parameters) {
      if (plan.shows_gradients()) outputs.push_back(plan.output(parameter, ".grad", adds, places));
    }
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      if (!plan.skips(step)) outputs.push_back({.name = fmt::format("grad norm squared of step {}", step)});
    }
    if (plan.is_scaled()) outputs.push_back({.name = "loss_scale"});
    CaseOutput most{.name = "most_in_flight", .placement = Placement::columns};
    for (const GptPlan::Place& place : places) most.part_of.push_back(place.pp);
    most.is_of_the_way = true;
    outputs.push_back(std::move(most));
    for (const GptParameter& parameter : parameters) {
      for (const char* what : {".exp_avg", ".exp_avg_sq", ".main"})
        outputs.push_back(plan.output(parameter, what, adds, places));
      outputs.push_back(plan.output(parameter, "", false, places));
    }
    return outputs;
  }

  /// Twins use other schedules, with and without overlap and recomputation. In the field they also train the
  /// same model on other layouts and rank orders of the same world, with other microbatches and buckets, with
  /// and without ZeRO-1, and with masked tokens at the ends of samples.
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    const GptPlan plan{s};
    CaseSetting first = s;
    first.dimensions["whole"] = plan.whole();
    first.dimensions["num_layers"] = plan.num_layers();
    first.dimensions["global_batch"] = plan.global_batch();
    // With ignored tokens, a mean of means depends on how samples are divided into microbatches.
    if (s["ignored"] == 1) first.dimensions["loss"] = 2;
    const sim::KeyedRandom random = sim::KeyedRandom(s.seed).named("twins");
    std::vector<CaseSetting> all = {first};
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto draw = [&](std::uint64_t what, std::int64_t choices) {
        return std::int64_t{random.below(i * 16 + what, static_cast<std::uint32_t>(choices))};
      };
      CaseSetting twin = first;
      twin.dimensions["schedule"] = plan.is_interleaved() ? 3 : draw(0, 3);
      twin.dimensions["recompute"] = draw(1, 2);
      twin.dimensions["overlap"] = draw(2, 2);
      if (s.dtype == sim::DType::field) {
        twin.dimensions["distributed"] = draw(3, 2);
        twin.dimensions["bucket"] = draw(4, 40);
        twin.dimensions["tp"] = 1 + draw(5, 4);
        twin.dimensions["pp"] = 1 + draw(6, 4);
        twin.dimensions["micro_batch"] = 1 + draw(7, 4);
        twin.dimensions["schedule"] = draw(8, 4);
        twin.dimensions["order"] = draw(9, std::ssize(GptPlan::kOrders));
        // A model with learned positions has one for each token of a sequence, so padding would change it.
        if (s["rotary"] == 1) twin.dimensions["pad"] = draw(10, 2);
      }
      if (is_the_same_model(first, twin)) all.push_back(std::move(twin));
    }
    return all;
  }
  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const GptPlan plan{s};
    std::vector<NamedNumber> numbers = {{"tp", plan.tp()},
                                        {"pp", plan.pp()},
                                        {"dp", plan.dp()},
                                        {"microbatches", plan.microbatches()},
                                        {"micro_batch", s["micro_batch"]}};
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      std::int64_t tokens = 0;
      for (std::int64_t i = 0; i < plan.global_batch(); ++i)
        tokens += with_loss(plan.reference_sample(step * plan.global_batch() + i));
      numbers.push_back({fmt::format("tokens of step {}", step), tokens});
    }
    return numbers;
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    return expected_gpt_run(GptPlan{s}, rank);
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const GptPlan plan{s};
    sim::GptTraining training(rank, plan.training(), [&](std::int64_t number) {
      overflow_where_planned(plan, rank.id, training, number);
      return plan.sample(number);
    });
    train_and_publish(rank, plan, training,
                      [&](std::int64_t step) { return training.step(step, plan.learning_rate()); });
  }

  /// In f32 and bf16 the bounds of so many operations, each taken at its worst, are too wide to be useful, so
  /// that the bounds are the spread of perturbed runs. The same holds in f64 if a bound has become infinite,
  /// as with twelve layers, three steps and a variance near 0.
  Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                    const CaseSetting& s) const override {
    if (s.dtype != sim::DType::f64) return spread_of(s);
    Wholes<reference::Bounded> wholes = reference(inputs, s);
    return s.special != Special::none || is_bounded(wholes) ? wholes : spread_of(s);
  }
  using CaseOf<GptTrainingCase>::serial;

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const GptPlan plan{s};
    const auto& number = inputs.number();
    reference::NamedMatrices<Scalar> weights;
    std::map<std::string, reference::AdamState<Scalar>> states;
    for (const GptParameter& parameter : plan.parameters()) {
      if (!parameter.same_as.empty()) continue;
      weights[parameter.name] = initial(inputs, plan, parameter);
      const auto zero =
          reference::Matrix<Scalar>::Constant(parameter.rows, parameter.columns, number.of(0, 1));
      states[parameter.name] = {weights[parameter.name], zero, zero};
    }
    Wholes<Scalar> wholes;
    reference::NamedMatrices<Scalar> grads;
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      grads = gradients(inputs, plan, step, weights, wholes);
      if (plan.skips(step)) continue;
      clip(number, plan, step, grads, wholes);
      for (const GptParameter& parameter : plan.parameters()) {
        const std::string& name = parameter.name;
        if (parameter.same_as.empty())
          update(number, plan, step, !parameter.is_vector, grads.at(name), states.at(name), weights.at(name));
      }
    }
    for (const GptParameter& parameter : plan.parameters()) {
      const std::string& name = parameter.same_as.empty() ? parameter.name : parameter.same_as;
      wholes[parameter.name] = weights.at(name);
      if (plan.shows_gradients()) wholes[parameter.name + ".grad"] = grads.at(name);
      wholes[parameter.name + ".main"] = states.at(name).main;
      wholes[parameter.name + ".exp_avg"] = states.at(name).exp_avg;
      wholes[parameter.name + ".exp_avg_sq"] = states.at(name).exp_avg_sq;
    }
    const auto whole_number = [&](std::int64_t n) {
      return reference::Matrix<Scalar>::Constant(1, 1, number.of(n, 1));
    };
    if (plan.is_scaled()) wholes["loss_scale"] = whole_number(plan.last_loss_scale());
    reference::Matrix<Scalar> most(1, plan.pp());
    for (int rank = 0; rank < plan.pp(); ++rank)
      most(0, rank) = number.of(reference::most_activations(plan.pipeline_order(), rank), 1);
    wholes["most_in_flight"] = most;
    return wholes;
  }

 private:
  /// Returns whether the twin's layout divides the sizes that are fixed for all twins.
  static bool is_the_same_model(const CaseSetting& first, const CaseSetting& twin) {
    const GptPlan plan{twin};
    const std::int64_t batch = first["global_batch"], of_ranks = twin["micro_batch"] * plan.dp();
    if (first["whole"] % plan.tp() != 0 || first["num_layers"] % plan.stages() != 0) return false;
    if (batch % of_ranks != 0) return false;
    return !plan.is_interleaved() || (batch / of_ranks) % plan.pp() == 0;
  }

  template <typename Scalar>
  static reference::Matrix<Scalar> initial(const Inputs<Scalar>& inputs, const GptPlan& plan,
                                           const GptParameter& parameter) {
    const sim::GptConfig model = plan.model();
    auto values = inputs.parameter(parameter.name, parameter.rows, parameter.columns, model.initial.scale);
    if (!parameter.is_norm) return values;
    const auto& number = inputs.number();
    return reference::matrix_of(number, values.rows(), values.cols(), [&](Eigen::Index i, Eigen::Index j) {
      return values(i, j) + number.of(1, 1);
    });
  }

  Wholes<reference::Bounded> spread_of(const CaseSetting& s) const {
    const reference::Rounding rounding = rounding_of(s.dtype, 1);
    const auto run = [&](reference::Perturbation by) {
      const reference::Number<reference::Perturbed> number(by);
      return reference(Inputs<reference::Perturbed>(s, number), s);
    };
    return s.text ? spread(rounding, run, reference::kFewRuns, 2) : spread(rounding, run, {}, 1);
  }

  static reference::GptSizes sizes_of(const sim::GptConfig& model) {
    return {.layers = model.num_layers,
            .attention = {.sequence = model.seq_length,
                          .batch = 1,
                          .heads = model.num_attention_heads,
                          .groups = model.num_query_groups,
                          .channels = model.kv_channels,
                          .causal = true},
            .vocabulary = model.vocab_size,
            .norm = {.is_layer_norm = model.normalization == sim::Norm::layer_norm,
                     .epsilon_numerator = model.norm_epsilon.numerator,
                     .epsilon_denominator = model.norm_epsilon.denominator},
            .activation = static_cast<reference::Activation>(model.activation),
            .gated = model.gated,
            .learned_positions = model.rotary_base == 0,
            .tied = !model.untie_embeddings_and_output_weights};
  }

  /// Returns the gradients of the mean over microbatches of the mean over a microbatch's tokens, or of the
  /// mean over all tokens.
  template <typename Scalar>
  static reference::NamedMatrices<Scalar> gradients(const Inputs<Scalar>& inputs, const GptPlan& plan,
                                                    std::int64_t step,
                                                    const reference::NamedMatrices<Scalar>& weights,
                                                    Wholes<Scalar>& wholes) {
    const auto& number = inputs.number();
    const sim::GptConfig model = plan.model();
    const auto table = [&](bool is_sine) {
      return model.rotary_base == 0
                 ? reference::Matrix<Scalar>()
                 : rotary_table(number, model.seq_length, model.kv_channels, model.rotary_base, is_sine);
    };
    const reference::Gpt<Scalar> gpt(number, sizes_of(model), weights, table(false), table(true));
    reference::NamedSums<Scalar> sums;
    reference::Sum<Scalar> loss;
    std::int64_t all_tokens = 0;
    const std::int64_t groups = plan.global_batch() / model.micro_batch_size;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t first = step * plan.global_batch() + group * model.micro_batch_size;
      std::int64_t tokens = 0;
      for (std::int64_t b = 0; b < model.micro_batch_size; ++b)
        tokens += with_loss(plan.reference_sample(first + b));
      all_tokens += tokens;
      const Scalar share = plan.per_token()
                               ? number.of(1, 1)
                               : number.of(1, std::max<std::int64_t>(tokens, 1) * plan.microbatches());
      for (std::int64_t b = 0; b < model.micro_batch_size; ++b) {
        const sim::Sample sample = plan.reference_sample(first + b);
        const auto own = [&](const char* what, const std::vector<std::int32_t>& ids) {
          return inputs.ids(fmt::format("the {} of sample {}", what, first + b), ids_of(ids));
        };
        const auto losses =
            gpt.losses_and_gradients(own("tokens", sample.tokens), own("labels", sample.labels), share, sums);
        for (Eigen::Index t = 0; t < losses.size(); ++t) loss.add(losses.data()[t] * share);
      }
    }
    const Scalar rest = number.of(1, plan.per_token() ? std::max<std::int64_t>(all_tokens, 1) : plan.dp());
    wholes[fmt::format("loss of step {}", step)] =
        reference::Matrix<Scalar>::Constant(1, 1, loss.value() * rest);
    return sums.times(rest);
  }

  template <typename Scalar>
  static void clip(const reference::Number<Scalar>& number, const GptPlan& plan, std::int64_t step,
                   reference::NamedMatrices<Scalar>& grads, Wholes<Scalar>& wholes) {
    reference::Sum<Scalar> squares;
    std::vector<reference::Matrix<Scalar>> all;
    for (const auto& [name, grad] : grads) {
      for (Eigen::Index i = 0; i < grad.size(); ++i) squares.add_product(grad.data()[i], grad.data()[i]);
      all.push_back(grad);
    }
    wholes[fmt::format("grad norm squared of step {}", step)] =
        reference::Matrix<Scalar>::Constant(1, 1, squares.value());
    if (plan.s["clip"] == 0) return;
    const Scalar factor = reference::clip_factor(number, all, {1, 2});
    for (auto& [name, grad] : grads) {
      for (Eigen::Index i = 0; i < grad.size(); ++i) grad.data()[i] = grad.data()[i] * factor;
    }
  }

  template <typename Scalar>
  static void update(const reference::Number<Scalar>& number, const GptPlan& plan, std::int64_t step,
                     bool decays, const reference::Matrix<Scalar>& grad, reference::AdamState<Scalar>& state,
                     reference::Matrix<Scalar>& weight) {
    reference::adam(number,
                    {.learning_rate = {plan.learning_rate().numerator, plan.learning_rate().denominator},
                     .beta1 = {9, 10},
                     .beta2 = {999, 1000},
                     .epsilon = {plan.adam_epsilon().numerator, plan.adam_epsilon().denominator},
                     .weight_decay = {decays ? 1 : 0, 4},
                     .step = plan.updates_before(step) + 1},
                    grad, state);
    for (Eigen::Index i = 0; i < weight.size(); ++i) weight.data()[i] = number.stored(state.main.data()[i]);
    if (!plan.is_bf16()) state.main = weight;
  }

  static std::int64_t with_loss(const sim::Sample& sample) {
    return std::count_if(sample.labels.begin(), sample.labels.end(),
                         [](auto id) { return id != sim::kIgnoredLabel; });
  }
  static reference::Ids ids_of(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }
};

}  // namespace

void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step) {
  using Piece = sim::DistributedOptimizer::Piece;
  sim::DistributedOptimizer& optimizer = training.optimizer();
  const auto publish_number = [&](const char* name, std::int64_t number) {
    rank.publish(name,
                 sim::filled(rank.device, sim::sum_dtype(plan.s.dtype), {1}, static_cast<double>(number)));
  };
  for (std::int64_t i = 0; i < plan.s["steps"]; ++i) {
    const auto result = step(i);
    if (!result.loss.is_none()) rank.publish(fmt::format("loss of step {}", i), result.loss);
    if (!plan.skips(i) && !optimizer.grad_norm_squared().is_none())
      rank.publish(fmt::format("grad norm squared of step {}", i), optimizer.grad_norm_squared());
  }
  optimizer.finish_param_gather();
  for (const sim::Parameter* parameter : training.parameters()) {
    const auto publish = [&](const char* what, sim::Tensor Piece::*member) {
      rank.publish(parameter->name + what, owned(rank, optimizer, *parameter, member));
    };
    if (plan.shows_gradients()) publish(".grad", &Piece::grad);
    publish(".exp_avg", &Piece::exp_avg);
    publish(".exp_avg_sq", &Piece::exp_avg_sq);
    publish(".main", &Piece::main);
    rank.publish(parameter->name, parameter->value);
  }
  if (plan.is_scaled()) publish_number("loss_scale", optimizer.loss_scale().numerator);
  publish_number("most_in_flight", training.most_in_flight());
}

void overflow_where_planned(const GptPlan& plan, int rank, sim::GptTraining& training, std::int64_t sample) {
  if (!plan.overflows(sample / plan.global_batch(), rank)) return;
  sim::fill(training.parameters().front()->main_grad, std::numeric_limits<double>::infinity());
}

std::unique_ptr<Case> gpt_training_case() { return std::make_unique<GptTrainingCase>(); }

}  // namespace verify
