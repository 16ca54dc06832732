#include "verify/cases/case_list.h"
#include "verify/cases/expert_calls.h"
#include "verify/cases/token_dispatch.h"

namespace verify {

namespace {

class TokenDispatcherCase : public CaseOf<TokenDispatcherCase> {
 public:
  std::string name() const override { return "token_dispatcher"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const MoePlan plan{s};
    return {.world_size = s.group_size,
            .expert_model_parallel_size = plan.ep(),
            .expert_tensor_parallel_size = plan.etp()};
  }
  std::vector<Dimension> dimensions() const override {
    return {
        {.name = "ep", .least = 1, .most = 4, .at = at_scenario::experts, .is_an_axis = true},
        {.name = "etp", .least = 1, .most = 2, .at = at_scenario::expert_tensor_parallel, .is_an_axis = true},
        {"dispatcher", 0, 2},
        {"routing", 0, kLastRouting},
        {"matrices", 0, 1},
        {"local_experts", 1, 3},
        {"tokens", 1, 3},
        {"hidden", 1, 4}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    std::vector<CaseOutput> outputs;
    for (const char* name : {"input", "probabilities", "grad_output", "output"})
      outputs.push_back({name, Placement::rows});
    for (std::int64_t e = 0; TokenDispatch{s}.has_matrices() && e < MoePlan{s}.experts(); ++e) {
      outputs.push_back(of_expert(s, e, ""));
      outputs.push_back(of_expert(s, e, "_grad"));
      outputs.back().adds = true;
    }
    for (const char* name : {"probabilities_grad", "grad_input"}) outputs.push_back({name, Placement::rows});
    return outputs;
  }

  /// In the field all dispatchers compute the same, and so do all ways to place the experts. In floats they
  /// add in different orders.
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    std::vector<CaseSetting> all = {s};
    if (s.dtype != sim::DType::field) return all;
    for (const std::int64_t dispatcher : {0, 1, 2}) {
      if (dispatcher == s["dispatcher"]) continue;
      all.push_back(s);
      all.back().dimensions["dispatcher"] = dispatcher;
    }
    all.push_back(s);
    all.back().dimensions["local_experts"] = MoePlan{s}.experts();
    all.back().dimensions["ep"] = 1;
    return all;
  }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const MoePlan plan{s};
    return {{"ep", plan.ep()}, {"etp", plan.etp()}, {"experts", plan.experts()}, {"tokens", plan.tokens()}};
  }

  /// Linear in the tokens, in their probabilities, and in the matrices of all experts.
  std::vector<AdjointIdentity> adjoint(const CaseSetting& s) const override {
    std::vector<AdjointIdentity> identities = {{{"input", "grad_input"}},
                                               {{"probabilities", "probabilities_grad"}}};
    if (!TokenDispatch{s}.has_matrices()) return identities;
    AdjointIdentity of_matrices;
    for (std::int64_t e = 0; e < MoePlan{s}.experts(); ++e) {
      const std::string name = TokenDispatch::name_of_weight(e);
      of_matrices.push_back({name, name + "_grad"});
    }
    identities.push_back(std::move(of_matrices));
    return identities;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    const MoePlan plan{s};
    const TokenDispatch dispatch{s};
    const int place = rank % (plan.etp() * plan.ep()), first = rank - place;
    const ExpertCalls experts{.type = plan.dispatcher(),
                              .ep = plan.ep(),
                              .etp = plan.etp(),
                              .place = place,
                              .tokens = plan.tokens(),
                              .hidden = s["hidden"],
                              .experts = plan.experts(),
                              .is_padded = dispatch.capacity().has_value(),
                              .is_chosen = [&dispatch, first](int other, std::int64_t t, std::int64_t e) {
                                return dispatch.is_chosen(first + other, t, e);
                              }};
    ExpectedRun expected;
    experts.forward(expected.calls);
    experts.backward(expected.calls);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override { run_token_dispatch(rank, s); }

  /// States the sums over the experts of each token directly. Without matrices every rank of etp returns the
  /// row, so that each pair of a token and an expert counts etp times.
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const MoePlan plan{s};
    const auto& number = inputs.number();
    const std::int64_t tokens = plan.all_tokens(), hidden = s["hidden"];
    Pieces<Scalar> pieces{s, number, inputs.matrix("input", tokens, hidden),
                          inputs.matrix("grad_output", tokens, hidden),
                          inputs.matrix("probabilities", tokens, plan.experts())};
    pieces.prepare();
    Wholes<Scalar> wholes = {
        {"input", pieces.x}, {"probabilities", pieces.probabilities}, {"grad_output", pieces.grad}};
    for (std::int64_t e = 0; TokenDispatch{s}.has_matrices() && e < plan.experts(); ++e) {
      const std::string name = TokenDispatch::name_of_weight(e);
      pieces.weights.push_back(inputs.matrix(name, hidden, plan.etp() * hidden));
      wholes[name] = pieces.weights.back();
      wholes[name + "_grad"] = pieces.weight_gradient(e);
    }
    wholes["output"] = pieces.output();
    wholes["grad_input"] = pieces.input_gradient();
    wholes["probabilities_grad"] = pieces.probability_gradient();
    return wholes;
  }

 private:
  /// The declaration of a matrix, of which each rank of the expert's ep rank has columns.
  static CaseOutput of_expert(const CaseSetting& s, std::int64_t e, const char* what) {
    const MoePlan plan{s};
    CaseOutput output{.name = TokenDispatch::name_of_weight(e) + what, .placement = Placement::columns};
    for (int rank = 0; rank < s.group_size; ++rank)
      output.part_of.push_back(e / s["local_experts"] == plan.ep_rank(rank) ? plan.etp_rank(rank) : -1);
    return output;
  }

  template <typename Scalar>
  struct Pieces {
    using Matrix = reference::Matrix<Scalar>;

    const CaseSetting& s;
    const reference::Number<Scalar>& number;
    Matrix x, grad, probabilities;
    std::vector<Matrix> weights = {};  // by expert; none without matrices
    // By token and expert.
    std::vector<bool> routed = {};
    std::vector<std::vector<Scalar>> weighted_rows = {};

    bool is_chosen(Eigen::Index t, Eigen::Index e) const { return routed[place(t, e)]; }
    /// Element h of a row times part i of an expert's matrix, or times its transpose.
    Scalar times(Eigen::Index e, Eigen::Index i, const std::vector<Scalar>& row, Eigen::Index h,
                 bool is_transposed) const {
      if (weights.empty()) return row[static_cast<std::size_t>(h)];
      const auto& weight = weights[static_cast<std::size_t>(e)];
      const Eigen::Index first = i * weight.rows();
      reference::Sum<Scalar> sum;
      for (Eigen::Index k = 0; k < weight.rows(); ++k)
        sum.add_product(row[static_cast<std::size_t>(k)],
                        is_transposed ? weight(k, first + h) : weight(h, first + k));
      return number.stored(sum.value());
    }
    std::size_t place(Eigen::Index t, Eigen::Index e) const {
      return static_cast<std::size_t>(t * probabilities.cols() + e);
    }
    /// Takes the routing, and multiplies the rows of each token by their probabilities.
    void prepare() {
      for (Eigen::Index t = 0; t < x.rows(); ++t) {
        for (Eigen::Index e = 0; e < probabilities.cols(); ++e) {
          const std::int64_t tokens = MoePlan{s}.tokens();
          routed.push_back(TokenDispatch{s}.is_chosen(static_cast<int>(t / tokens), t % tokens, e));
          if (!routed.back()) probabilities(t, e) = number.of(0, 1);
          weighted_rows.emplace_back();
          for (Eigen::Index h = 0; routed.back() && h < x.cols(); ++h)
            weighted_rows.back().push_back(number.stored(x(t, h) * probabilities(t, e)));
        }
      }
    }
    std::vector<Scalar> plain(const Matrix& rows, Eigen::Index t) const {
      return {rows.row(t).data(), rows.row(t).data() + rows.cols()};
    }
    /// Returns the sum over the experts of each token, and over the parts of their matrices, of f(t, e, i,
    /// h).
    template <typename Term>
    Matrix sum_over_experts(const Term& term) const {
      return reference::matrix_of(number, x.rows(), x.cols(), [&](Eigen::Index t, Eigen::Index h) {
        reference::Sum<Scalar> sum;
        for (Eigen::Index e = 0; e < probabilities.cols(); ++e)
          for (Eigen::Index i = 0; is_chosen(t, e) && i < MoePlan{s}.etp(); ++i) sum.add(term(t, e, i, h));
        return sum.value_in_parts();
      });
    }
    Matrix output() const {
      return sum_over_experts([&](Eigen::Index t, Eigen::Index e, Eigen::Index i, Eigen::Index h) {
        return times(e, i, weighted_rows[place(t, e)], h, false);
      });
    }
    Matrix input_gradient() const {
      return sum_over_experts([&](Eigen::Index t, Eigen::Index e, Eigen::Index i, Eigen::Index h) {
        return number.stored(times(e, i, plain(grad, t), h, true) * probabilities(t, e));
      });
    }
    Matrix probability_gradient() const {
      return reference::matrix_of(number, probabilities.rows(), probabilities.cols(),
                                  [&](Eigen::Index t, Eigen::Index e) {
                                    reference::Sum<Scalar> all;
                                    for (Eigen::Index i = 0; is_chosen(t, e) && i < MoePlan{s}.etp(); ++i) {
                                      reference::Sum<Scalar> dot;
                                      for (Eigen::Index h = 0; h < x.cols(); ++h)
                                        dot.add_product(times(e, i, plain(grad, t), h, true), x(t, h));
                                      all.add(number.stored(dot.value()));
                                    }
                                    return all.value_in_parts();
                                  });
    }
    /// Of every part, because the rows of an expert are the same for all of them.
    Matrix weight_gradient(Eigen::Index e) const {
      const Eigen::Index hidden = x.cols();
      return reference::matrix_of(
          number, hidden, MoePlan{s}.etp() * hidden, [&](Eigen::Index row, Eigen::Index column) {
            reference::Sum<Scalar> sum;
            for (Eigen::Index t = 0; t < x.rows(); ++t)
              if (is_chosen(t, e))
                sum.add_product(grad(t, row),
                                weighted_rows[place(t, e)][static_cast<std::size_t>(column % hidden)]);
            return sum.value_in_parts();
          });
    }
  };
};

}  // namespace

std::unique_ptr<Case> token_dispatcher_case() { return std::make_unique<TokenDispatcherCase>(); }

}  // namespace verify
