#include "verify/cases/moe_layer_case.h"

#include <fmt/format.h>

#include "sim/parallel/sequence_parallel_grads.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/expert_calls.h"
#include "verify/cases/spread.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/experts.h"
#include "verify/reference/shared_experts.h"

namespace verify {

namespace {

std::string name_of_expert(std::int64_t e) { return "experts." + std::to_string(e); }

using IsChosen = std::function<bool(int place, std::int64_t token, std::int64_t expert)>;

class MoeLayerCase : public CaseOf<MoeLayerCase> {
 public:
  std::string name() const override { return "moe_layer"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const MoePlan plan{s};
    return {.world_size = s.group_size,
            .tensor_model_parallel_size = plan.tp(),
            .expert_model_parallel_size = plan.ep(),
            .expert_tensor_parallel_size = plan.etp()};
  }
  std::vector<Dimension> dimensions() const override {
    return {
        {.name = "tp", .least = 1, .most = 4, .at = at_scenario::tp, .is_an_axis = true},
        {.name = "ep", .least = 1, .most = 4, .at = at_scenario::experts, .is_an_axis = true},
        {.name = "etp", .least = 1, .most = 2, .at = at_scenario::expert_tensor_parallel, .is_an_axis = true},
        {"dispatcher", 0, 2},
        {"local_experts", 1, 3},
        {"topk", 1, 3},
        {"tokens", 1, 3},
        {"hidden", 1, 4},
        {"ffn", 1, 3},
        {"score", 0, 3},
        {"scaled", 0, 1},
        {"groups", 0, 1},
        {"shared", 0, 2},
        {.name = "activation", .least = 0, .most = 2, .at = at_scenario::activation},
        {.name = "gated", .least = 0, .most = 1, .at = at_scenario::gated},
        {.name = "bias", .least = 0, .most = 1, .at = at_scenario::bias}};
  }

  /// What is computed first comes first: a mistake shows in the tensors after it.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const MoePlan plan{s};
    std::vector<CaseOutput> outputs = {{"probabilities", Placement::rows}, {"output", Placement::rows}};
    for (std::int64_t e = 0; e < plan.experts(); ++e) {
      const int stride = plan.is_gated() ? 2 : 1;
      outputs.push_back(of_expert(plan, e, ".fc2.weight_grad", Placement::columns, 1));
      outputs.push_back(of_expert(plan, e, ".fc1.weight_grad", Placement::rows, stride));
      if (!plan.has_bias()) continue;
      outputs.push_back(of_expert(plan, e, ".fc2.bias_grad", Placement::replicated, 1));
      outputs.push_back(of_expert(plan, e, ".fc1.bias_grad", Placement::columns, stride));
    }
    outputs.push_back(of_dense(plan, "router.weight_grad", Placement::replicated, 1));
    if (s["shared"] > 0) {
      outputs.push_back(of_dense(plan, "shared_experts.fc2.weight_grad", Placement::columns, 1));
      outputs.push_back(
          of_dense(plan, "shared_experts.fc1.weight_grad", Placement::rows, plan.is_gated() ? 2 : 1));
    }
    if (s["shared"] == 2)
      outputs.push_back(of_dense(plan, "shared_experts.gate_weight_grad", Placement::replicated, 1));
    outputs.push_back({"grad_input", Placement::rows});
    return outputs;
  }

  /// In the field the three dispatchers compute the same. In floats they add in different orders.
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    std::vector<CaseSetting> all = {s};
    if (s.dtype != sim::DType::field) return all;
    for (const std::int64_t dispatcher : {0, 1, 2}) {
      CaseSetting twin = s;
      twin.dimensions["dispatcher"] = dispatcher;
      all.push_back(std::move(twin));
    }
    return all;
  }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const MoePlan plan{s};
    return {{"tp", plan.tp()},     {"ep", plan.ep()},       {"etp", plan.etp()},
            {"topk", plan.topk()}, {"tokens", s["tokens"]}, {"experts", plan.experts()}};
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    const MoePlan plan{s};
    const int n = plan.etp() * plan.ep(), place = rank % n;
    const IsChosen is_chosen = choices_of(s, rank - place);
    if (!is_chosen) return {.calls = {}, .departure = {}, .is_known = false};
    const ExpertCalls experts{.type = plan.dispatcher(),
                              .ep = plan.ep(),
                              .etp = plan.etp(),
                              .place = place,
                              .tokens = plan.tokens(),
                              .hidden = s["hidden"],
                              .experts = plan.experts(),
                              .is_chosen = is_chosen};
    const TokenCalls tokens{
        .all = plan.tp() * plan.tokens() * s["hidden"], .tp = plan.tp(), .sequence_parallel = plan.tp() > 1};
    std::vector<ExpectedCall> calls;
    if (s["shared"] > 0) {
      tokens.column_forward(calls);
      tokens.row_forward(calls);
    }
    experts.forward(calls);
    experts.backward(calls);
    if (s["shared"] > 0) {
      tokens.row_backward(calls);
      tokens.column_backward(calls);
    }
    sequence_parallel_sum(plan.experts() * s["hidden"], plan.tp(), calls);
    if (s["shared"] == 2) sequence_parallel_sum(s["hidden"], plan.tp(), calls);
    return {.calls = calls};
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const MoePlan plan{s};
    sim::MoeLayer layer(rank, plan.layer());
    publish_moe_layer(rank, plan, layer, results_of(rank, plan, layer));
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const MoePlan plan{s};
    const auto& number = inputs.number();
    const auto x = inputs.matrix("input", plan.all_tokens(), s["hidden"]);
    const auto grad = inputs.matrix("grad_output", plan.all_tokens(), s["hidden"]);
    const auto router = router_of(inputs, plan, x);
    const reference::Experts<Scalar> experts(
        number, static_cast<reference::Activation>(s["activation"]), plan.is_gated(),
        weights_of_experts(inputs, plan), x, router.probabilities(),
        [&](Eigen::Index t, Eigen::Index e) { return router.is_chosen(t, e); });
    auto of_experts = experts.gradients(grad);
    auto of_router = router.gradients(of_experts.probabilities);
    reference::Matrix<Scalar> output = experts.output();
    auto grad_input = reference::added(number, of_experts.x, of_router.x);
    Wholes<Scalar> wholes;
    if (s["shared"] > 0) add_shared_experts(inputs, plan, x, grad, output, grad_input, wholes);
    wholes["probabilities"] = router.probabilities();
    wholes["output"] = std::move(output);
    wholes["grad_input"] = std::move(grad_input);
    wholes["router.weight_grad"] = std::move(of_router.weight);
    for (std::int64_t e = 0; e < plan.experts(); ++e) {
      const auto i = static_cast<std::size_t>(e);
      wholes[name_of_expert(e) + ".fc1.weight_grad"] = std::move(of_experts.fc1[i].weight);
      wholes[name_of_expert(e) + ".fc2.weight_grad"] = std::move(of_experts.fc2[i].weight);
      wholes[name_of_expert(e) + ".fc1.bias_grad"] = std::move(of_experts.fc1[i].bias);
      wholes[name_of_expert(e) + ".fc2.bias_grad"] = std::move(of_experts.fc2[i].bias);
    }
    if (!router.is_sure()) leave_unjudged(number, wholes);
    return wholes;
  }

 private:
  /// The declaration of a gradient of an expert. Each part has a term on every rank that holds the part.
  static CaseOutput of_expert(const MoePlan& plan, std::int64_t e, const char* what, Placement placement,
                              int stride) {
    CaseOutput output{
        .name = name_of_expert(e) + what, .placement = placement, .stride = stride, .adds = true};
    const std::int64_t owner = e / plan.s["local_experts"];
    output.part_of.reserve(static_cast<std::size_t>(plan.s.group_size));
    for (int rank = 0; rank < plan.s.group_size; ++rank)
      output.part_of.push_back(plan.ep_rank(rank) == owner ? plan.etp_rank(rank) : -1);
    return output;
  }
  static CaseOutput of_dense(const MoePlan& plan, const char* name, Placement placement, int stride) {
    CaseOutput output{.name = name, .placement = placement, .stride = stride, .adds = true};
    const int tp = plan.tp();
    for (int rank = 0; rank < plan.s.group_size; ++rank) output.part_of.push_back(rank % tp);
    return output;
  }

  template <typename Scalar>
  static reference::Router<Scalar> router_of(const Inputs<Scalar>& inputs, const MoePlan& plan,
                                             const reference::Matrix<Scalar>& x) {
    return {inputs.number(),
            plan.router(),
            inputs.parameter("mlp.router.weight", plan.experts(), plan.s["hidden"]),
            {},
            x};
  }

  template <typename Scalar>
  static std::vector<reference::MlpWeights<Scalar>> weights_of_experts(const Inputs<Scalar>& inputs,
                                                                       const MoePlan& plan) {
    const std::int64_t hidden = plan.s["hidden"], ffn = plan.ffn();
    const std::int64_t inside = plan.is_gated() ? 2 * ffn : ffn;
    std::vector<reference::MlpWeights<Scalar>> all;
    for (std::int64_t e = 0; e < plan.experts(); ++e) {
      const std::string name = fmt::format("mlp.experts.local_experts.{}.", e);
      reference::MlpWeights<Scalar> weights;
      weights.fc1_weight = inputs.parameter(name + "linear_fc1.weight", inside, hidden);
      weights.fc2_weight = inputs.parameter(name + "linear_fc2.weight", hidden, ffn);
      if (plan.has_bias()) {
        weights.fc1_bias = inputs.parameter(name + "linear_fc1.bias", 1, inside);
        weights.fc2_bias = inputs.parameter(name + "linear_fc2.bias", 1, hidden);
      }
      all.push_back(std::move(weights));
    }
    return all;
  }

  template <typename Scalar>
  static void add_shared_experts(const Inputs<Scalar>& inputs, const MoePlan& plan,
                                 const reference::Matrix<Scalar>& x, const reference::Matrix<Scalar>& grad,
                                 reference::Matrix<Scalar>& output, reference::Matrix<Scalar>& grad_input,
                                 Wholes<Scalar>& wholes) {
    const std::int64_t hidden = plan.s["hidden"], ffn = plan.shared_ffn();
    const std::string name = "mlp.shared_experts.";
    const reference::SharedExperts<Scalar> shared(
        inputs.number(), static_cast<reference::Activation>(plan.s["activation"]), plan.is_gated(),
        {.fc1_weight = inputs.parameter(name + "linear_fc1.weight", plan.is_gated() ? 2 * ffn : ffn, hidden),
         .fc1_bias = {},
         .fc2_weight = inputs.parameter(name + "linear_fc2.weight", hidden, ffn),
         .fc2_bias = {}},
        plan.s["shared"] == 2 ? inputs.parameter(name + "gate_weight", 1, hidden)
                              : reference::Matrix<Scalar>(),
        x);
    const auto gradients = shared.gradients(grad);
    output = reference::added(inputs.number(), output, shared.output());
    grad_input = reference::added(inputs.number(), grad_input, gradients.x);
    wholes["shared_experts.fc1.weight_grad"] = gradients.fc1.weight;
    wholes["shared_experts.fc2.weight_grad"] = gradients.fc2.weight;
    wholes["shared_experts.gate_weight_grad"] = gradients.gate_weight;
  }

  /// The choices of the reference; null where an error may have exchanged two experts. `first` is the rank at
  /// place 0 of tp-ep.
  static IsChosen choices_of(const CaseSetting& s, int first) {
    if (s.dtype == sim::DType::field) {
      const sim::FieldTower tower(s.seed);
      return choices(Inputs<sim::Field>(s, reference::Number<sim::Field>(tower)), first);
    }
    const reference::Rounding rounding = rounding_of(s.dtype, s.group_size);
    return choices(Inputs<reference::Bounded>(s, reference::Number<reference::Bounded>(rounding)), first);
  }
  template <typename Scalar>
  static IsChosen choices(const Inputs<Scalar>& inputs, int first) {
    const MoePlan plan{inputs.setting()};
    const auto router = router_of(inputs, plan, inputs.matrix("input", plan.all_tokens(), plan.s["hidden"]));
    if (!router.is_sure()) return nullptr;
    std::vector<bool> chosen;
    for (std::int64_t t = 0; t < plan.all_tokens(); ++t)
      for (std::int64_t e = 0; e < plan.experts(); ++e) chosen.push_back(router.is_chosen(t, e));
    const std::int64_t tokens = plan.tokens(), experts = plan.experts();
    return [=](int place, std::int64_t t, std::int64_t e) {
      return static_cast<bool>(
          chosen[static_cast<std::size_t>(((first + place) * tokens + t) * experts + e)]);
    };
  }
};

void publish_gradients(sim::Rank& rank, const MoePlan& plan, sim::MoeLayer& layer) {
  for (std::size_t i = 0; i < layer.experts().experts().size(); ++i) {
    sim::GroupedMlp::Expert& expert = layer.experts().experts()[i];
    const std::string name =
        name_of_expert(plan.ep_rank(rank.id) * plan.s["local_experts"] + static_cast<std::int64_t>(i));
    rank.publish(name + ".fc1.weight_grad", expert.fc1_weight.main_grad);
    rank.publish(name + ".fc2.weight_grad", expert.fc2_weight.main_grad);
    if (!plan.has_bias()) continue;
    rank.publish(name + ".fc1.bias_grad", expert.fc1_bias.main_grad);
    rank.publish(name + ".fc2.bias_grad", expert.fc2_bias.main_grad);
  }
  rank.publish("router.weight_grad", layer.router().weight().main_grad);
  sim::SharedExperts* shared = layer.shared_experts();
  if (shared == nullptr) return;
  rank.publish("shared_experts.fc1.weight_grad", shared->mlp().linear_fc1().weight().main_grad);
  rank.publish("shared_experts.fc2.weight_grad", shared->mlp().linear_fc2().weight().main_grad);
  if (shared->gate_weight() != nullptr)
    rank.publish("shared_experts.gate_weight_grad", shared->gate_weight()->main_grad);
}

}  // namespace

sim::Tensor own_tokens(sim::Rank& rank, const MoePlan& plan, const char* name) {
  const std::int64_t hidden = plan.s["hidden"];
  return drawn_elements(rank, plan.s, name, plan.all_tokens() * hidden, rank.id * plan.tokens() * hidden,
                        plan.tokens() * hidden)
      .reshaped({plan.tokens(), hidden});
}

MoeResults results_of(sim::Rank& rank, const MoePlan& plan, sim::MoeLayer& layer) {
  const auto forward = layer.forward(own_tokens(rank, plan, "input"));
  const sim::Tensor grad_input = layer.backward(forward.saved, own_tokens(rank, plan, "grad_output"));
  return {forward.probs, forward.output, grad_input};
}

void publish_moe_layer(sim::Rank& rank, const MoePlan& plan, sim::MoeLayer& layer,
                       const MoeResults& results) {
  sim::all_reduce_sequence_parallel_grads(rank, layer.parameters());
  rank.publish("probabilities", results.probs);
  rank.publish("output", results.output);
  rank.publish("grad_input", results.grad_input);
  publish_gradients(rank, plan, layer);
}

std::unique_ptr<Case> moe_layer_case() { return std::make_unique<MoeLayerCase>(); }

}  // namespace verify
