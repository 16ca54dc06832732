#include "verify/megatron_rules/effective_values.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/layer_placement.h"
#include "verify/vocabulary/batch_schedule.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/floored.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/layout_list.h"
#include "verify/vocabulary/padded_vocabulary.h"
#include "verify/vocabulary/pipeline_chunks.h"
#include "verify/vocabulary/state_bytes.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;

Json json_of(Number number) { return number ? Json(*number) : Json(); }
Json json_of(const std::string& text) { return text.empty() ? Json() : Json(text); }

class Effective {
 public:
  Effective(const RunValues& values, Number world) : v_(values), world_(world) {}
  Json document();

 private:
  Number number(const char* name) const { return v_.number(name); }
  Number number(const char* name, const Number& fallback) const {
    const Number given = v_.number(name);
    return given.has_value() ? given : fallback;
  }
  bool flag(const char* name) const { return v_.flag(name); }

  void grid();
  void layers();
  void shape();
  void batch();
  void dtypes();
  void recomputation();
  void optimizer();
  std::string cuda_graph() const;
  void experts();
  void attention();
  std::optional<sim::LayerPlacement> placement(Number chunks) const;
  Json layers_per_stage() const;
  std::string hybrid_pattern() const;
  Number scheduled_batch(Number global) const;

  const RunValues& v_;
  Number world_;
  Json out_ = Json::object();
  Number tp_, pp_, cp_, ep_, etp_, gtp_, dp_, vpp_, layers_;
};

void Effective::grid() {
  tp_ = number("tensor-model-parallel-size", 1);
  pp_ = number("pipeline-model-parallel-size", 1);
  cp_ = number("context-parallel-size", 1);
  ep_ = number("expert-model-parallel-size", 1);
  etp_ = number("expert-tensor-parallel-size", tp_);
  gtp_ = floored(number("tensor-parallel-num-weight-shards", tp_), tp_);
  const Number egtp = floored(number("expert-tensor-parallel-num-weight-shards", etp_), etp_);
  dp_ = floored(world_, product_of({tp_, pp_, cp_, gtp_}));
  out_["dp"] = json_of(dp_);
  out_["tp"] = json_of(tp_);
  out_["pp"] = json_of(pp_);
  out_["cp"] = json_of(cp_);
  out_["ep"] = json_of(ep_);
  out_["etp"] = json_of(etp_);
  out_["edp"] = json_of(floored(world_, product_of({etp_, ep_, pp_, egtp})));
  vpp_ = chunks_of_rank(v_);
  out_["vpp"] = json_of(vpp_);
  out_["gtp"] = json_of(gtp_);
  out_["egtp"] = json_of(egtp);
}

std::string Effective::hybrid_pattern() const {
  return v_.text("hybrid-layer-pattern", v_.text("hybrid-override-pattern"));
}

/// The placement of transformer layers; nothing where it is refused.
std::optional<sim::LayerPlacement> Effective::placement(Number chunks) const {
  const Number layers = number("num-layers", number("encoder-num-layers"));
  if (!layers || !pp_ || *layers < 1 || *pp_ < 1 || !hybrid_pattern().empty()) return std::nullopt;
  sim::LayerRequest request{
      .num_layers = *layers,
      .pipeline_model_parallel_size = *pp_,
      .virtual_pipeline_model_parallel_size = chunks,
      .num_layers_in_first_pipeline_stage = number("decoder-first-pipeline-num-layers"),
      .num_layers_in_last_pipeline_stage = number("decoder-last-pipeline-num-layers"),
      .account_for_embedding_in_pipeline_split = flag("account-for-embedding-in-pipeline-split"),
      .account_for_loss_in_pipeline_split = flag("account-for-loss-in-pipeline-split"),
      .pipeline_model_parallel_layout = {},
      .mtp_num_layers = number("mtp-num-layers").value_or(0)};
  try {
    if (v_.has("pipeline-model-parallel-layout"))
      request.pipeline_model_parallel_layout = layout_string(v_.text("pipeline-model-parallel-layout"));
    return sim::place_layers(request);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

Json Effective::layers_per_stage() const {
  if (!hybrid_pattern().empty()) {
    const auto ranks = layers_of_ranks(
        parse_hybrid_pattern(hybrid_pattern()), pp_.value_or(1),
        {number("decoder-first-pipeline-num-layers"), number("decoder-last-pipeline-num-layers")});
    Json list = Json::array();
    for (const std::vector<std::int64_t>& chunks : ranks) list.push_back(Json(chunks));
    return list.empty() ? Json() : list;
  }
  const bool is_spelled_out = v_.has("pipeline-model-parallel-layout");
  const auto placement = this->placement(is_spelled_out ? std::nullopt : vpp_);
  if (!placement) return {};
  Json ranks = Json::array();
  for (const auto& stages : placement->stages) {
    Json chunks = Json::array();
    for (const sim::StageLayers& stage : stages) chunks.push_back(stage.count);
    ranks.push_back(std::move(chunks));
  }
  return ranks;
}

void Effective::layers() {
  layers_ = number("num-layers", number("encoder-num-layers"));
  if (const std::string pattern = hybrid_pattern(); !pattern.empty()) {
    layers_ = parse_hybrid_pattern(pattern).layers();
  }
  out_["num_layers"] = json_of(layers_);
  out_["layers_per_stage"] = layers_per_stage();
}

void Effective::shape() {
  const Number hidden = number("hidden-size"), heads = number("num-attention-heads");
  const bool is_gated = flag("swiglu");
  Number ffn = number("ffn-hidden-size");
  if (!ffn && hidden) {
    constexpr std::int64_t kMultiple = 64;
    const double two_thirds = static_cast<double>(*hidden) * 4 * 2 / 3;
    ffn = is_gated ? static_cast<std::int64_t>(two_thirds / kMultiple) * kMultiple : *hidden * 4;
  }
  out_["hidden_size"] = json_of(hidden);
  out_["num_attention_heads"] = json_of(heads);
  out_["ffn_hidden_size"] = json_of(ffn);
  out_["kv_channels"] = json_of(number("kv-channels", floored(hidden, heads)));
  out_["num_query_groups"] = json_of(flag("group-query-attention") ? number("num-query-groups", 1) : heads);
  out_["seq_length"] = json_of(number("seq-length", number("encoder-seq-length")));
  out_["max_position_embeddings"] = json_of(number("max-position-embeddings"));
  Number vocabulary = number("padded-vocab-size");
  if (!vocabulary || *vocabulary == 0) {
    const Number given = number("vocab-size");
    const Number divisor = number("make-vocab-size-divisible-by", kVocabularyDivisor);
    vocabulary = given && tp_ ? padded_vocabulary(*given, *tp_, *divisor) : std::nullopt;
  }
  out_["padded_vocab_size"] = json_of(vocabulary);
  out_["moe_ffn_hidden_size"] =
      number("num-experts", 0) == std::int64_t{0} ? Json() : json_of(number("moe-ffn-hidden-size", ffn));
}

/// The batch with which --step-batch-size-schedule begins, or else the global batch.
Number Effective::scheduled_batch(Number global) const {
  if (!v_.has("step-batch-size-schedule")) return global;
  const auto schedule = parse_batch_schedule(v_.text("step-batch-size-schedule"),
                                             number("seq-length", number("encoder-seq-length")));
  return schedule.steps.empty() ? std::nullopt : Number(schedule.steps.front().size);
}

void Effective::batch() {
  const Number micro = number("micro-batch-size");
  const Number global = number("global-batch-size", product_of({micro, dp_}));
  out_["micro_batch_size"] = json_of(micro);
  out_["global_batch_size"] = json_of(global);
  out_["num_microbatches"] = json_of(floored(scheduled_batch(global), product_of({micro, dp_, gtp_})));
  out_["sequence_parallel"] = flag("sequence-parallel") && tp_.value_or(1) > 1;
}

std::string dtype_name(const std::string& word) {
  if (word.starts_with("torch.")) return word.substr(6);
  if (word == "fp32") return "float32";
  if (word == "bf16") return "bfloat16";
  return word == "fp16" ? "float16" : word;
}

void Effective::dtypes() {
  const std::string params = flag("bf16") ? "bfloat16" : flag("fp16") ? "float16" : "float32";
  const std::string main_grads = dtype_name(v_.text("main-grads-dtype", "fp32"));
  const bool reduces_in_fp32 =
      verify::reduces_in_fp32(main_grads == "float32", [&](const char* name) { return flag(name); });
  out_["params_dtype"] = params;
  out_["pipeline_dtype"] = flag("fp32-residual-connection") ? std::string("float32") : params;
  out_["accumulate_allreduce_grads_in_fp32"] = reduces_in_fp32;
  out_["ddp_grad_reduce_in_fp32"] = reduces_in_fp32 && !flag("use-torch-fsdp2");
  out_["main_grads_dtype"] = main_grads;
}

void Effective::recomputation() {
  std::string granularity = v_.text("recompute-granularity");
  if (flag("recompute-activations")) granularity = "selective";
  std::vector<std::string> modules;
  for (const std::string& word : v_.words("recompute-modules")) {
    const bool is_bracketed = word.starts_with('[') && word.ends_with(']');
    std::string text = is_bracketed ? word.substr(1, word.size() - 2) : word;
    std::replace(text.begin(), text.end(), ',', ' ');
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      if (end > 0) modules.push_back(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  if (modules.empty()) modules = {"core_attn"};
  if (flag("moe-layer-recompute")) {
    granularity = "selective";
    if (std::find(modules.begin(), modules.end(), "moe") == modules.end()) modules.emplace_back("moe");
  }
  std::sort(modules.begin(), modules.end());
  out_["recompute_granularity"] = json_of(granularity);
  out_["recompute_method"] = json_of(v_.text("recompute-method"));
  out_["recompute_num_layers"] = json_of(number("recompute-num-layers"));
  out_["recompute_modules"] = Json(modules);
  out_["distribute_saved_activations"] = flag("distribute-saved-activations");
}

void Effective::optimizer() {
  const std::string name = v_.text("optimizer", "adam");
  bool is_distributed = flag("use-distributed-optimizer"), is_layer_wise = name == "dist_muon";
  if (is_distributed && name != "adam" && name != "sgd") {
    is_distributed = false;
    is_layer_wise = true;
  }
  if (flag("use-megatron-fsdp") && v_.number("megatron-fsdp-version") != std::int64_t{2})
    is_distributed = true;
  if (flag("freeze-all-layers")) is_distributed = false;
  const bool overlaps_p2p = vpp_ && !flag("no-overlap-p2p-communication");
  out_["use_distributed_optimizer"] = is_distributed;
  out_["use_layer_wise_distributed_optimizer"] = is_layer_wise;
  out_["num_distributed_optimizer_instances"] = json_of(number("num-distributed-optimizer-instances", 1));
  out_["use_megatron_fsdp"] = flag("use-megatron-fsdp");
  out_["use_torch_fsdp2"] = flag("use-torch-fsdp2");
  out_["overlap_grad_reduce"] = flag("overlap-grad-reduce");
  out_["overlap_param_gather"] = flag("overlap-param-gather") && !flag("freeze-all-layers");
  out_["align_param_gather"] = vpp_.has_value();
  out_["overlap_p2p_comm"] = overlaps_p2p;
  out_["batch_p2p_comm"] = !overlaps_p2p;
  out_["microbatch_group_size_per_vp_stage"] =
      json_of(number("microbatch-group-size-per-virtual-pipeline-stage", pp_));
  out_["use_gloo_process_groups"] = !flag("disable-gloo-process-groups") && !flag("fake-process-group");
  out_["check_for_nan_in_loss_and_grad"] = !flag("no-check-for-nan-in-loss-and-grad") &&
                                           !(flag("fp16") && !v_.has("loss-scale")) &&
                                           !flag("fake-process-group");
  out_["cuda_graph_impl"] = cuda_graph();
}

/// The older arguments, where the newer one is not given. The older module full_iteration stands for the
/// implementation of this name, beside every other but that of Transformer Engine, which is refused.
std::string Effective::cuda_graph() const {
  const std::string older = flag("external-cuda-graph") ? "transformer_engine"
                            : flag("enable-cuda-graph") ? "local"
                                                        : "none";
  const std::string graph = v_.text("cuda-graph-impl", older);
  const auto names_whole = [&](const char* name) {
    const std::vector<std::string> words = v_.words(name);
    return std::ranges::find(words, "full_iteration") != words.end();
  };
  const bool is_whole = names_whole("cuda-graph-scope") || names_whole("cuda-graph-modules");
  return is_whole && graph != "transformer_engine" ? "full_iteration" : graph;
}

void Effective::experts() {
  const Number experts = number("num-experts");
  const auto capacity = decimal_number(v_.text("moe-expert-capacity-factor"));
  out_["num_experts"] = experts == std::int64_t{0} ? Json() : json_of(experts);
  out_["moe_router_topk"] = json_of(number("moe-router-topk", 2));
  out_["moe_token_dispatcher_type"] = v_.text("moe-token-dispatcher-type", "allgather");
  out_["moe_expert_capacity_factor"] = capacity && *capacity >= 0 ? Json(*capacity) : Json();
  out_["moe_router_num_groups"] = json_of(number("moe-router-num-groups"));
  out_["moe_router_group_topk"] = json_of(number("moe-router-group-topk"));
  out_["moe_shared_expert_intermediate_size"] = json_of(number("moe-shared-expert-intermediate-size"));
}

void Effective::attention() {
  const bool has_bias = !flag("disable-bias-linear");
  std::string positions = v_.text("position-embedding-type", "learned_absolute");
  if (flag("use-rotary-position-embeddings")) positions = "rope";
  const std::int64_t mtp = std::ssize(parse_hybrid_pattern(hybrid_pattern()).predictions);
  out_["untie_embeddings_and_output_weights"] = flag("untie-embeddings-and-output-weights");
  out_["position_embedding_type"] = positions;
  out_["swiglu"] = flag("swiglu");
  out_["gated_linear_unit"] = flag("swiglu") || flag("quick-geglu");
  out_["add_bias_linear"] = has_bias;
  out_["add_qkv_bias"] = has_bias || flag("add-qkv-bias");
  out_["mtp_num_layers"] = json_of(mtp > 0 ? Number(mtp) : number("mtp-num-layers"));
  out_["multi_latent_attention"] = flag("multi-latent-attention");
  const std::vector<std::string> types = v_.words("cp-comm-type");
  out_["cp_comm_type"] = types.size() > 1 ? Json(types) : Json(types.empty() ? "p2p" : types.front());
  std::vector<std::int64_t> levels;
  for (const std::string& word : v_.words("hierarchical-context-parallel-sizes")) {
    std::string text = word;
    std::replace(text.begin(), text.end(), ',', ' ');
    for (; !text.empty(); text.erase(0, std::min(text.find(' '), text.size() - 1) + 1))
      if (const auto level = whole_number(text.substr(0, text.find(' ')))) levels.push_back(*level);
  }
  out_["hierarchical_context_parallel_sizes"] = levels.empty() ? Json() : Json(levels);
  out_["attention_softmax_in_fp32"] =
      flag("attention-softmax-in-fp32") || flag("apply-query-key-layer-scaling");
  out_["bias_gelu_fusion"] = has_bias && !flag("no-bias-gelu-fusion");
  out_["apply_rope_fusion"] = positions == "rope" && !flag("no-rope-fusion");
}

Json Effective::document() {
  grid();
  layers();
  shape();
  batch();
  dtypes();
  recomputation();
  optimizer();
  experts();
  attention();
  return std::move(out_);
}

}  // namespace

Json effective_values(const RunValues& values, std::optional<std::int64_t> world_size) {
  return Effective(values, world_size).document();
}

bool gathers_tokens(std::string cp_comm_type) {
  std::erase(cp_comm_type, '_');
  for (char& letter : cp_comm_type)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return cp_comm_type == "allgather";
}

}  // namespace verify
