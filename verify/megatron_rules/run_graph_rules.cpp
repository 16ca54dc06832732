#include <algorithm>
#include <iterator>

#include "sim/base/error.h"
#include "verify/megatron_rules/run_rule.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify {

namespace {

constexpr const char* kGraph = "cuda-graph-impl";
constexpr const char* kGraphModules = "cuda-graph-modules";
constexpr const char* kRecomputeGranularity = "recompute-granularity";
constexpr const char* kExpertOverlap = "overlap-moe-expert-parallel-comm";
constexpr const char* kDelay = "delay-wgrad-compute";
constexpr const char* kRecomputed = "recompute-modules";

bool has_graph(const JudgedRun& r, std::string_view graph) {
  return r.derived_text("cuda_graph_impl") == graph;
}
bool has_any_graph(const JudgedRun& r) { return !has_graph(r, "none"); }
bool captures(const JudgedRun& r, const char* module) {
  const bool is_router = std::string_view(module).starts_with("moe_");
  if (captures_module(r, module)) return true;
  return is_router && has_graph(r, "local") &&
         (captures_module(r, "moe_router") || captures_module(r, "moe_preprocess"));
}
bool captures_layers_whole(const JudgedRun& r) {
  return has_graph(r, "full_iteration") || captured_modules(r).empty();
}
bool has_many_experts(const JudgedRun& r) { return r.number("num-experts", 0) > 1; }

/// Whether tokens are dropped and padded, so that experts always get as many.
bool pads_to_capacity(const JudgedRun& r) {
  return !r.is_absent("moe_expert_capacity_factor") && r.flag("moe-pad-expert-input-to-capacity");
}

bool have_all_layers_experts(const JudgedRun& r) {
  try {
    return has_many_experts(r) && !leaves_dense_layers(parse_layer_pattern(r.text("moe-layer-freq", "1")));
  } catch (const sim::Error&) {
    return false;  // another rule's
  }
}

bool names_two_graphs(const JudgedRun& r) {
  const bool is_newer = r.has(kGraph) && !r.is(kGraph, "none");
  return int{is_newer} + int{r.flag("enable-cuda-graph")} + int{r.flag("external-cuda-graph")} > 1;
}

bool has_unknown_graph_module(const JudgedRun& r) {
  static constexpr std::string_view kKnown[] = {"attn",
                                                "mlp",
                                                "moe",
                                                "moe_router",
                                                "moe_preprocess",
                                                "mamba",
                                                "full",
                                                "full_iteration",
                                                "full_iteration_inference"};
  const auto is_unknown = [](const std::string& one) {
    return std::ranges::find(kKnown, one) == std::end(kKnown);
  };
  return std::ranges::any_of(r.list(kGraphModules), is_unknown) ||
         std::ranges::any_of(r.list("cuda-graph-scope"), is_unknown);
}

/// Whether weight gradients are delayed, and beside an overlapped reduction, inside of a graph.
bool delays_in_a_graph(const JudgedRun& r) {
  const bool has_shared =
      r.has("moe-shared-expert-intermediate-size") && !r.flag("moe-shared-expert-overlap");
  return r.flag(kDelay) && r.flag("overlap-grad-reduce") &&
         (captures_module(r, "attn") || (captures_module(r, "moe_router") && has_shared));
}

/// Whether a module that is recomputed inside of a graph draws random numbers.
bool drops_in_a_graph(const JudgedRun& r, const char* dropout, const char* captured, const char* recomputed) {
  const bool is_captured = captures_layers_whole(r) || captures(r, captured);
  return has_any_graph(r) && r.derived_text("recompute_granularity") == "selective" &&
         r.recomputes(recomputed) && is_captured && r.decimal(dropout).value_or(0.1) != 0.0;
}

}  // namespace

/// The rules about CUDA graphs.
std::vector<RunRule> run_graph_rules() {
  return {
      {"full_iteration_nan",
       {kGraph, "no-check-for-nan-in-loss-and-grad"},
       [](const JudgedRun& r) {
         return has_graph(r, "full_iteration") && r.derived_flag("check_for_nan_in_loss_and_grad");
       },
       "a graph of a whole step goes without the check for NaN",
       "--no-check-for-nan-in-loss-and-grad"},
      {"full_iteration_modules",
       {kGraph, kGraphModules},
       [](const JudgedRun& r) { return has_graph(r, "full_iteration") && !captured_modules(r).empty(); },
       "a graph of a whole step has all modules",
       "leave --cuda-graph-modules and --cuda-graph-scope out"},
      {"graph_two_ways",
       {kGraph, "enable-cuda-graph", "external-cuda-graph"},
       names_two_graphs,
       "one argument says how graphs are made; --enable-cuda-graph is the older name of --cuda-graph-impl "
       "local, and --external-cuda-graph of --cuda-graph-impl transformer_engine",
       "--cuda-graph-impl alone"},
      {"graph_two_lists",
       {kGraphModules, "cuda-graph-scope"},
       [](const JudgedRun& r) { return r.has(kGraphModules) && r.has("cuda-graph-scope"); },
       "one argument says which modules have graphs; --cuda-graph-scope is its older name",
       "--cuda-graph-modules alone"},
      {"graph_unknown_module",
       {kGraphModules, "cuda-graph-scope"},
       has_unknown_graph_module,
       "modules with graphs are attn, mlp, moe, moe_router, moe_preprocess and mamba",
       "--cuda-graph-modules attn"},
      {"graph_full_iteration_module",
       {kGraph, kGraphModules, "cuda-graph-scope"},
       [](const JudgedRun& r) {
         return has_graph(r, "transformer_engine") &&
                (r.lists(kGraphModules, "full_iteration") || r.lists("cuda-graph-scope", "full_iteration"));
       },
       "the module full_iteration is the older name of --cuda-graph-impl full_iteration",
       "--cuda-graph-impl full_iteration without modules"},
      {"graph_expandable_segments",
       {kGraph},
       [](const JudgedRun& r) {
         const std::string allocator = r.environment("PYTORCH_CUDA_ALLOC_CONF").value_or("");
         return has_graph(r, "transformer_engine") &&
                allocator.find("expandable_segments:True") != std::string::npos &&
                r.environment("NCCL_GRAPH_REGISTER").value_or("") != "0";
       },
       "graphs of Transformer Engine go with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where "
       "NCCL_GRAPH_REGISTER is 0",
       "export NCCL_GRAPH_REGISTER=0"},
      {"graph_preprocess_capacity",
       {kGraphModules, "moe-token-dispatcher-type", "moe-expert-capacity-factor"},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && captures_module(r, "moe_preprocess") && has_many_experts(r) &&
                !pads_to_capacity(r) && r.derived_text("moe_token_dispatcher_type") == "alltoall" &&
                !r.is_absent("moe_expert_capacity_factor");
       },
       "what comes before the dispatcher alltoall waits for the host where tokens are dropped without "
       "padding",
       "--moe-pad-expert-input-to-capacity, or leave moe_preprocess out"},
      {"graph_expert_overlap",
       {kGraphModules, kExpertOverlap},
       [](const JudgedRun& r) {
         return has_graph(r, "transformer_engine") && r.flag(kExpertOverlap) &&
                (captures_module(r, "moe") || captures_module(r, "mlp"));
       },
       "the overlap of the experts' communication goes without graphs of moe and mlp",
       "leave moe and mlp out"},
      {"graph_delayed_wgrad_fusion",
       {kGraphModules, kDelay, "no-gradient-accumulation-fusion"},
       [](const JudgedRun& r) { return delays_in_a_graph(r) && r.flag("no-gradient-accumulation-fusion"); },
       "delayed weight gradients of a graph are added in place",
       "leave --no-gradient-accumulation-fusion out"},
      {"graph_delayed_wgrad_bias",
       {kGraphModules, kDelay, "disable-bias-linear", "add-qkv-bias"},
       [](const JudgedRun& r) {
         return delays_in_a_graph(r) && captures_module(r, "attn") &&
                (!r.flag("disable-bias-linear") || r.flag("add-qkv-bias"));
       },
       "delayed weight gradients go with a graph of attention that has no bias",
       "--disable-bias-linear without --add-qkv-bias"},
      {"graph_full_recompute",
       {kGraph, kRecomputeGranularity},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && r.derived_text("recompute_granularity") == "full";
       },
       "full recomputation goes with graphs of a whole step alone",
       "leave one of them out"},
      {"graph_moe_modules",
       {kGraphModules, "num-experts"},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && !has_many_experts(r) &&
                (captures(r, "moe") || captures(r, "moe_router"));
       },
       "graphs of experts and of their router need experts",
       "leave moe and moe_router out"},
      {"graph_cpu_offload",
       {kGraph, "cpu-offloading-num-layers"},
       [](const JudgedRun& r) { return has_layer_graphs(r) && r.number("cpu-offloading-num-layers", 0) > 0; },
       "activations of a graph are not kept on the host",
       "one of them"},
      {"graph_moe_and_router",
       {kGraphModules},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && captures(r, "moe") && captures(r, "moe_router");
       },
       "a graph has the whole expert layer, or its router",
       "one of moe and moe_router"},
      {"graph_preprocess_router",
       {kGraphModules},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && captures(r, "moe_preprocess") && !captures(r, "moe_router");
       },
       "a graph of what comes before the dispatch of tokens has the router too",
       "--cuda-graph-modules moe_router moe_preprocess"},
      {"graph_mlp_without_dense_layers",
       {kGraphModules, "moe-layer-freq"},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && captures(r, "mlp") && have_all_layers_experts(r);
       },
       "a graph of the MLP needs layers without experts",
       "leave mlp out"},
      {"graph_moe_capacity",
       {kGraphModules, "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity"},
       [](const JudgedRun& r) {
         return has_layer_graphs(r) && captures(r, "moe") && has_many_experts(r) && !pads_to_capacity(r);
       },
       "a graph of experts needs as many tokens in each step: a capacity, and padding to it",
       "--moe-expert-capacity-factor 1.0 --moe-pad-expert-input-to-capacity"},
      {"graph_recompute_router",
       {kGraphModules, kRecomputed},
       [](const JudgedRun& r) {
         return has_graph(r, "transformer_engine") &&
                r.derived_text("recompute_granularity") == "selective" && r.recomputes("moe") &&
                captures(r, "moe_router");
       },
       "recomputed experts go without a graph of their router",
       "leave moe_router out"},
      {"graph_attention_dropout",
       {kGraph, kRecomputed, "attention-dropout"},
       [](const JudgedRun& r) { return drops_in_a_graph(r, "attention-dropout", "attn", "core_attn"); },
       "attention that is recomputed inside of a graph draws no random numbers; its dropout is 0.1 unless "
       "given",
       "--attention-dropout 0"},
      {"graph_hidden_dropout",
       {kGraph, kRecomputed, "hidden-dropout"},
       [](const JudgedRun& r) {
         return drops_in_a_graph(r, "hidden-dropout", "mlp", "mlp") ||
                drops_in_a_graph(r, "hidden-dropout", "moe", "moe");
       },
       "what is recomputed inside of a graph draws no random numbers; the dropout is 0.1 unless given",
       "--hidden-dropout 0"},
  };
}

}  // namespace verify
