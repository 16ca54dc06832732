#include "sim/parallel/parallel_norm.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/token_layer.h"
#include "verify/reference/norm.h"

namespace verify {

namespace {

using sim::Operation;

class NormCase : public CaseOf<NormCase> {
 public:
  std::string name() const override { return "parallel_norm"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 4, .is_a_rank = true},
            {"hidden", 1, 20},
            {.name = "layer_norm", .least = 0, .most = 1, .at = at_scenario::layer_norm},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const Placement tokens = sp ? Placement::rows : Placement::replicated;
    std::vector<CaseOutput> outputs = {{"output", tokens, 1, true}};
    if (s["layer_norm"] == 1) outputs.push_back({"bias_grad", Placement::replicated, 1, !sp});
    outputs.push_back({"weight_grad", Placement::replicated, 1, !sp});
    outputs.push_back({"grad_input", tokens, 1, true});
    return outputs;
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    if (s["sequence_parallel"] == 0) return {};
    const ExpectedCall sum{"sequence_parallel_grads.sum", Operation::all_reduce, s["hidden"], true};
    return std::vector<ExpectedCall>(s["layer_norm"] == 1 ? 2 : 1, sum);
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    sim::ParallelNorm layer(rank, {.name = "norm",
                                   .dtype = s.dtype,
                                   .hidden_size = s["hidden"],
                                   .norm = s["layer_norm"] == 1 ? sim::Norm::layer_norm : sim::Norm::rms_norm,
                                   .sequence_parallel = s["sequence_parallel"] == 1});
    run_token_layer(rank, s, layer, s.whole("tokens"), s["hidden"]);
    rank.publish("weight_grad", layer.weight().main_grad);
    if (s["layer_norm"] == 1) rank.publish("bias_grad", layer.bias().main_grad);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const reference::NormSetting setting{.is_layer_norm = s["layer_norm"] == 1};
    const auto x = inputs.matrix("input", s.whole("tokens"), s["hidden"]);
    const auto grad = inputs.matrix("grad_output", s.whole("tokens"), s["hidden"]);
    const auto weight = inputs.parameter("norm.weight", 1, s["hidden"]);
    const auto bias =
        setting.is_layer_norm ? inputs.parameter("norm.bias", 1, s["hidden"]) : reference::Matrix<Scalar>();
    const auto gradients = reference::norm_gradients(inputs.number(), x, weight, grad, setting);
    return {{"output", reference::norm(inputs.number(), x, weight, bias, setting)},
            {"grad_input", gradients.x},
            {"weight_grad", gradients.weight},
            {"bias_grad", gradients.bias}};
  }
};

}  // namespace

std::unique_ptr<Case> parallel_norm_case() { return std::make_unique<NormCase>(); }

}  // namespace verify
