#include <algorithm>
#include <fmt/format.h>

#include "sim/model/transformer_layer.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/dropout_masks.h"
#include "verify/cases/token_calls.h"
#include "verify/cases/token_layer.h"
#include "verify/reference/mlp.h"
#include "verify/reference/norm.h"
#include "verify/reference/self_attention.h"

namespace verify {

namespace {

/// The scale of the initial values. In bf16 the bound of an exponential is useful only if scores are small,
/// and a sum over many ranks is rounded often.
sim::Ratio scale_of(const CaseSetting& s) { return {1, std::max(4, s.group_size)}; }
/// The epsilon of the norms. It is large because 1 / sqrt of a small variance magnifies the variance's
/// rounding error.
sim::Ratio epsilon_of(const CaseSetting& s) { return {s.group_size, 4}; }

struct LayerSizes {
  std::int64_t sequence, batch, hidden, ffn, heads, groups, channels;
  explicit LayerSizes(const CaseSetting& s)
      : sequence(s.whole("sequence")),
        batch(s["batch"]),
        hidden(s["hidden"]),
        ffn(s.whole("ffn")),
        heads(s.whole("groups_a_rank") * s["queries"]),
        groups(s.whole("groups_a_rank")),
        channels(s["channels"]) {}
  std::int64_t tokens() const { return sequence * batch; }
  std::int64_t qkv() const { return (heads + 2 * groups) * channels; }
};

class TransformerCase : public CaseOf<TransformerCase> {
 public:
  std::string name() const override { return "transformer_layer"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "sequence", .least = 1, .most = 2, .is_a_rank = true},
            {"batch", 1, 2},
            {"hidden", 2, 5},
            {.name = "ffn", .least = 1, .most = 3, .is_a_rank = true},
            {.name = "queries", .least = 1, .most = 2, .at = at_scenario::queries},
            {"groups_a_rank", 1, 1},
            {"channels", 1, 3},
            {.name = "layer_norm", .least = 0, .most = 1, .at = at_scenario::layer_norm},
            {.name = "activation", .least = 0, .most = 2, .at = at_scenario::activation},
            {.name = "gated", .least = 0, .most = 1, .at = at_scenario::gated},
            {.name = "bias", .least = 0, .most = 2, .at = at_scenario::biases},
            {.name = "qk_layernorm", .least = 0, .most = 1, .at = at_scenario::qk_layernorm},
            {.name = "causal", .least = 0, .most = 1, .at = at_scenario::on},
            {.name = "window", .least = 0, .most = 2, .at = at_scenario::window},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel},
            {"dropout", 0, 2},
            {"pass", 0, 2}};
  }

  /// What is computed first comes first: a mistake shows in the tensors after it. The names of parameters
  /// stand for their gradients.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const Placement tokens = s["sequence_parallel"] == 1 ? Placement::rows : Placement::replicated;
    const int stride = s["gated"] == 1 ? 2 : 1;
    std::vector<CaseOutput> outputs = outputs_inside_attention(s, "self_attention.");
    for (CaseOutput& output : outputs_inside_mlp(s, "mlp.")) outputs.push_back(std::move(output));
    outputs.push_back({"output", tokens});
    const auto add = [&](bool has, const char* name, Placement placement, int blocks = 1) {
      if (has) outputs.push_back({name, placement, blocks});
    };
    const bool bias = s["bias"] == 1, norm_bias = s["layer_norm"] == 1;
    add(bias, "layer.mlp.linear_fc2.bias", Placement::replicated);
    add(true, "layer.mlp.linear_fc2.weight", Placement::columns);
    add(bias, "layer.mlp.linear_fc1.bias", Placement::columns, stride);
    add(true, "layer.mlp.linear_fc1.weight", Placement::rows, stride);
    add(norm_bias, "layer.pre_mlp_layernorm.bias", Placement::replicated);
    add(true, "layer.pre_mlp_layernorm.weight", Placement::replicated);
    add(bias, "layer.self_attention.linear_proj.bias", Placement::replicated);
    add(true, "layer.self_attention.linear_proj.weight", Placement::columns);
    const bool head_norms = s["qk_layernorm"] == 1;
    add(head_norms && norm_bias, "layer.self_attention.k_layernorm.bias", Placement::replicated);
    add(head_norms, "layer.self_attention.k_layernorm.weight", Placement::replicated);
    add(head_norms && norm_bias, "layer.self_attention.q_layernorm.bias", Placement::replicated);
    add(head_norms, "layer.self_attention.q_layernorm.weight", Placement::replicated);
    add(bias || s["bias"] == 2, "layer.self_attention.linear_qkv.bias", Placement::columns);
    add(true, "layer.self_attention.linear_qkv.weight", Placement::rows);
    add(norm_bias, "layer.input_layernorm.bias", Placement::replicated);
    add(true, "layer.input_layernorm.weight", Placement::replicated);
    outputs.push_back({"grad_input", tokens});
    return outputs;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const LayerSizes sizes(s);
    const bool sp = s["sequence_parallel"] == 1;
    const TokenCalls tokens{
        .all = sizes.tokens() * sizes.hidden, .tp = s.group_size, .sequence_parallel = sp};
    std::vector<ExpectedCall> expected;
    tokens.layer_forward(expected);
    tokens.layer_backward(expected);
    // The gradients that are summed over the ranks: with sequence parallelism those of two norms, and of the
    // biases of two row-parallel layers; always those of the norms of queries and keys, which lie in between.
    const std::int64_t of_norm = s["layer_norm"] == 1 ? 2 : 1, of_bias = s["bias"] == 1 ? 1 : 0;
    const auto sums = [&](std::int64_t parameters, std::int64_t elements) {
      for (std::int64_t i = 0; i < parameters; ++i) sequence_parallel_sum(elements, s.group_size, expected);
    };
    if (sp) sums(of_norm, sizes.hidden);
    if (s["qk_layernorm"] == 1) sums(2 * of_norm, sizes.channels);
    if (sp) sums(of_norm + 2 * of_bias, sizes.hidden);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const LayerSizes sizes(s);
    sim::TransformerLayer layer(
        rank,
        {.dtype = s.dtype,
         .hidden_size = sizes.hidden,
         .ffn_hidden_size = sizes.ffn,
         .num_attention_heads = sizes.heads,
         .num_query_groups = sizes.groups,
         .kv_channels = sizes.channels,
         .seq_length = sizes.sequence,
         .normalization = s["layer_norm"] == 1 ? sim::Norm::layer_norm : sim::Norm::rms_norm,
         .norm_epsilon = epsilon_of(s),
         .activation = static_cast<sim::Activation>(s["activation"]),
         .gated = s["gated"] == 1,
         .bias = s["bias"] == 1,
         .add_qkv_bias = s["bias"] == 2,
         .qk_layernorm = s["qk_layernorm"] == 1,
         .causal = s["causal"] == 1,
         .window = {.size = s["window"] - 1},
         .attention_dropout = dropout_of(s),
         .hidden_dropout = dropout_of(s),
         .sequence_parallel = s["sequence_parallel"] == 1,
         .initial = {scale_of(s)},
         .norm_initial = {scale_of(s)}},
        {.name = "layer"});
    run_token_layer(rank, s, layer, sizes.tokens(), sizes.hidden);
    for (const sim::Parameter* parameter : layer.parameters())
      rank.publish(parameter->name, parameter->main_grad);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const auto& number = inputs.number();
    const LayerSizes sizes(s);
    const reference::NormSetting norm{.is_layer_norm = s["layer_norm"] == 1,
                                      .epsilon_numerator = epsilon_of(s).numerator,
                                      .epsilon_denominator = epsilon_of(s).denominator};
    const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
      return inputs.parameter(fmt::format("layer.{}", name), rows, columns, scale_of(s));
    };
    const auto bias = [&](const char* name, std::int64_t size, bool has) {
      return has ? weight(name, 1, size) : Matrix();
    };
    const auto sum = [&](const Matrix& a, const Matrix& b) {
      return reference::matrix_of(number, a.rows(), a.cols(),
                                  [&](Eigen::Index i, Eigen::Index j) { return a(i, j) + b(i, j); });
    };
    const auto mask = [&](const char* name) {
      return mask_of_rows(inputs, s, fmt::format("layer.{}", name), sizes.tokens(), sizes.hidden,
                          s["sequence_parallel"] == 1);
    };
    const bool has_bias = s["bias"] == 1;
    const std::int64_t inside = s["gated"] == 1 ? 2 * sizes.ffn : sizes.ffn;
    const std::int64_t context = sizes.heads * sizes.channels;
    const Matrix x = inputs.matrix("input", sizes.tokens(), sizes.hidden);
    const Matrix grad = inputs.matrix("grad_output", sizes.tokens(), sizes.hidden);
    const Matrix w1 = weight("input_layernorm.weight", 1, sizes.hidden);
    const Matrix w2 = weight("pre_mlp_layernorm.weight", 1, sizes.hidden);
    const Matrix b1 = bias("input_layernorm.bias", sizes.hidden, norm.is_layer_norm);
    const Matrix b2 = bias("pre_mlp_layernorm.bias", sizes.hidden, norm.is_layer_norm);

    const bool has_head_norms = s["qk_layernorm"] == 1;
    const auto head_norm = [&](const std::string& name) -> reference::HeadNorm<Scalar> {
      return {bias((name + ".weight").c_str(), sizes.channels, has_head_norms),
              bias((name + ".bias").c_str(), sizes.channels, has_head_norms && norm.is_layer_norm)};
    };
    const reference::SelfAttention<Scalar> attention(
        number,
        {.sequence = sizes.sequence,
         .batch = sizes.batch,
         .heads = sizes.heads,
         .groups = sizes.groups,
         .channels = sizes.channels,
         .sight = {.causal = s["causal"] == 1, .window = s["window"] - 1},
         .norm = norm},
        {.qkv_weight = weight("self_attention.linear_qkv.weight", sizes.qkv(), sizes.hidden),
         .qkv_bias = bias("self_attention.linear_qkv.bias", sizes.qkv(), s["bias"] != 0),
         .proj_weight = weight("self_attention.linear_proj.weight", sizes.hidden, context),
         .proj_bias = bias("self_attention.linear_proj.bias", sizes.hidden, has_bias),
         .cosines = Matrix(),
         .sines = Matrix(),
         .dropout = mask_of_heads(inputs, s, "layer.self_attention.core_attention", sizes.batch, sizes.heads,
                                  sizes.sequence),
         .q_norm = head_norm("self_attention.q_layernorm"),
         .k_norm = head_norm("self_attention.k_layernorm")},
        reference::norm(number, x, w1, b1, norm));
    const Matrix attention_mask = mask("self_attn_bda"), mlp_mask = mask("mlp_bda");
    const Matrix middle = sum(x, reference::dropped(number, attention.output(), attention_mask));
    const reference::Mlp<Scalar> mlp(number, static_cast<reference::Activation>(s["activation"]),
                                     s["gated"] == 1,
                                     {.fc1_weight = weight("mlp.linear_fc1.weight", inside, sizes.hidden),
                                      .fc1_bias = bias("mlp.linear_fc1.bias", inside, has_bias),
                                      .fc2_weight = weight("mlp.linear_fc2.weight", sizes.hidden, sizes.ffn),
                                      .fc2_bias = bias("mlp.linear_fc2.bias", sizes.hidden, has_bias)},
                                     reference::norm(number, middle, w2, b2, norm));

    const auto of_mlp = mlp.gradients(reference::dropped(number, grad, mlp_mask));
    const auto of_norm2 = reference::norm_gradients(number, middle, w2, of_mlp.x, norm);
    const Matrix grad_middle = sum(grad, of_norm2.x);
    const auto of_attention = attention.gradients(reference::dropped(number, grad_middle, attention_mask));
    const auto of_norm1 = reference::norm_gradients(number, x, w1, of_attention.x, norm);
    return {{"self_attention.queries", attention.queries()},
            {"self_attention.probabilities", attention.probabilities()},
            {"self_attention.proj.input", attention.context()},
            {"mlp.fc1.output", mlp.fc1_output()},
            {"mlp.fc2.input", mlp.fc2_input()},
            {"output", sum(middle, reference::dropped(number, mlp.output(), mlp_mask))},
            {"grad_input", sum(grad_middle, of_norm1.x)},
            {"layer.input_layernorm.weight", of_norm1.weight},
            {"layer.input_layernorm.bias", of_norm1.bias},
            {"layer.self_attention.linear_qkv.weight", of_attention.qkv.weight},
            {"layer.self_attention.linear_qkv.bias", of_attention.qkv.bias},
            {"layer.self_attention.q_layernorm.weight", of_attention.q_norm.weight},
            {"layer.self_attention.q_layernorm.bias", of_attention.q_norm.bias},
            {"layer.self_attention.k_layernorm.weight", of_attention.k_norm.weight},
            {"layer.self_attention.k_layernorm.bias", of_attention.k_norm.bias},
            {"layer.self_attention.linear_proj.weight", of_attention.proj.weight},
            {"layer.self_attention.linear_proj.bias", of_attention.proj.bias},
            {"layer.pre_mlp_layernorm.weight", of_norm2.weight},
            {"layer.pre_mlp_layernorm.bias", of_norm2.bias},
            {"layer.mlp.linear_fc1.weight", of_mlp.fc1.weight},
            {"layer.mlp.linear_fc1.bias", of_mlp.fc1.bias},
            {"layer.mlp.linear_fc2.weight", of_mlp.fc2.weight},
            {"layer.mlp.linear_fc2.bias", of_mlp.fc2.bias}};
  }
};

}  // namespace

std::unique_ptr<Case> transformer_layer_case() { return std::make_unique<TransformerCase>(); }

}  // namespace verify
