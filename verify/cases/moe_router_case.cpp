#include "sim/tensor/checks.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/router_plan.h"
#include "verify/cases/spread.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/inner_dtype.h"
#include "verify/reference/z_loss.h"

namespace verify {

namespace {

class MoeRouterCase : public CaseOf<MoeRouterCase> {
 public:
  std::string name() const override { return "moe_router"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override { return RouterPlan{s}.sizes(); }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tp", .least = 1, .most = 4, .at = at_scenario::tp, .is_an_axis = true},
            {.name = "cp", .least = 1, .most = 2, .is_an_axis = true},
            {"experts", 1, 8},
            {"topk", 1, 4},
            {"tokens", 1, 3},
            {"hidden", 1, 4},
            {"score", 0, 3},
            {"scaled", 0, 1},
            {"groups", 0, 3},
            {"expert_bias", 0, 1},
            {"z_loss", 0, 1},
            {"dropping", 0, 2},
            {"padded", 0, 1},
            {"recompute", 0, 1},
            {"ties", 0, 1},
            {"padding", 0, 1},
            {"per_token", 0, 1},
            {"router_dtype", 0, 1}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const ChoicePlan plan{s};
    std::vector<CaseOutput> outputs = {{"map", Placement::rows}, {"probabilities", Placement::rows}};
    if (plan.has_z_loss()) outputs.push_back({"z_loss", Placement::columns});
    if (plan.has_bias()) outputs.push_back({"updated_bias"});
    outputs.push_back({"grad_input", Placement::rows});
    outputs.push_back(plan.router().weight_gradient());
    return outputs;
  }

  std::vector<CaseSetting> twins(const CaseSetting& s) const override { return RouterPlan{s}.twins(); }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const RouterPlan plan{s};
    return {{"tp", plan.tp()},           {"cp", plan.cp()},     {"dp", plan.dp()},
            {"experts", plan.experts()}, {"topk", plan.topk()}, {"tokens", s["tokens"]}};
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const RouterPlan plan{s};
    std::vector<ExpectedCall> calls;
    sequence_parallel_sum(plan.experts() * s["hidden"], plan.tp(), calls);
    if (ChoicePlan{s}.has_bias())
      calls.push_back({.site = "expert_bias.tokens",
                       .operation = sim::Operation::all_reduce,
                       .elements = plan.experts(),
                       .dtype = sim::DType::i32,
                       .group = "tp-dp-cp"});
    return calls;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override { run_router(rank, s); }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const ChoicePlan plan{s};
    // What the router computes is in its own dtype, and the gradient of its weight is added in that of sums.
    const reference::InnerDtype<Scalar> own(inputs.number(), rounding_of(plan.dtype(), s.group_size));
    const reference::InnerDtype<Scalar> sums(inputs.number(),
                                             rounding_of(sim::sum_dtype(s.dtype), s.group_size));
    const auto& number = own.number();
    const std::int64_t tokens = plan.all_tokens(), experts = plan.router().experts();
    auto x = inputs.matrix("input", tokens, s["hidden"]);
    for (Eigen::Index t = 0; t < tokens; ++t)
      for (Eigen::Index h = 0; plan.is_zero(t) && h < x.cols(); ++h) x(t, h) = number.of(0, 1);
    const auto bias =
        plan.has_bias() ? own.cast_in(inputs.matrix("expert_bias", 1, experts)) : reference::Matrix<Scalar>();
    const auto weight = own.cast_in(inputs.parameter("router.weight", experts, s["hidden"]));
    const reference::Router<Scalar> router(number, plan.reference(), weight, bias, own.cast_in(x));
    Choice<Scalar> choice = choice_of(number, plan, router);
    Wholes<Scalar> wholes;
    reference::Matrix<Scalar> of_z_loss;
    if (plan.has_z_loss()) {
      const auto [loss, gradient] = z_loss_of(number, plan, router.logits());
      wholes["z_loss"] = own.kept(loss);
      of_z_loss = gradient;
    }
    const auto grad = choice.kept(number, own.cast_in(inputs.matrix("grad_output", tokens, experts)));
    auto of_logits = router.logits_gradient(grad);
    if (plan.has_z_loss()) of_logits = reference::added(number, of_logits, of_z_loss);
    wholes["probabilities"] = own.kept(choice.kept(number, router.probabilities()));
    wholes["map"] = own.kept(choice.map);
    if (plan.has_bias()) wholes["updated_bias"] = own.kept(moved_bias(number, plan, choice.is_kept, bias));
    wholes["weight_grad"] = sums.kept(reference::product<Scalar>(
        sums.number(), reference::transposed(sums.cast_in(of_logits)), sums.cast_in(x)));
    wholes["grad_input"] = own.cast_out(reference::product(number, of_logits, weight));
    if (!choice.is_sure) leave_unjudged(inputs.number(), wholes);
    return wholes;
  }

 private:
  /// Which tokens go to which experts, after tokens were dropped.
  template <typename Scalar>
  struct Choice {
    reference::Matrix<Scalar> map;  // 1 for the pairs that are chosen, 0 for the others
    std::vector<bool> is_kept;
    bool is_sure = true;

    reference::Matrix<Scalar> kept(const reference::Number<Scalar>& number,
                                   reference::Matrix<Scalar> values) const {
      for (Eigen::Index i = 0; i < values.size(); ++i)
        if (!is_kept[static_cast<std::size_t>(i)]) values.data()[i] = number.of(0, 1);
      return values;
    }
  };
  template <typename Scalar>
  static Choice<Scalar> choice_of(const reference::Number<Scalar>& number, const ChoicePlan& plan,
                                  const reference::Router<Scalar>& router) {
    const Eigen::Index tokens = router.logits().rows(), experts = router.logits().cols();
    reference::KeptTokens<Scalar> tokens_kept;
    if (plan.has_capacity())
      tokens_kept = reference::kept_tokens(
          router.probabilities(), [&](Eigen::Index t, Eigen::Index e) { return router.is_chosen(t, e); },
          plan.capacity());
    Choice<Scalar> choice{
        reference::zeros<Scalar>(tokens, experts), {}, router.is_sure() && tokens_kept.is_sure};
    for (Eigen::Index t = 0; t < tokens; ++t) {
      for (Eigen::Index e = 0; e < experts; ++e) {
        const bool is_kept = plan.has_capacity()
                                 ? tokens_kept.kept[static_cast<std::size_t>(t)][static_cast<std::size_t>(e)]
                                 : router.is_chosen(t, e);
        choice.is_kept.push_back(is_kept);
        choice.map(t, e) = number.of(is_kept ? 1 : 0, 1);
      }
    }
    return choice;
  }

  /// The z-loss of each rank, which is divided by the ranks of tp-cp, and its gradient. A loss per token is
  /// not divided, but multiplied by the rank's tokens.
  template <typename Scalar>
  static std::pair<reference::Matrix<Scalar>, reference::Matrix<Scalar>> z_loss_of(
      const reference::Number<Scalar>& number, const ChoicePlan& plan,
      const reference::Matrix<Scalar>& logits) {
    const RouterPlan router = plan.router();
    const int sharers = plan.is_per_token() ? 1 : router.tp() * router.cp();
    const Scalar factor = number.of(kZLossCoefficient.numerator, kZLossCoefficient.denominator * sharers);
    const Scalar scale = number.of(kAuxLossScale.numerator, kAuxLossScale.denominator);
    const auto of_ranks = reference::z_loss(
        number, logits, plan.s.group_size, factor, [&](Eigen::Index t) { return plan.is_padding(t); },
        plan.is_per_token() ? reference::Over::sum : reference::Over::mean);
    return {of_ranks.losses,
            reference::matrix_of(number, logits.rows(), logits.cols(), [&](Eigen::Index t, Eigen::Index e) {
              return of_ranks.gradient(t, e) * scale;
            })};
  }

  /// Up for experts with fewer tokens than the mean over all experts, and down for those with more. The
  /// tokens are those of all ranks.
  template <typename Scalar>
  static reference::Matrix<Scalar> moved_bias(const reference::Number<Scalar>& number, const ChoicePlan& plan,
                                              const std::vector<bool>& is_kept,
                                              const reference::Matrix<Scalar>& bias) {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(bias.cols()), 0);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < is_kept.size(); ++i) {
      if (plan.is_padding(static_cast<std::int64_t>(i / tokens.size()))) continue;
      tokens[i % tokens.size()] += is_kept[i] ? 1 : 0;
      sum += is_kept[i] ? 1 : 0;
    }
    return reference::matrix_of(number, 1, bias.cols(), [&](Eigen::Index, Eigen::Index e) {
      const std::int64_t less = sum - bias.cols() * tokens[static_cast<std::size_t>(e)];
      const std::int64_t sign = less > 0 ? 1 : less < 0 ? -1 : 0;
      return bias(0, e) + number.of(sign * kBiasRate.numerator, kBiasRate.denominator);
    });
  }
};

}  // namespace

std::unique_ptr<Case> moe_router_case() { return std::make_unique<MoeRouterCase>(); }

}  // namespace verify
