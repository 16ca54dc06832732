#include "sim/parallel/mlp.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/token_calls.h"
#include "verify/cases/token_layer.h"
#include "verify/reference/mlp.h"

namespace verify {

namespace {

class MlpCase : public CaseOf<MlpCase> {
 public:
  std::string name() const override { return "mlp"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 3, .is_a_rank = true},
            {"hidden", 1, 7},
            {.name = "ffn", .least = 1, .most = 4, .is_a_rank = true},
            {.name = "activation", .least = 0, .most = 2, .at = at_scenario::activation},
            {.name = "gated", .least = 0, .most = 1, .at = at_scenario::gated},
            {.name = "bias", .least = 0, .most = 1, .at = at_scenario::bias},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel}};
  }

  /// What is computed first comes first: a mistake shows in the tensors after it.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const Placement tokens = s["sequence_parallel"] == 1 ? Placement::rows : Placement::replicated;
    const int stride = s["gated"] == 1 ? 2 : 1;
    std::vector<CaseOutput> outputs = outputs_inside_mlp(s);
    outputs.push_back({"output", tokens});
    if (s["bias"] == 1) outputs.push_back({"fc2.bias_grad", Placement::replicated});
    outputs.push_back({"fc2.weight_grad", Placement::columns});
    if (s["bias"] == 1) outputs.push_back({"fc1.bias_grad", Placement::columns, stride});
    outputs.push_back({"fc1.weight_grad", Placement::rows, stride});
    outputs.push_back({"grad_input", tokens});
    return outputs;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const TokenCalls tokens{
        .all = s.whole("tokens") * s["hidden"], .tp = s.group_size, .sequence_parallel = sp};
    std::vector<ExpectedCall> expected;
    tokens.column_forward(expected);
    tokens.row_forward(expected);
    tokens.row_backward(expected);
    tokens.column_backward(expected);
    if (sp && s["bias"] == 1) sequence_parallel_sum(s["hidden"], s.group_size, expected);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    sim::Mlp layer(rank, {.name = "mlp",
                          .dtype = s.dtype,
                          .hidden_size = s["hidden"],
                          .ffn_hidden_size = s.whole("ffn"),
                          .activation = static_cast<sim::Activation>(s["activation"]),
                          .gated = s["gated"] == 1,
                          .bias = s["bias"] == 1,
                          .sequence_parallel = s["sequence_parallel"] == 1});
    run_token_layer(rank, s, layer, s.whole("tokens"), s["hidden"]);
    rank.publish("fc1.weight_grad", layer.linear_fc1().weight().main_grad);
    rank.publish("fc2.weight_grad", layer.linear_fc2().weight().main_grad);
    if (s["bias"] == 0) return;
    rank.publish("fc1.bias_grad", layer.linear_fc1().bias().main_grad);
    rank.publish("fc2.bias_grad", layer.linear_fc2().bias().main_grad);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const std::int64_t ffn = s.whole("ffn"), tokens = s.whole("tokens"), hidden = s["hidden"];
    const std::int64_t inside = s["gated"] == 1 ? 2 * ffn : ffn;
    const auto bias = [&](const char* name, std::int64_t size) {
      return s["bias"] == 1 ? inputs.parameter(name, 1, size) : reference::Matrix<Scalar>();
    };
    const reference::Mlp<Scalar> mlp(inputs.number(), static_cast<reference::Activation>(s["activation"]),
                                     s["gated"] == 1,
                                     {.fc1_weight = inputs.parameter("mlp.linear_fc1.weight", inside, hidden),
                                      .fc1_bias = bias("mlp.linear_fc1.bias", inside),
                                      .fc2_weight = inputs.parameter("mlp.linear_fc2.weight", hidden, ffn),
                                      .fc2_bias = bias("mlp.linear_fc2.bias", hidden)},
                                     inputs.matrix("input", tokens, hidden));
    const auto gradients = mlp.gradients(inputs.matrix("grad_output", tokens, hidden));
    return {{"fc1.output", mlp.fc1_output()},
            {"fc2.input", mlp.fc2_input()},
            {"output", mlp.output()},
            {"grad_input", gradients.x},
            {"fc1.weight_grad", gradients.fc1.weight},
            {"fc2.weight_grad", gradients.fc2.weight},
            {"fc1.bias_grad", gradients.fc1.bias},
            {"fc2.bias_grad", gradients.fc2.bias}};
  }
};

}  // namespace

std::unique_ptr<Case> mlp_case() { return std::make_unique<MlpCase>(); }

}  // namespace verify
