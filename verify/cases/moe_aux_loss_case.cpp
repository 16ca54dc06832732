#include <fmt/format.h>

#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/router_plan.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/balance_loss.h"

namespace verify {

namespace {

using sim::AuxLossKind;

std::string name_of_loss(AuxLossKind kind, std::int64_t microbatch) {
  return fmt::format("{} {}", kAuxLossNames[static_cast<std::size_t>(kind)], microbatch);
}

/// A step of one device. Each loss is a sum over tokens and experts of score times slope, where the slope
/// depends on what is counted.
template <typename Scalar>
class LossesOfStep {
 public:
  using Matrix = reference::Matrix<Scalar>;

  LossesOfStep(const Inputs<Scalar>& inputs, const CaseSetting& s)
      : inputs_(inputs),
        number_(inputs.number()),
        plan_{s},
        weight_(inputs.parameter("router.weight", plan_.router().experts(), s["hidden"])),
        weight_grad_(reference::zeros<Scalar>(weight_.rows(), weight_.cols())),
        counts_so_far_(static_cast<std::size_t>(plan_.router().experts()), 0) {}

  Wholes<Scalar> wholes() {
    for (std::int64_t m = 0; m < plan_.microbatches(); ++m) take_microbatch(m);
    wholes_["weight_grad"] = scaled(weight_grad_);
    if (!is_sure_) leave_unjudged(number_, wholes_);
    return wholes_;
  }

 private:
  using Scores = reference::BalanceScores<Scalar>;

  Matrix scaled(const Matrix& gradient) const {
    const sim::Ratio scale = plan_.scale_of_gradients();
    const Scalar factor = number_.of(scale.numerator, scale.denominator);
    return reference::matrix_of(number_, gradient.rows(), gradient.cols(),
                                [&](Eigen::Index i, Eigen::Index j) { return gradient(i, j) * factor; });
  }

  void take_microbatch(std::int64_t m) {
    const CaseSetting& s = plan_.s;
    const auto score = static_cast<reference::RouterScore>(plan_.router().moe().score());
    const Matrix x = inputs_.matrix(fmt::format("input {}", m), plan_.all_tokens(), s["hidden"]);
    const reference::Router<Scalar> router(number_, {.topk = plan_.router().topk(), .score = score}, weight_,
                                           {}, x);
    const Scores scores(number_, score, router.logits(), plan_.router().topk());
    is_sure_ = is_sure_ && scores.is_sure();
    const Matrix no_grad = reference::zeros<Scalar>(x.rows(), weight_.rows());
    Matrix of_scores = no_grad;
    for (const AuxLossKind kind : kAuxLossKinds)
      if (plan_.has(kind)) take_loss(kind, m, scores, of_scores);
    const Matrix of_losses = plan_.has_losses() ? scores.gradient(of_scores) : Matrix();
    const auto gradients = router.gradients(no_grad, of_losses);
    wholes_[fmt::format("grad_input {}", m)] = scaled(gradients.x);
    weight_grad_ = reference::added(number_, weight_grad_, gradients.weight);
  }

  /// The ranks over which a loss counts: those of tp-cp, or all.
  std::int64_t ranks_of(AuxLossKind kind) const {
    return kind == AuxLossKind::global_aux_loss ? plan_.s.group_size
                                                : plan_.router().tp() * plan_.router().cp();
  }
  bool is_valid(std::int64_t m, std::int64_t token) const { return !plan_.is_padding(m, token); }
  std::int64_t valid_tokens(std::int64_t m, std::int64_t first, std::int64_t count) const {
    std::int64_t valid = 0;
    for (std::int64_t t = first; t < first + count; ++t) valid += is_valid(m, t) ? 1 : 0;
    return valid;
  }

  /// Returns the tokens of each expert among those of a group that are no padding and, for a loss of
  /// sequences, in the sequence of token `like`.
  std::vector<std::int64_t> counted(AuxLossKind kind, std::int64_t m, const Scores& scores,
                                    std::int64_t first, std::int64_t count, std::int64_t like) const {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(weight_.rows()), 0);
    for (std::int64_t t = first; t < first + count; ++t) {
      const bool is_of_sequence =
          kind != AuxLossKind::seq_aux_loss || t % plan_.batch() == like % plan_.batch();
      if (!is_of_sequence || !is_valid(m, t)) continue;
      for (const Eigen::Index e : scores.experts_of(t)) ++tokens[static_cast<std::size_t>(e)];
    }
    return tokens;
  }

  /// Adds the derivative of a loss by the scores, and sets the loss of each rank.
  void take_loss(AuxLossKind kind, std::int64_t m, const Scores& scores, Matrix& of_scores) {
    const std::int64_t all = plan_.all_tokens(), in_group = ranks_of(kind) * plan_.tokens();
    const std::int64_t ranks = plan_.s.group_size, own = plan_.tokens(), experts = weight_.rows();
    const sim::Ratio scale = plan_.scale_of_loss();
    if (kind == AuxLossKind::global_aux_loss) {
      const auto now = counted(kind, m, scores, 0, all, 0);
      for (std::size_t e = 0; e < now.size(); ++e) counts_so_far_[e] += now[e];
    }
    std::vector<reference::Sum<Scalar>> sums(static_cast<std::size_t>(ranks));
    for (std::int64_t t = 0; t < all; ++t) {
      if (!is_valid(m, t)) continue;
      const std::int64_t first = t / in_group * in_group;
      const auto counts = kind == AuxLossKind::global_aux_loss ? counts_so_far_
                                                               : counted(kind, m, scores, first, in_group, t);
      for (Eigen::Index e = 0; e < experts; ++e) {
        const Scalar slope = slope_of(kind, m, first, in_group, counts[static_cast<std::size_t>(e)]);
        sums[static_cast<std::size_t>(t / own)].add_product(scores.scores()(t, e), slope);
        const std::int64_t factor = per_token_factor(kind, m, t / own);
        of_scores(t, e) =
            number_.stored(of_scores(t, e) + slope * number_.of(factor * scale.numerator, scale.denominator));
      }
    }
    const sim::Ratio coefficient = kAuxLossCoefficients[static_cast<std::size_t>(kind)];
    Matrix attached = reference::zeros<Scalar>(1, ranks), logged = attached;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const Scalar loss = number_.stored(sums[static_cast<std::size_t>(r)].value());
      attached(0, r) = number_.stored(loss * number_.of(per_token_factor(kind, m, r), 1));
      logged(0, r) = number_.stored(loss * number_.of(coefficient.denominator, coefficient.numerator));
    }
    wholes_[name_of_loss(kind, m)] = attached;
    wholes_[name_of_loss(kind, m) + " logged"] = logged;
  }

  /// coefficient E / (k N^2) n(e). A loss of sequences takes the mean of them: N is the mean length of the
  /// sequences. global_aux_loss takes the mean of the counts of all microbatches so far.
  Scalar slope_of(AuxLossKind kind, std::int64_t m, std::int64_t first, std::int64_t in_group,
                  std::int64_t count) const {
    const sim::Ratio coefficient = kAuxLossCoefficients[static_cast<std::size_t>(kind)];
    const std::int64_t batch = kind == AuxLossKind::seq_aux_loss ? plan_.batch() : 1;
    const std::int64_t microbatches = kind == AuxLossKind::global_aux_loss ? m + 1 : 1;
    const std::int64_t tokens = valid_tokens(m, first, in_group);  // N is tokens / batch
    return number_.stored(
        number_.of(coefficient.numerator * weight_.rows() * count * batch * batch,
                   coefficient.denominator * plan_.router().topk() * batch * microbatches * tokens * tokens));
  }

  /// What undoes a later division by all tokens: the tokens of the rank times the size of tp-cp. With padding
  /// Megatron takes the tokens of the whole group for those of the rank (Megatron-LM pull request 7452).
  std::int64_t per_token_factor(AuxLossKind kind, std::int64_t m, std::int64_t rank) const {
    if (!plan_.is_per_token()) return 1;
    const std::int64_t in_group = ranks_of(kind) * plan_.tokens();
    const std::int64_t first = rank * plan_.tokens() / in_group * in_group;
    const std::int64_t tokens = plan_.has_padding() ? valid_tokens(m, first, in_group) : plan_.tokens();
    return tokens * plan_.router().tp() * plan_.router().cp();
  }

  const Inputs<Scalar>& inputs_;
  reference::Number<Scalar> number_;
  AuxLossPlan plan_;
  Matrix weight_, weight_grad_;
  std::vector<std::int64_t> counts_so_far_;  // of global_aux_loss
  Wholes<Scalar> wholes_;
  bool is_sure_ = true;
};

class MoeAuxLossCase : public CaseOf<MoeAuxLossCase> {
 public:
  std::string name() const override { return "moe_aux_loss"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override { return RouterPlan{s}.sizes(); }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tp", .least = 1, .most = 4, .at = at_scenario::tp, .is_an_axis = true},
            {.name = "cp", .least = 1, .most = 2, .is_an_axis = true},
            {kAuxLossNames[0], 0, 1},
            {kAuxLossNames[1], 0, 1},
            {kAuxLossNames[2], 0, 1},
            {"experts", 1, 4},
            {"topk", 1, 3},
            {"sequence", 1, 2},
            {"batch", 1, 2},
            {"hidden", 1, 3},
            {"score", 1, 3},
            {"microbatches", 1, 2},
            {"padding", 0, 1},
            {"per_token", 0, 1}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const AuxLossPlan plan{s};
    std::vector<CaseOutput> outputs;
    for (std::int64_t m = 0; m < plan.microbatches(); ++m) {
      for (const AuxLossKind kind : kAuxLossKinds) {
        if (!plan.has(kind)) continue;
        outputs.push_back({name_of_loss(kind, m) + " logged", Placement::columns});
        outputs.push_back({name_of_loss(kind, m), Placement::columns});
      }
      outputs.push_back({fmt::format("grad_input {}", m), Placement::rows});
    }
    outputs.push_back(plan.router().weight_gradient());
    return outputs;
  }

  std::vector<CaseSetting> twins(const CaseSetting& s) const override { return RouterPlan{s}.twins(); }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const RouterPlan plan{s};
    return {{"tp", plan.tp()},           {"cp", plan.cp()},
            {"dp", plan.dp()},           {"experts", plan.experts()},
            {"topk", plan.topk()},       {"batch", s["batch"]},
            {"sequence", s["sequence"]}, {"microbatches", s["microbatches"]}};
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const AuxLossPlan plan{s};
    const RouterPlan router{s};
    std::vector<ExpectedCall> calls;
    for (std::int64_t m = 0; m < plan.microbatches(); ++m) {
      for (const AuxLossKind kind : kAuxLossKinds) {
        const bool is_global = kind == AuxLossKind::global_aux_loss;
        const int ranks = is_global ? s.group_size : router.tp() * router.cp();
        if (!plan.has(kind) || ranks == 1) continue;
        const std::int64_t columns = kind == AuxLossKind::seq_aux_loss ? plan.batch() : 1;
        calls.push_back({.site = "aux_loss.counts",
                         .operation = sim::Operation::all_reduce,
                         .elements = columns * router.experts(),
                         .dtype = sim::DType::i32,
                         .group = is_global ? "tp-dp-cp" : "tp-cp"});
      }
    }
    sequence_parallel_sum(router.experts() * s["hidden"], router.tp(), calls);
    return calls;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override { run_aux_losses(rank, s); }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return LossesOfStep<Scalar>(inputs, s).wholes();
  }
};

}  // namespace

std::unique_ptr<Case> moe_aux_loss_case() { return std::make_unique<MoeAuxLossCase>(); }

}  // namespace verify
