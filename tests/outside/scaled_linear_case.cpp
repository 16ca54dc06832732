#include "scaled_linear_case.h"

#include <verify/reference/linear.h>

#include "scaled_linear.h"

namespace outside {

namespace {

using verify::CaseSetting;
using verify::Placement;

class ScaledLinearCase : public verify::CaseOf<ScaledLinearCase> {
 public:
  explicit ScaledLinearCase(bool planted) : planted_(planted) {}
  std::string name() const override { return "scaled_linear"; }

  /// Drawn from these ranges; features are for each rank.
  std::vector<verify::Dimension> dimensions() const override {
    return {{"tokens", 1, 4}, {"hidden", 1, 9}, {"features", 1, 5, true}};
  }

  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override {
    return {{"input", Placement::columns},      {"weight", Placement::columns},
            {"output", Placement::replicated},  {"grad_output", Placement::replicated},
            {"grad_input", Placement::columns}, {"weight_grad", Placement::columns}};
  }

  /// Site, operation, elements. Further members: `.group = "dp"` if it is not tp, `.reduce_op` if it is not a
  /// sum, and `.of_sums = true` if the elements have the dtype of sums (f32 in a bf16 layer).
  std::vector<verify::ExpectedCall> calls(const CaseSetting& s) const override {
    return {{"scaled_linear.forward", sim::Operation::all_reduce, s["tokens"] * s["hidden"]}};
  }

  /// Linear in its input, and in its weight.
  std::vector<verify::AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"input", "grad_input"}}, {{"weight", "weight_grad"}}};
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    ScaledLinear layer(rank, s.dtype, s.whole("features"), s["hidden"]);
    layer.forgets_the_sum = planted_;
    const sim::Tensor input = verify::drawn_own_columns(rank, s, "input", s["tokens"], s.whole("features"));
    const sim::Tensor grad_output = verify::drawn(rank, s, "grad_output", {s["tokens"], s["hidden"]});
    rank.publish("input", input);
    rank.publish("weight", layer.weight.value);
    rank.publish("output", layer.forward(input));
    rank.publish("grad_output", grad_output);
    rank.publish("grad_input", layer.backward(input, grad_output));
    rank.publish("weight_grad", layer.weight.main_grad);
  }

  /// The same on one device, whole, in any scalar.
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = verify::reference::Matrix<Scalar>;
    const auto& number = inputs.number();
    const auto scaled = [&](const Matrix& x) {
      return verify::reference::matrix_of(number, x.rows(), x.cols(), [&](Eigen::Index i, Eigen::Index j) {
        return x(i, j) * number.of(1, s.whole("features"));
      });
    };
    const Matrix x = inputs.matrix("input", s["tokens"], s.whole("features"));
    const Matrix weight = inputs.parameter("scaled_linear.weight", s["hidden"], s.whole("features"));
    const Matrix grad = inputs.matrix("grad_output", s["tokens"], s["hidden"]);
    const auto gradients = verify::reference::linear_gradients<Scalar>(number, x, weight, scaled(grad));
    return {{"input", x},
            {"weight", weight},
            {"output", scaled(verify::reference::linear<Scalar>(number, x, weight, {}))},
            {"grad_output", grad},
            {"grad_input", gradients.x},
            {"weight_grad", gradients.weight}};
  }

 private:
  bool planted_;
};

}  // namespace

std::unique_ptr<verify::Case> scaled_linear_case(bool planted) {
  return std::make_unique<ScaledLinearCase>(planted);
}

}  // namespace outside
