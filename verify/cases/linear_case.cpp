#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/parallel/sequence_parallel_grads.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/linear_layer.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/linear.h"

namespace verify {

namespace {

using sim::Operation;
using sim::Tensor;

/// The gradient of the weight [features, hidden]. A rank has all tokens when it computes it, and adds to
/// main_grad, which is not rounded to bf16: the sum is taken in one part, and is not stored in between.
template <typename Scalar>
reference::Matrix<Scalar> weight_gradient(const reference::Matrix<Scalar>& x,
                                          const reference::Matrix<Scalar>& grad) {
  reference::Matrix<Scalar> result(grad.cols(), x.cols());
  for (Eigen::Index f = 0; f < grad.cols(); ++f) {
    for (Eigen::Index h = 0; h < x.cols(); ++h) {
      reference::Sum<Scalar> sum;
      for (Eigen::Index t = 0; t < x.rows(); ++t) sum.add_product(grad(t, f), x(t, h));
      result(f, h) = sum.value();
    }
  }
  return result;
}

/// The outputs of the serial layer x A^T + b, with A [features, hidden].
template <typename Scalar>
Wholes<Scalar> serial_linear(const Inputs<Scalar>& inputs, std::int64_t tokens, std::int64_t features,
                             std::int64_t hidden, bool has_bias, bool adds_bias) {
  const auto x = inputs.matrix("input", tokens, hidden);
  const auto weight = inputs.parameter("linear.weight", features, hidden);
  const auto grad = inputs.matrix("grad_output", tokens, features);
  const reference::Matrix<Scalar> none;
  const auto bias = has_bias ? inputs.parameter("linear.bias", 1, features) : none;
  return {{"input", x},
          {"weight", weight},
          {"output", reference::linear(inputs.number(), x, weight, adds_bias ? bias : none)},
          {"grad_output", grad},
          {"grad_input", reference::product(inputs.number(), grad, weight)},
          {"weight_grad", weight_gradient(x, grad)},
          {"bias", bias},
          {"bias_grad", adds_bias ? reference::column_sums(inputs.number(), grad)
                                  : reference::zeros<Scalar>(1, features)}};
}

/// The layer is linear in its input, and in its weight. If it has a bias, both identities include it.
std::vector<AdjointIdentity> adjoint_of_linear(const CaseSetting& s) {
  if (s["bias"] == 0) return {{{"input", "grad_input"}}, {{"weight", "weight_grad"}}};
  return {{{"input", "grad_input"}, {"bias", "bias_grad"}},
          {{"weight", "weight_grad"}, {"bias", "bias_grad"}}};
}

class ColumnCase : public CaseOf<ColumnCase> {
 public:
  std::string name() const override { return "column_parallel_linear"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 4, .is_a_rank = true},
            {"hidden", 1, 9},
            {.name = "features", .least = 1, .most = 5, .is_a_rank = true},
            {.name = "bias", .least = 0, .most = 1, .at = at_scenario::bias},
            {"gather_output", 0, 1},
            {"skip_bias_add", 0, 1},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel},
            {"stride", 1, 2}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const Placement input = sp ? Placement::rows : Placement::replicated;
    const Placement output = gathers(s) ? Placement::replicated : Placement::columns;
    const bool one_block = stride(s) == 1;
    std::vector<CaseOutput> outputs = {{"input", input},
                                       {"weight", Placement::rows, stride(s)},
                                       {"output", output, gathers(s) ? 1 : stride(s), one_block},
                                       {"grad_output", output, gathers(s) ? 1 : stride(s)},
                                       {"grad_input", input},
                                       {"weight_grad", Placement::rows, stride(s), one_block}};
    if (s["bias"] == 0) return outputs;
    outputs.push_back({"bias", Placement::columns, stride(s)});
    outputs.push_back({"bias_grad", Placement::columns, stride(s), one_block});
    return outputs;
  }

  std::vector<AdjointIdentity> adjoint(const CaseSetting& s) const override { return adjoint_of_linear(s); }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const TokenCalls tokens{.all = s.whole("tokens") * s["hidden"],
                            .tp = s.group_size,
                            .sequence_parallel = s["sequence_parallel"] == 1};
    std::vector<ExpectedCall> expected;
    tokens.column_forward(expected);
    if (gathers(s)) {
      expected.push_back({"column_parallel_linear.gather_output", Operation::all_gather,
                          s.whole("tokens") * s["features"] * stride(s)});
    }
    tokens.column_backward(expected);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const std::int64_t features = s.whole("features") * stride(s);
    sim::ColumnParallelLinear layer(rank, {.name = "linear",
                                           .dtype = s.dtype,
                                           .input_size = s["hidden"],
                                           .output_size = features,
                                           .bias = s["bias"] == 1,
                                           .gather_output = gathers(s),
                                           .skip_bias_add = s["skip_bias_add"] == 1,
                                           .sequence_parallel = sp,
                                           .stride = static_cast<int>(stride(s))});
    const Tensor x = sp ? drawn_own_rows(rank, s, "input", s.whole("tokens"), s["hidden"])
                        : drawn(rank, s, "input", {s.whole("tokens"), s["hidden"]});
    const auto forward = layer.forward(x);
    const Tensor grad = gathers(s) ? drawn(rank, s, "grad_output", {s.whole("tokens"), features})
                                   : drawn_feature_grad(rank, s);
    publish_linear(rank, s, layer, x, forward.output, grad, layer.backward(forward.saved, grad));
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return serial_linear(inputs, s.whole("tokens"), s.whole("features") * stride(s), s["hidden"],
                         s["bias"] == 1, s["bias"] == 1 && s["skip_bias_add"] == 0);
  }

 private:
  /// The whole output is gathered only if a rank's part is one block; otherwise the gathered columns would be
  /// ordered by rank. It is not gathered with sequence parallelism either.
  static bool gathers(const CaseSetting& s) {
    return s["gather_output"] == 1 && s["sequence_parallel"] == 0 && stride(s) == 1;
  }
  static int stride(const CaseSetting& s) { return static_cast<int>(s["stride"]); }
};

class RowCase : public CaseOf<RowCase> {
 public:
  std::string name() const override { return "row_parallel_linear"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 4, .is_a_rank = true},
            {"hidden", 1, 9},
            {.name = "features", .least = 1, .most = 5, .is_a_rank = true},
            {.name = "bias", .least = 0, .most = 1, .at = at_scenario::bias},
            {.name = "input_is_parallel", .least = 0, .most = 1, .at = at_scenario::on},
            {"skip_bias_add", 0, 1},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const Placement input = parallel(s) ? Placement::columns : Placement::replicated;
    const Placement output = sp ? Placement::rows : Placement::replicated;
    std::vector<CaseOutput> outputs = {{"input", input},
                                       {"weight", Placement::columns},
                                       {"output", output},
                                       {"grad_output", output},
                                       {"grad_input", input, 1, true},
                                       {"weight_grad", Placement::columns, 1, true}};
    if (s["bias"] == 0) return outputs;
    outputs.push_back({"bias", Placement::replicated});
    outputs.push_back({"bias_grad", Placement::replicated, 1, !sp});
    return outputs;
  }

  std::vector<AdjointIdentity> adjoint(const CaseSetting& s) const override { return adjoint_of_linear(s); }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const TokenCalls tokens{
        .all = s.whole("tokens") * s["hidden"], .tp = s.group_size, .sequence_parallel = sp};
    std::vector<ExpectedCall> expected;
    tokens.row_forward(expected);
    tokens.row_backward(expected);
    if (!parallel(s)) {
      expected.push_back(
          {"row_parallel_linear.scatter_input", Operation::all_gather, s.whole("tokens") * s["features"]});
    }
    if (sp && s["bias"] == 1) sequence_parallel_sum(s["hidden"], s.group_size, expected);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    sim::RowParallelLinear layer(rank, {.name = "linear",
                                        .dtype = s.dtype,
                                        .input_size = s.whole("features"),
                                        .output_size = s["hidden"],
                                        .bias = s["bias"] == 1,
                                        .input_is_parallel = parallel(s),
                                        .skip_bias_add = s["skip_bias_add"] == 1,
                                        .sequence_parallel = sp});
    const std::int64_t tokens = s.whole("tokens"), features = s.whole("features");
    const Tensor x = parallel(s) ? drawn_own_columns(rank, s, "input", tokens, features)
                                 : drawn(rank, s, "input", {tokens, features});
    const Tensor grad = sp ? drawn_own_rows(rank, s, "grad_output", tokens, s["hidden"])
                           : drawn(rank, s, "grad_output", {tokens, s["hidden"]});
    const auto forward = layer.forward(x);
    const Tensor grad_input = layer.backward(forward.saved, grad);
    sim::all_reduce_sequence_parallel_grads(rank, layer.parameters());
    publish_linear(rank, s, layer, x, forward.output, grad, grad_input);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return serial_linear(inputs, s.whole("tokens"), s["hidden"], s.whole("features"), s["bias"] == 1,
                         s["bias"] == 1 && s["skip_bias_add"] == 0);
  }

 private:
  static bool parallel(const CaseSetting& s) {
    return s["input_is_parallel"] == 1 || s["sequence_parallel"] == 1;
  }
};

}  // namespace

std::unique_ptr<Case> column_parallel_linear_case() { return std::make_unique<ColumnCase>(); }
std::unique_ptr<Case> row_parallel_linear_case() { return std::make_unique<RowCase>(); }

}  // namespace verify
