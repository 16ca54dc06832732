#include "verify/cases/latent_attention_case.h"

#include <map>

#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/dropout_masks.h"
#include "verify/cases/latent_layer.h"
#include "verify/cases/rotary_table.h"
#include "verify/cases/token_layer.h"
#include "verify/reference/latent_attention.h"

namespace verify {

namespace {

constexpr std::int64_t kBaseOfLatent = 100;
/// The scale of the initial values, which keeps scores small (attention_case.cpp).
constexpr sim::Ratio kScaleOfLatent = {1, 4};
/// The epsilon of the norms of latent states, which is large as that of attention_case.cpp is.
constexpr sim::Ratio kEpsilonOfLatent = {1, 4};

/// The sizes that follow from a setting.
struct LatentCaseSizes {
  std::int64_t sequence, batch, hidden, heads;
  sim::LatentSizes latent;

  explicit LatentCaseSizes(const CaseSetting& s)
      : sequence(s.whole("sequence")),
        batch(s["batch"]),
        hidden(s["hidden"]),
        heads(s.group_size * s["heads_a_rank"]),
        latent{.q_lora_rank = s["q_lora_rank"],
               .kv_lora_rank = s["kv_lora_rank"],
               .qk_head_dim = s["content"],
               .qk_pos_emb_head_dim = 2 * s["half_positions"],
               .v_head_dim = s["values"],
               .rotary_base = kBaseOfLatent} {}
  std::int64_t tokens() const { return sequence * batch; }
};

bool has_layer_norm(const CaseSetting& s) { return s["head_norm"] == 2; }

LatentLayer layer_of(const CaseSetting& s) {
  const LatentCaseSizes sizes(s);
  return {.sizes = sizes.latent,
          .hidden = sizes.hidden,
          .heads = sizes.heads,
          .has_norms = s["head_norm"] != 0,
          .is_layer_norm = has_layer_norm(s),
          .has_bias = s["bias"] == 1};
}

class LatentAttentionCase : public CaseOf<LatentAttentionCase> {
 public:
  std::string name() const override { return "multi_latent_attention"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "sequence", .least = 1, .most = 3, .is_a_rank = true},
            {"batch", 1, 2},
            {"hidden", 1, 5},
            {"heads_a_rank", 1, 2},
            {"q_lora_rank", 0, 3},
            {"kv_lora_rank", 1, 3},
            {"content", 1, 3},
            {"half_positions", 1, 2},
            {"values", 1, 3},
            {.name = "causal", .least = 0, .most = 1, .at = at_scenario::on},
            {.name = "bias", .least = 0, .most = 1, .at = at_scenario::bias},
            {.name = "head_norm", .least = 0, .most = 2, .at = at_scenario::head_norm},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel},
            {"dropout", 0, 2},
            {"pass", 0, 2}};
  }

  /// What is computed first comes first: a mistake shows in the tensors after it.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const Placement tokens = s["sequence_parallel"] == 1 ? Placement::rows : Placement::replicated;
    std::vector<CaseOutput> outputs = outputs_inside_attention(s);
    outputs.push_back({"output", tokens});
    std::vector<LatentParameter> parameters = latent_parameters(layer_of(s));
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter)
      outputs.push_back({parameter->name + "_grad", parameter->placement});
    outputs.push_back({"grad_input", tokens});
    return outputs;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const LatentCaseSizes sizes(s);
    const bool sp = s["sequence_parallel"] == 1;
    const LatentCalls latent{.tokens = sizes.tokens(),
                             .hidden = sizes.hidden,
                             .sizes = sizes.latent,
                             .tp = s.group_size,
                             .sequence_parallel = sp};
    std::vector<ExpectedCall> expected;
    latent.forward_to_heads(expected);
    latent.of_output().row_forward(expected);
    latent.of_output().row_backward(expected);
    latent.backward_from_heads(expected);
    for (const LatentParameter& parameter : latent_parameters(layer_of(s))) {
      if (sp && parameter.placement == Placement::replicated)
        sequence_parallel_sum(parameter.rows * parameter.columns, s.group_size, expected);
    }
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override { run_latent_attention(rank, s); }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const LatentCaseSizes sizes(s);
    std::map<std::string, Matrix> weights;
    for (const LatentParameter& parameter : latent_parameters(layer_of(s)))
      weights[parameter.name] =
          inputs.parameter("attention." + parameter.name, parameter.rows, parameter.columns, kScaleOfLatent);
    const auto weight = [&](const std::string& name) -> Matrix {
      const auto found = weights.find(name);
      return found == weights.end() ? Matrix() : found->second;
    };
    const auto table = [&](bool is_sine) {
      return rotary_table(inputs.number(), sizes.sequence, sizes.latent.qk_pos_emb_head_dim, kBaseOfLatent,
                          is_sine);
    };
    const std::string query = sizes.latent.q_lora_rank > 0 ? "linear_q_up_proj" : "linear_q_proj";
    const reference::LatentAttention<Scalar> layer(
        inputs.number(),
        {.sequence = sizes.sequence,
         .batch = sizes.batch,
         .heads = sizes.heads,
         .content = sizes.latent.qk_head_dim,
         .positions = sizes.latent.qk_pos_emb_head_dim,
         .values = sizes.latent.v_head_dim,
         .causal = s["causal"] == 1,
         .norm = {.is_layer_norm = has_layer_norm(s),
                  .epsilon_numerator = kEpsilonOfLatent.numerator,
                  .epsilon_denominator = kEpsilonOfLatent.denominator}},
        {.q_down = weight("linear_q_down_proj.weight"),
         .q_up = weight(query + ".weight"),
         .kv_down = weight("linear_kv_down_proj.weight"),
         .kv_up = weight("linear_kv_up_proj.weight"),
         .proj = weight("linear_proj.weight"),
         .proj_bias = weight("linear_proj.bias"),
         .cosines = table(false),
         .sines = table(true),
         .dropout =
             mask_of_heads(inputs, s, "attention.core_attention", sizes.batch, sizes.heads, sizes.sequence),
         .q_norm = {weight("q_layernorm.weight"), weight("q_layernorm.bias")},
         .kv_norm = {weight("kv_layernorm.weight"), weight("kv_layernorm.bias")}},
        inputs.matrix("input", sizes.tokens(), sizes.hidden));
    const auto gradients = layer.gradients(inputs.matrix("grad_output", sizes.tokens(), sizes.hidden));
    Wholes<Scalar> wholes;
    wholes["queries"] = layer.queries();
    wholes["probabilities"] = layer.probabilities();
    wholes["proj.input"] = layer.context();
    wholes["output"] = layer.output();
    wholes["grad_input"] = gradients.x;
    wholes[query + ".weight_grad"] = gradients.q_up.weight;
    wholes["linear_kv_down_proj.weight_grad"] = gradients.kv_down.weight;
    wholes["linear_kv_up_proj.weight_grad"] = gradients.kv_up.weight;
    wholes["linear_proj.weight_grad"] = gradients.proj.weight;
    if (s["bias"] == 1) wholes["linear_proj.bias_grad"] = gradients.proj.bias;
    const auto take_norm = [&](const std::string& name, const reference::HeadNorm<Scalar>& norm) {
      if (s["head_norm"] != 0) wholes[name + ".weight_grad"] = norm.weight;
      if (has_layer_norm(s)) wholes[name + ".bias_grad"] = norm.bias;
    };
    take_norm("kv_layernorm", gradients.kv_norm);
    if (sizes.latent.q_lora_rank == 0) return wholes;
    wholes["linear_q_down_proj.weight_grad"] = gradients.q_down.weight;
    take_norm("q_layernorm", gradients.q_norm);
    return wholes;
  }
};

sim::GptConfig config_of(const CaseSetting& s, const LatentCaseSizes& sizes) {
  return {.dtype = s.dtype,
          .hidden_size = sizes.hidden,
          .num_attention_heads = sizes.heads,
          .seq_length = sizes.sequence,
          .normalization = has_layer_norm(s) ? sim::Norm::layer_norm : sim::Norm::rms_norm,
          .norm_epsilon = kEpsilonOfLatent,
          .bias = s["bias"] == 1,
          .qk_layernorm = s["head_norm"] != 0,
          .causal = s["causal"] == 1,
          .attention_dropout = dropout_of(s),
          .latent = sizes.latent,
          .sequence_parallel = s["sequence_parallel"] == 1,
          .initial = {kScaleOfLatent},
          .norm_initial = {kScaleOfLatent}};
}

}  // namespace

void run_latent_attention(sim::Rank& rank, const CaseSetting& s, const LatentHooks& hooks) {
  const LatentCaseSizes sizes(s);
  const sim::GptConfig config = config_of(s, sizes);
  sim::MultiLatentAttention layer(rank, config, {.name = "attention"});
  if (hooks.made) hooks.made(layer);
  run_token_layer(rank, s, layer, sizes.tokens(), sizes.hidden);
  if (hooks.after) hooks.after(layer);
  constexpr std::size_t kPrefix = sizeof("attention.") - 1;
  for (const sim::Parameter* parameter : layer.parameters())
    rank.publish(parameter->name.substr(kPrefix) + "_grad", parameter->main_grad);
}

std::unique_ptr<Case> multi_latent_attention_case() { return std::make_unique<LatentAttentionCase>(); }

}  // namespace verify
