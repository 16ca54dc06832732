#include "verify/options/option_vocabulary.h"

#include <algorithm>

#include "sim/base/check.h"

namespace verify {

const std::vector<OptionInfo>& option_vocabulary() {
  using enum OptionKind;
  constexpr const char* kLayout = "Layout";
  constexpr const char* kModel = "Model";
  constexpr const char* kRanks = "Virtual ranks";
  constexpr const char* kPipeline = "Pipeline schedule";
  constexpr const char* kShards = "Shards";
  constexpr const char* kTraining = "Training";
  constexpr const char* kExpect = "Expectations of a scenario";
  static const std::vector<OptionInfo> options = {
      {"world-size", size, kLayout, "ranks of the world"},
      {"tensor-model-parallel-size", size, kLayout, "tp (1)"},
      {"pipeline-model-parallel-size", size, kLayout, "pp (1)"},
      {"virtual-pipeline-model-parallel-size", size, kLayout, "chunks a pipeline rank holds (none)"},
      {"context-parallel-size", size, kLayout, "cp (1)"},
      {"expert-model-parallel-size", size, kLayout, "ep (1)"},
      {"expert-tensor-parallel-size", size, kLayout, "etp (tp)"},
      {"num-distributed-optimizer-instances", size, kLayout, "optimizer instances (1)"},
      {"hierarchical-context-parallel-sizes", numbers, kLayout,
       "levels of cp, innermost first: 2 4 or 2,4 (none)"},
      {"use-tp-pp-dp-mapping", flag, kLayout, "order tp-cp-ep-pp-dp"},
      {"order", text, kLayout, "axes, fastest varying first (tp-cp-ep-dp-pp)"},
      {"rules", choice, kLayout, "rule book: megatron or legacy (megatron)", {"megatron", "legacy"}},
      {"pipeline-model-parallel-split-rank", number, kLayout, "first decoder rank of a pipeline (legacy)"},
      {"rank-offset", number, kLayout, "number of the grid's first rank (0)"},
      {"local-world-size", size, kLayout,
       "ranks of the grid, when it is only a part of the world (world-size)"},
      {"gpus-per-node", size, kLayout, "GPUs of a node (8)"},

      {"num-layers", count, kLayersSection,
       "transformer layers of the model (of each side, for an encoder-decoder)"},
      {"decoder-first-pipeline-num-layers", size, kLayersSection, "layers of the first pipeline rank"},
      {"decoder-last-pipeline-num-layers", size, kLayersSection, "layers of the last pipeline rank"},
      {"account-for-embedding-in-pipeline-split", flag, kLayersSection, "count the embedding as a layer"},
      {"account-for-loss-in-pipeline-split", flag, kLayersSection, "count the loss as a layer"},
      {"pipeline-model-parallel-layout", text, kLayersSection, "stages spelled out: 'Et*3|(tt|)*29,m|L'"},
      {"mtp-num-layers", count, kLayersSection, "multi-token-prediction layers (0)"},
      {"standalone-embedding-stage", flag, kLayersSection,
       "the first pipeline rank holds the embedding only (legacy)"},
      {"encoder-and-decoder", flag, kLayersSection, "an encoder-decoder model (legacy)"},

      {"hidden-size", size, kModel, "H"},
      {"ffn-hidden-size", size, kModel, "F (4 H; with swiglu 8/3 H, in multiples of 64)"},
      {"num-attention-heads", size, kModel, "attention heads"},
      {"num-query-groups", size, kModel, "key and value heads (as many as attention heads)"},
      {"vocab-size", size, kModel, "V"},
      {"seq-length", size, kModel, "S"},
      {"micro-batch-size", size, kModel, "sequences of a microbatch (1)"},
      {"global-batch-size", size, kModel, "sequences of a step"},
      {"sequence-parallel", flag, kModel, "norms and dropout on a tp-th of the tokens"},
      {"swiglu", flag, kModel, "gated MLP: three matrices"},
      {"disable-bias-linear", flag, kModel, "linear layers without bias"},
      {"untie-embeddings-and-output-weights", flag, kModel, "an output matrix of its own"},
      {"normalization", choice, kModel, "LayerNorm or RMSNorm (LayerNorm)", {"LayerNorm", "RMSNorm"}},
      {"position-embedding-type",
       choice,
       kModel,
       "learned_absolute or rope (learned_absolute)",
       {"learned_absolute", "rope"}},

      {"schedule",
       choice,
       kRanks,
       "which ready rank runs next: round_robin, uniform or pct (round_robin). For the command schedule, "
       "the pipeline's: 1f1b, gpipe or none (1f1b)",
       {"round_robin", "uniform", "pct", "1f1b", "gpipe", "none"}},
      {"schedule-seed", count, kRanks, "seed of the schedule, and of a shuffled reduction order (0)"},
      {"pct-depth", size, kRanks, "depth of pct: how many steps a bug takes (3)"},
      {"threads", size, kRanks, "threads that run the ranks (1)"},
      {"ranks-as", choice, kRanks, "fibers or threads (fibers)", {"fibers", "threads"}},
      {"reduction-order",
       choice,
       kRanks,
       "rank_order, nccl_ring or shuffled (rank_order)",
       {"rank_order", "nccl_ring", "shuffled"}},
      {"eager-bytes", count, kRanks, "a send of at most so many bytes does not wait for its recv (0)"},
      {"stack-bytes", size, kRanks, "stack of a rank (262144)"},
      {"program", text, kRanks,
       "a program with a planted defect instead of the collective round: shardproof list"},

      {"num-microbatches", size, kPipeline, "microbatches of a step (from the global batch size)"},
      {"microbatch-group-size-per-virtual-pipeline-stage", size, kPipeline,
       "microbatches that pass all chunks before the next ones do (pp)"},
      {"forward-only", flag, kPipeline, "evaluation: no backward steps"},
      {"overlap-moe-expert-parallel-comm", flag, kPipeline,
       "one more warm-up step, to overlap the experts' all-to-all with"},
      {"forward-cost", size, kPipeline, "units of time that a forward step takes (1)"},
      {"backward-cost", size, kPipeline, "and a backward step (1)"},

      {"case", words, kCasesSection, "cases to check, by name; may be repeated (all)"},
      {"property", words, kCasesSection, "properties to check (all)"},
      {"dtype", words, kCasesSection, "field, f64, f32, bf16 (all)"},
      {"runs", size, kCasesSection, "draws for each case and property (100)"},
      {"seed", count, kCasesSection, "seed of the campaign, or of the inputs of one setting (0)"},
      {"max-world", size, kCasesSection, "the largest world that is drawn, up to 64 (8)"},
      {"dimensions", text, kCasesSection, "one setting of one case, for replay: tokens=1,hidden=2"},

      {"text", text, kTraining, "the text that replay trains on (scenarios/training/text.txt)"},
      {"train-iters", count, kTraining, "steps that replay trains (20)"},
      {"eod-mask-loss", flag, kTraining, "no loss where a document of the text begins"},
      {"calculate-per-token-loss", flag, kTraining,
       "the mean over all tokens, not over means of microbatches"},
      {"recompute-granularity",
       choice,
       kTraining,
       "full: each layer again before its backward step (none)",
       {"full"}},

      {"param-sizes", words, kShards, "elements of each parameter, in the order of the model: 10,20"},
      {"data-parallel-size", size, kShards, "ranks that share a bucket (1)"},
      {"bucket-size", words, kShards, "elements that close a bucket (none: one bucket)"},
      {"shared-embedding", words, kShards, "parameters tied to another stage: 0,3 (none)"},
      {"pad-buckets-for-high-nccl-busbw", flag, kShards, "bucket ends at multiples of 65,536, too"},
      {"no-distributed-optimizer", flag, kShards, "plain data parallelism: no padding, no owners"},

      {"expect", choice, kExpect, "verified or refused (verified)", {"verified", "refused"}},
      {"expect-refusal", text, kExpect, "the code the refusal must have"},
      {"expect-finding", text, kExpect, "the code of the finding that must be reported first"},
      {"expect-groups", texts, kExpect, "a kind and its groups: 'dp [0,2],[1,3]'; may be repeated"},
      {"expect-parameters", text, kExpect, "the published number of parameters: 1.7B"},

      {"backend",
       choice,
       kBackendSection,
       "what ranks of replay and check are: sim, virtual ones; mpi or nccl, a process each (sim)",
       {"sim", "mpi", "nccl"}},
      {"device", choice, kBackendSection, "what virtual ranks compute on (cpu)", {"cpu", "cuda"}},
      {"deadline", size, kBackendSection, "seconds that processes wait for each other (60)"},
      {"mpi-reductions",
       choice,
       kBackendSection,
       "folded in the simulator's order, or native: MPI's own, in any order (folded)",
       {"folded", "native"}},
      {"nccl-order",
       choice,
       kBackendSection,
       "exact: rings whose sums have a known order; any: as NCCL chooses (exact)",
       {"exact", "any"}},
      {"ranks-per-gpu", size, kBackendSection, "processes that share a GPU, over NCCL (1)"},
      {"cuda-kernels",
       choice,
       kBackendSection,
       "exact: the CPU's order of additions; vendor: products of cuBLAS, in any order (exact)",
       {"exact", "vendor"}},

      {"message-bytes", numbers, kBackendSection,
       "sizes that collectives of processes are timed at; 0: none (4096,1048576)"},

      {"master-addr", text, kProcessSection, "where rank 0 listens (what the launcher says)"},
      {"master-port", number, kProcessSection, "its port (what the launcher says)"},

      {"kind", words, kOutputSection, "group kinds to show: tp or tp,dp; may be repeated (all)"},
      {"rank", number, kOutputSection,
       "show the groups of this rank; with a backend of processes, the rank that this process is"},
      {"svg", text, kOutputSection, "draw the pipeline schedule into this file"},
      {"report", text, kOutputSection, "write a page of what replay found into this file (HTML)"},
      {"junit", text, kOutputSection, "write the checks of replay into this file (JUnit XML)"},
      {"trace", text, kOutputSection,
       "write what the virtual ranks of replay did into this file, in logical time (for ui.perfetto.dev)"},
      {"format", choice, kOutputSection, "text or json (text)", {"text", "json"}},
      {"help", flag, kOutputSection, "this page"},
      {"version", flag, kOutputSection, "the version"},
  };
  return options;
}

const OptionInfo& option_named(const std::string& name) {
  const auto& all = option_vocabulary();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OptionInfo& o) { return name == o.name; });
  CHECK(found != all.end());
  return *found;
}

}  // namespace verify
