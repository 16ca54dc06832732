#include <algorithm>
#include <cmath>

#include "sim/cpu/cpu_device.h"
#include "sim/model/self_attention.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/dropout_masks.h"
#include "verify/cases/rotary_table.h"
#include "verify/cases/scalars.h"
#include "verify/cases/token_calls.h"
#include "verify/cases/token_layer.h"
#include "verify/reference/self_attention.h"

namespace verify {

namespace {

using sim::Operation;

constexpr std::int64_t kBase = 100;
/// The scale of the initial values. In bf16 the bound of an exponential is useful only if scores are small.
constexpr sim::Ratio kScale = {1, 4};
/// The epsilon of the norms of queries and keys. It is large because 1 / sqrt of a small variance magnifies
/// the variance's rounding error.
constexpr sim::Ratio kEpsilon = {1, 4};

/// The sizes that follow from a setting.
struct Sizes {
  std::int64_t sequence, batch, hidden, heads, groups, channels;
  bool shares_groups;  // several ranks share a query group

  explicit Sizes(const CaseSetting& s)
      : sequence(s.whole("sequence")), batch(s["batch"]), hidden(s["hidden"]) {
    const std::int64_t ranks_a_group = s["ranks_a_group"];
    shares_groups = ranks_a_group > 1 && s.group_size % ranks_a_group == 0;
    groups = shares_groups ? s.group_size / ranks_a_group : s.group_size * s["groups_a_rank"];
    heads = shares_groups ? s.group_size * s["queries"] : groups * s["queries"];
    // Even, because of rotary positions. With shared groups, the outputs of linear_qkv must divide by tp.
    channels = 2 * s["half_channels"] * (shares_groups ? ranks_a_group : 1);
  }
  std::int64_t tokens() const { return sequence * batch; }
  std::int64_t qkv() const { return (heads + 2 * groups) * channels; }
};

/// Whether queries and keys have a LayerNorm, which has a bias.
bool is_layer_norm(const CaseSetting& s) { return s["head_norm"] == 2; }

/// The parameters of the norms of queries and keys, in the order of the layer.
std::vector<std::string> head_norms(const CaseSetting& s) {
  if (s["head_norm"] == 0) return {};
  if (!is_layer_norm(s)) return {"q_layernorm.weight", "k_layernorm.weight"};
  return {"q_layernorm.weight", "q_layernorm.bias", "k_layernorm.weight", "k_layernorm.bias"};
}

void publish_norm(sim::Rank& rank, const CaseSetting& s, const std::string& name, sim::ParallelNorm& norm) {
  rank.publish(name + ".weight_grad", norm.weight().main_grad);
  if (is_layer_norm(s)) rank.publish(name + ".bias_grad", norm.bias().main_grad);
}

class AttentionCase : public CaseOf<AttentionCase> {
 public:
  std::string name() const override { return "self_attention"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "sequence", .least = 1, .most = 3, .is_a_rank = true},
            {"batch", 1, 2},
            {"hidden", 1, 5},
            {.name = "queries", .least = 1, .most = 2, .at = at_scenario::queries},
            {"groups_a_rank", 1, 2},
            {.name = "ranks_a_group",
             .least = 1,
             .most = 3,
             .at = at_scenario::ranks_a_group,
             .is_an_axis = true},
            {"half_channels", 1, 2},
            {.name = "rotary", .least = 0, .most = 1, .at = at_scenario::rotary},
            {.name = "causal", .least = 0, .most = 1, .at = at_scenario::on},
            {.name = "window", .least = 0, .most = 2, .at = at_scenario::window},
            {.name = "bias", .least = 0, .most = 2, .at = at_scenario::biases},
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
    if (s["bias"] == 1) outputs.push_back({"proj.bias_grad", Placement::replicated});
    outputs.push_back({"proj.weight_grad", Placement::columns});
    for (const std::string& name : head_norms(s)) outputs.push_back({name + "_grad", Placement::replicated});
    if (s["bias"] != 0) outputs.push_back({"qkv.bias_grad", Placement::columns});
    outputs.push_back({"qkv.weight_grad", Placement::rows});
    outputs.push_back({"grad_input", tokens});
    return outputs;
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const Sizes sizes(s);
    const std::int64_t gathered = sizes.tokens() * sizes.qkv() / s.group_size;
    const bool sp = s["sequence_parallel"] == 1;
    const TokenCalls tokens{
        .all = sizes.tokens() * sizes.hidden, .tp = s.group_size, .sequence_parallel = sp};
    std::vector<ExpectedCall> expected;
    const auto of_shared_groups = [&](Operation operation) {
      if (sizes.shares_groups) expected.push_back({"self_attention.gather_qkv", operation, gathered});
    };
    tokens.column_forward(expected);
    of_shared_groups(Operation::all_gather);
    tokens.row_forward(expected);
    tokens.row_backward(expected);
    of_shared_groups(Operation::reduce_scatter);
    tokens.column_backward(expected);
    for (std::size_t i = 0; i < head_norms(s).size(); ++i)
      sequence_parallel_sum(sizes.channels, s.group_size, expected);
    if (sp && s["bias"] == 1) sequence_parallel_sum(sizes.hidden, s.group_size, expected);
    return expected;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const Sizes sizes(s);
    sim::SelfAttention layer(rank,
                             {.dtype = s.dtype,
                              .hidden_size = sizes.hidden,
                              .num_attention_heads = sizes.heads,
                              .num_query_groups = sizes.groups,
                              .kv_channels = sizes.channels,
                              .seq_length = sizes.sequence,
                              .rotary_base = s["rotary"] == 1 ? kBase : 0,
                              .normalization = is_layer_norm(s) ? sim::Norm::layer_norm : sim::Norm::rms_norm,
                              .norm_epsilon = kEpsilon,
                              .bias = s["bias"] == 1,
                              .add_qkv_bias = s["bias"] == 2,
                              .qk_layernorm = s["head_norm"] != 0,
                              .causal = s["causal"] == 1,
                              .window = {.size = s["window"] - 1},
                              .attention_dropout = dropout_of(s),
                              .sequence_parallel = s["sequence_parallel"] == 1,
                              .initial = {kScale},
                              .norm_initial = {kScale}},
                             {.name = "attention"});
    run_token_layer(rank, s, layer, sizes.tokens(), sizes.hidden);
    rank.publish("qkv.weight_grad", layer.linear_qkv().weight().main_grad);
    rank.publish("proj.weight_grad", layer.linear_proj().weight().main_grad);
    if (s["head_norm"] != 0) {
      publish_norm(rank, s, "q_layernorm", *layer.q_layernorm());
      publish_norm(rank, s, "k_layernorm", *layer.k_layernorm());
    }
    if (s["bias"] == 0) return;
    rank.publish("qkv.bias_grad", layer.linear_qkv().bias().main_grad);
    if (s["bias"] == 1) rank.publish("proj.bias_grad", layer.linear_proj().bias().main_grad);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const Sizes sizes(s);
    const std::int64_t inside = sizes.heads * sizes.channels;
    const auto bias = [&](const char* name, std::int64_t size, bool has) {
      return has ? inputs.parameter(name, 1, size, kScale) : Matrix();
    };
    const auto norm = [&](const std::string& name) -> reference::HeadNorm<Scalar> {
      return {bias((name + ".weight").c_str(), sizes.channels, s["head_norm"] != 0),
              bias((name + ".bias").c_str(), sizes.channels, is_layer_norm(s))};
    };
    const auto table = [&](bool is_sine) {
      return s["rotary"] == 1 ? rotary_table(inputs.number(), sizes.sequence, sizes.channels, kBase, is_sine)
                              : Matrix();
    };
    const reference::SelfAttention<Scalar> layer(
        inputs.number(),
        {.sequence = sizes.sequence,
         .batch = sizes.batch,
         .heads = sizes.heads,
         .groups = sizes.groups,
         .channels = sizes.channels,
         .sight = {.causal = s["causal"] == 1, .window = s["window"] - 1},
         .norm = {.is_layer_norm = is_layer_norm(s),
                  .epsilon_numerator = kEpsilon.numerator,
                  .epsilon_denominator = kEpsilon.denominator}},
        {.qkv_weight = inputs.parameter("attention.linear_qkv.weight", sizes.qkv(), sizes.hidden, kScale),
         .qkv_bias = bias("attention.linear_qkv.bias", sizes.qkv(), s["bias"] != 0),
         .proj_weight = inputs.parameter("attention.linear_proj.weight", sizes.hidden, inside, kScale),
         .proj_bias = bias("attention.linear_proj.bias", sizes.hidden, s["bias"] == 1),
         .cosines = table(false),
         .sines = table(true),
         .dropout =
             mask_of_heads(inputs, s, "attention.core_attention", sizes.batch, sizes.heads, sizes.sequence),
         .q_norm = norm("attention.q_layernorm"),
         .k_norm = norm("attention.k_layernorm")},
        inputs.matrix("input", sizes.tokens(), sizes.hidden));
    const auto gradients = layer.gradients(inputs.matrix("grad_output", sizes.tokens(), sizes.hidden));
    return {{"queries", layer.queries()},
            {"probabilities", layer.probabilities()},
            {"proj.input", layer.context()},
            {"output", layer.output()},
            {"grad_input", gradients.x},
            {"qkv.weight_grad", gradients.qkv.weight},
            {"qkv.bias_grad", gradients.qkv.bias},
            {"proj.weight_grad", gradients.proj.weight},
            {"proj.bias_grad", gradients.proj.bias},
            {"q_layernorm.weight_grad", gradients.q_norm.weight},
            {"q_layernorm.bias_grad", gradients.q_norm.bias},
            {"k_layernorm.weight_grad", gradients.k_norm.weight},
            {"k_layernorm.bias_grad", gradients.k_norm.bias}};
  }
};

}  // namespace

std::unique_ptr<Case> self_attention_case() { return std::make_unique<AttentionCase>(); }

}  // namespace verify
