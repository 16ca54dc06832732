#include <algorithm>
#include <iterator>

#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kHybrid = "hybrid-context-parallel";
constexpr const char* kDeterministic = "deterministic-mode";

/// Whether the file sets a variable that deterministic training reads to something else.
bool is_set_otherwise(const JudgedRun& r, const char* variable, std::initializer_list<const char*> allowed) {
  const auto value = r.environment(variable);
  return r.flag(kDeterministic) && value &&
         std::none_of(allowed.begin(), allowed.end(), [&](const char* one) { return *value == one; });
}

bool is_algorithm_refused(const JudgedRun& r) {
  std::string tokens = r.environment("NCCL_ALGO").value_or("");
  if (!r.flag(kDeterministic)) return false;
  while (!tokens.empty()) {
    const std::size_t end = std::min(tokens.find(','), tokens.size());
    const std::string token = tokens.substr(0, end);
    tokens.erase(0, end + 1);
    const auto allowed = {"Ring", "CollnetDirect", "CollnetChain", "^NVLS"};
    if (std::none_of(allowed.begin(), allowed.end(), [&](const char* one) { return token == one; }))
      return true;
  }
  return false;
}

bool has_other_types_than_layers(const JudgedRun& r) {
  const auto types = std::ssize(r.list("cp-comm-type"));
  return JudgedRun::above(r.cp(), 1) && types > 1 && r.layers() && types != *r.layers();
}

}  // namespace

/// The rules about sequences that ranks share, and about computing the same bits each time.
std::vector<RunRule> run_sequence_rules() {
  return {
      {"a2a_p2p_needs_hier_sizes",
       {"cp-comm-type", "hierarchical-context-parallel-sizes"},
       [](const JudgedRun& r) {
         return r.lists("cp-comm-type", "a2a+p2p") && !r.has("hierarchical-context-parallel-sizes");
       },
       "a2a+p2p needs the sizes of its two levels",
       "--hierarchical-context-parallel-sizes"},
      {"cp_types_length",
       {"cp-comm-type"},
       has_other_types_than_layers,
       "a list of ways to communicate has an entry for each layer",
       "one entry, or as many as there are layers",
       {"num_layers"}},
      {"cp_needs_te",
       {"context-parallel-size", "transformer-impl"},
       [](const JudgedRun& r) { return JudgedRun::above(r.cp(), 1) && r.is("transformer-impl", "local"); },
       "context parallelism needs the attention of Transformer Engine",
       "--transformer-impl transformer_engine"},
      {"hybrid_cp_pp",
       {kHybrid, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag(kHybrid) && JudgedRun::above(r.pp(), 1); },
       "context parallelism that follows each sample's length goes without pipeline parallelism",
       "--pipeline-model-parallel-size 1"},
      {"hybrid_cp_cuda_graph",
       {kHybrid, "enable-cuda-graph"},
       [](const JudgedRun& r) { return r.flag(kHybrid) && r.flag("enable-cuda-graph"); },
       "context parallelism that follows each sample's length goes without --enable-cuda-graph; "
       "--cuda-graph-impl says the same",
       "--cuda-graph-impl local in its place"},
      {"hybrid_cp_mfsdp",
       {kHybrid, "use-megatron-fsdp"},
       [](const JudgedRun& r) { return r.flag(kHybrid) && r.flag("use-megatron-fsdp"); },
       "context parallelism that follows each sample's length goes without Megatron-FSDP",
       "leave --use-megatron-fsdp out"},
      {"hybrid_cp_dataloader",
       {kHybrid, "dataloader-type"},
       [](const JudgedRun& r) { return r.flag(kHybrid) && r.text("dataloader-type", "single") != "single"; },
       "context parallelism that follows each sample's length reads the data once",
       "--dataloader-type single"},
      {"hybrid_cp_per_token_loss",
       {kHybrid, "calculate-per-token-loss"},
       [](const JudgedRun& r) { return r.flag(kHybrid) && !r.flag("calculate-per-token-loss"); },
       "context parallelism that follows each sample's length averages the loss over tokens",
       "--calculate-per-token-loss"},
      {"tp_comm_overlap_needs_sp",
       {"tp-comm-overlap", "sequence-parallel", "tensor-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag("tp-comm-overlap") && !r.derived_flag("sequence_parallel"); },
       "tensor-parallel communication overlaps under sequence parallelism alone, which needs tp above 1",
       "--sequence-parallel with tp above 1, or leave --tp-comm-overlap out"},
      {"te_cross_entropy",
       {"cross-entropy-fusion-impl", "cross-entropy-loss-fusion"},
       [](const JudgedRun& r) {
         return r.flag("cross-entropy-loss-fusion") && r.is("cross-entropy-fusion-impl", "te");
       },
       "Megatron has turned the fused loss of Transformer Engine off, because it was not stable",
       "--cross-entropy-fusion-impl native"},
      {"deterministic_options",
       {kDeterministic, "cross-entropy-loss-fusion", "tp-comm-overlap"},
       [](const JudgedRun& r) {
         return r.flag(kDeterministic) && (r.flag("cross-entropy-loss-fusion") || r.flag("tp-comm-overlap"));
       },
       "deterministic training has no fused loss and no overlap of tensor-parallel communication",
       "leave --cross-entropy-loss-fusion and --tp-comm-overlap out"},
      {"deterministic_nccl_algo",
       {kDeterministic},
       is_algorithm_refused,
       "deterministic training has NCCL_ALGO of Ring, CollnetDirect, CollnetChain and ^NVLS, or unset",
       "NCCL_ALGO=Ring"},
      {"deterministic_te",
       {kDeterministic},
       [](const JudgedRun& r) { return is_set_otherwise(r, "NVTE_ALLOW_NONDETERMINISTIC_ALGO", {"0"}); },
       "deterministic training has NVTE_ALLOW_NONDETERMINISTIC_ALGO 0, or unset",
       "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0"},
      {"deterministic_cublas",
       {kDeterministic},
       [](const JudgedRun& r) {
         return is_set_otherwise(r, "CUBLAS_WORKSPACE_CONFIG", {":4096:8", ":16:8"});
       },
       "deterministic training has CUBLAS_WORKSPACE_CONFIG :4096:8 or :16:8, or unset",
       "CUBLAS_WORKSPACE_CONFIG=:4096:8"},
  };
}

}  // namespace verify
