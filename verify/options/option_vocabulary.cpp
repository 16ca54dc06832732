#include "verify/options/option_vocabulary.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace verify {

const std::vector<OptionInfo>& option_vocabulary() {
  using enum OptionKind;
  constexpr const char* kLayout = "Layout";
  constexpr const char* kModel = "Model";
  constexpr const char* kExperts = "Experts (replay holds them against Megatron's rules, and simulates none)";
  constexpr const char* kRanks = "Virtual ranks";
  constexpr const char* kPipeline = "Pipeline schedule";
  constexpr const char* kShards = "Shards";
  constexpr const char* kTraining = "Training";
  constexpr const char* kExpect = "Expectations of a scenario";
  constexpr Reader kLayouts = Reader::groups | Reader::layers | Reader::schedule | Reader::replay;
  constexpr Reader kShapes = Reader::shards | Reader::replay;  // of the options of a model's shape
  constexpr Reader kCases =
      Reader::replay | Reader::check | Reader::replay_of_project | Reader::check_of_project;
  constexpr bool kNeedsVirtualRanks = true;
  constexpr Reader kProcesses = Reader::mpi | Reader::nccl;
  static const std::vector<OptionInfo> options = {
      {"world-size",
       size,
       kLayout,
       kLayouts | kProcesses | Reader::replay_of_project,
       "",
       "ranks of the world",
       {},
       false,
       Reader::replay | Reader::check,
       "rank"},
      {"tensor-model-parallel-size", size, kLayout, kLayouts | Reader::shards | Reader::replay_of_project,
       "1", "tp"},
      {"pipeline-model-parallel-size", size, kLayout, kLayouts, "1", "pp"},
      {"virtual-pipeline-model-parallel-size", size, kLayout, kLayouts, "none",
       "chunks a pipeline rank holds"},
      {"context-parallel-size", size, kLayout, kLayouts, "1", "cp"},
      {"expert-model-parallel-size", size, kLayout, kLayouts, "1", "ep"},
      {"expert-tensor-parallel-size", size, kLayout, kLayouts, "tp", "etp"},
      {"num-distributed-optimizer-instances", size, kLayout, kLayouts, "1", "optimizer instances"},
      {"hierarchical-context-parallel-sizes", numbers, kLayout, kLayouts, "none",
       "levels of cp, innermost first: 2 4 or 2,4"},
      {"use-tp-pp-dp-mapping", flag, kLayout, kLayouts, "", "order tp-cp-ep-pp-dp"},
      {"order", text, kLayout, kLayouts, "tp-cp-ep-dp-pp", "axes, fastest varying first"},
      {"rules",
       choice,
       kLayout,
       kLayouts,
       "megatron",
       "rule book: megatron or legacy",
       {"megatron", "legacy"}},
      {"pipeline-model-parallel-split-rank", number, kLayout, kLayouts, "",
       "first decoder rank of a pipeline (legacy)"},
      {"rank-offset", number, kLayout, kLayouts, "0", "number of the grid's first rank"},
      {"local-world-size", size, kLayout, kLayouts, "world-size",
       "ranks of the grid, when it is only a part of the world"},
      {"gpus-per-node", size, kLayout, Reader::groups | Reader::replay, "8", "GPUs of a node"},

      {"layout-only",
       flag,
       kLayout,
       Reader::replay,
       "",
       "prove the layout alone, in a second: no virtual ranks run",
       {},
       kNeedsVirtualRanks},

      {"num-layers", count, kLayersSection, Reader::layers | kShapes, "",
       "transformer layers of the model (of each side, for an encoder-decoder)"},
      {"num-layers-per-virtual-pipeline-stage", size, kLayersSection, Reader::layers | Reader::replay, "",
       "layers of a chunk, which give the number of chunks"},
      {"num-virtual-stages-per-pipeline-rank", size, kLayersSection, Reader::layers | Reader::replay, "",
       "chunks of a pipeline rank"},
      {"decoder-first-pipeline-num-layers", size, kLayersSection, Reader::layers | Reader::replay, "",
       "layers of the first pipeline rank"},
      {"decoder-last-pipeline-num-layers", size, kLayersSection, Reader::layers | Reader::replay, "",
       "layers of the last pipeline rank"},
      {"account-for-embedding-in-pipeline-split", flag, kLayersSection, Reader::layers | Reader::replay, "",
       "count the embedding as a layer"},
      {"account-for-loss-in-pipeline-split", flag, kLayersSection, Reader::layers | Reader::replay, "",
       "count the loss as a layer"},
      {"pipeline-model-parallel-layout", text, kLayersSection, Reader::layers | Reader::replay, "",
       "stages spelled out: 'Et*3|(tt|)*29,m|L'"},
      {"mtp-num-layers", count, kLayersSection, Reader::layers | Reader::replay, "0",
       "multi-token-prediction layers"},
      {"standalone-embedding-stage", flag, kLayersSection, Reader::layers | Reader::replay, "",
       "the first pipeline rank holds the embedding only (legacy)"},
      {"encoder-and-decoder", flag, kLayersSection, Reader::layers | Reader::replay, "",
       "an encoder-decoder model (legacy)"},

      {"hidden-size", size, kModel, kShapes, "", "H"},
      {"ffn-hidden-size", size, kModel, kShapes, "4 H; with swiglu 8/3 H, in multiples of 64", "F"},
      {"num-attention-heads", size, kModel, kShapes, "", "attention heads"},
      {"num-query-groups", size, kModel, kShapes, "as many as attention heads", "key and value heads"},
      {"group-query-attention", flag, kModel, Reader::replay, "",
       "query groups: --num-query-groups of them, or 1"},
      {"vocab-size", size, kModel, kShapes, "", "V"},
      {"seq-length", size, kModel, kShapes, "", "S"},
      {"max-position-embeddings", size, kModel, Reader::replay, "S", "learned positions"},
      {"micro-batch-size", size, kModel, Reader::replay | Reader::schedule, "1", "sequences of a microbatch"},
      {"global-batch-size", size, kModel, Reader::replay | Reader::schedule, "", "sequences of a step"},
      {"sequence-parallel", flag, kModel, Reader::replay, "", "norms and dropout on a tp-th of the tokens"},
      {"swiglu", flag, kModel, kShapes, "", "gated MLP: three matrices"},
      {"disable-bias-linear", flag, kModel, kShapes, "", "linear layers without bias"},
      {"untie-embeddings-and-output-weights", flag, kModel, kShapes, "", "an output matrix of its own"},
      {"normalization",
       choice,
       kModel,
       kShapes,
       "LayerNorm",
       "LayerNorm or RMSNorm",
       {"LayerNorm", "RMSNorm"}},
      {"position-embedding-type",
       choice,
       kModel,
       kShapes,
       "learned_absolute",
       "learned_absolute or rope",
       {"learned_absolute", "rope"}},

      {"num-experts", count, kExperts, Reader::replay, "0: a dense model", "experts of a layer"},
      {"moe-ffn-hidden-size", size, kExperts, Reader::replay, "F", "hidden size of an expert"},
      {"moe-layer-freq", text, kExperts, Reader::replay, "1",
       "layers with experts: every N-th, or a list such as '[0]*3+[1]*58'"},
      {"moe-token-dispatcher-type",
       choice,
       kExperts,
       Reader::replay,
       "allgather",
       "allgather, alltoall or flex",
       {"allgather", "alltoall", "flex"}},
      {"moe-router-topk", size, kExperts, Reader::replay, "2", "experts of a token"},
      {"moe-router-pre-softmax", flag, kExperts, Reader::replay, "", "softmax before the choice of experts"},
      {"moe-router-score-function",
       choice,
       kExperts,
       Reader::replay,
       "softmax",
       "softmax, sigmoid or sqrtsoftplus",
       {"softmax", "sigmoid", "sqrtsoftplus"}},
      {"moe-router-enable-expert-bias", flag, kExperts, Reader::replay, "",
       "a bias on the score of an expert"},
      {"moe-router-load-balancing-type", words, kExperts, Reader::replay, "aux_loss",
       "aux_loss, seq_aux_loss, global_aux_loss, sinkhorn or none; may be repeated"},
      {"moe-router-num-groups", size, kExperts, Reader::replay, "", "groups of experts"},
      {"moe-router-group-topk", size, kExperts, Reader::replay, "", "groups that a token's experts are in"},
      {"moe-expert-capacity-factor", text, kExperts, Reader::replay, "none",
       "tokens of an expert, as a multiple of the mean; below 0: none"},
      {"moe-pad-expert-input-to-capacity", flag, kExperts, Reader::replay, "",
       "every expert has as many tokens"},
      {"moe-shared-expert-intermediate-size", size, kExperts, Reader::replay, "",
       "hidden size of the shared experts"},
      {"moe-shared-expert-overlap", flag, kExperts, Reader::replay, "",
       "shared experts compute while tokens travel"},

      {"schedule",
       choice,
       kRanks,
       Reader::replay | Reader::schedule,
       "",
       "which ready rank runs next: round_robin, uniform or pct (round_robin). For the command schedule, the "
       "pipeline's: 1f1b, gpipe or none (1f1b)",
       {"round_robin", "uniform", "pct", "1f1b", "gpipe", "none"}},
      {"schedule-seed", count, kRanks, Reader::replay, "0",
       "seed of the schedule, and of a shuffled reduction order"},
      {"pct-depth", size, kRanks, Reader::replay, "3", "depth of pct: how many steps a bug takes"},
      {"threads", size, kRanks, Reader::replay | Reader::check | Reader::check_of_project, "",
       "threads that run the ranks of replay (1), or the runs of check (all cores)"},
      {"ranks-as", choice, kRanks, Reader::replay, "fibers", "fibers or threads", {"fibers", "threads"}},
      {"reduction-order",
       choice,
       kRanks,
       Reader::replay,
       "rank_order",
       "rank_order, nccl_ring or shuffled",
       {"rank_order", "nccl_ring", "shuffled"}},
      {"eager-bytes", count, kRanks, Reader::replay, "0",
       "a send of at most so many bytes does not wait for its recv"},
      {"stack-bytes", size, kRanks, Reader::replay, "262144", "stack of a rank"},
      {"program",
       text,
       kRanks,
       Reader::replay,
       "",
       "a program with a planted defect instead of the collective round: shardproof list",
       {},
       kNeedsVirtualRanks},

      {"num-microbatches", size, kPipeline, Reader::replay | Reader::schedule, "from the global batch size",
       "microbatches of a step"},
      {"microbatch-group-size-per-virtual-pipeline-stage", size, kPipeline, Reader::replay | Reader::schedule,
       "pp", "microbatches that pass all chunks before the next ones do"},
      {"forward-only", flag, kPipeline, Reader::replay | Reader::schedule, "",
       "evaluation: no backward steps"},
      {"overlap-moe-expert-parallel-comm", flag, kPipeline, Reader::replay | Reader::schedule, "",
       "one more warm-up step, to overlap the experts' all-to-all with"},
      {"forward-cost", size, kPipeline, Reader::schedule, "1", "units of time that a forward step takes"},
      {"backward-cost", size, kPipeline, Reader::schedule, "1", "and a backward step"},

      {"case",
       words,
       kCasesSection,
       kCases,
       "all",
       "cases to check, by name; may be repeated",
       {},
       kNeedsVirtualRanks},
      {"property", words, kCasesSection, kCases, "all", "properties to check", {}, kNeedsVirtualRanks},
      {"dtype", words, kCasesSection, kCases, "all", "field, f64, f32, bf16", {}, kNeedsVirtualRanks},
      {"runs", size, kCasesSection, Reader::check | Reader::check_of_project, "100",
       "draws for each case and property"},
      {"seed", count, kCasesSection, kCases, "0", "seed of the campaign, or of the inputs of one setting"},
      {"max-world", size, kCasesSection, Reader::check | Reader::check_of_project, "8",
       "the largest world that is drawn, up to 64"},
      {"dimensions",
       text,
       kCasesSection,
       Reader::replay | Reader::replay_of_project,
       "",
       "one setting of one case, for replay: tokens=1,hidden=2",
       {},
       kNeedsVirtualRanks},

      {"text", text, kTraining, Reader::replay, "scenarios/training/text.txt",
       "the text that replay trains on"},
      {"train-iters", count, kTraining, Reader::replay, "20", "steps that replay trains"},
      {"eod-mask-loss", flag, kTraining, Reader::replay, "", "no loss where a document of the text begins"},
      {"calculate-per-token-loss", flag, kTraining, Reader::replay, "",
       "the mean over all tokens, not over means of microbatches"},
      {"recompute-granularity",
       choice,
       kTraining,
       Reader::replay,
       "none",
       "full: layers again before their backward step; selective: a part of each, which is not simulated",
       {"full", "selective"}},
      {"recompute-method",
       choice,
       kTraining,
       Reader::replay,
       "",
       "of full: uniform, every so many layers; block, the first so many of a stage",
       {"uniform", "block"}},
      {"recompute-num-layers", size, kTraining, Reader::replay, "", "so many layers"},

      {"param-sizes", words, kShards, Reader::shards, "",
       "elements of each parameter, in the order of the model: 10,20"},
      {"data-parallel-size", size, kShards, Reader::shards, "1", "ranks that share a bucket"},
      {"bucket-size", words, kShards, Reader::shards, "none: one bucket", "elements that close a bucket"},
      {"shared-embedding", words, kShards, Reader::shards, "none", "parameters tied to another stage: 0,3"},
      {"pad-buckets-for-high-nccl-busbw", flag, kShards, Reader::shards, "",
       "bucket ends at multiples of 65,536, too"},
      {"no-distributed-optimizer", flag, kShards, Reader::shards, "",
       "plain data parallelism: no padding, no owners"},

      {"expect", choice, kExpect, Reader::replay, "verified", "verified or refused", {"verified", "refused"}},
      {"expect-refusal", text, kExpect, Reader::replay, "", "the code the refusal must have"},
      {"expect-finding",
       text,
       kExpect,
       Reader::replay,
       "",
       "the code of the finding that must be reported first",
       {},
       kNeedsVirtualRanks},
      {"expect-groups", texts, kExpect, Reader::replay, "",
       "a kind and its groups: 'dp [0,2],[1,3]'; may be repeated"},
      {"expect-parameters", text, kExpect, Reader::replay, "", "the published number of parameters: 1.7B"},

      {"backend",
       choice,
       kBackendSection,
       Reader::replay | Reader::check | Reader::check_of_project,
       "sim",
       "what ranks of replay and check are: sim, virtual ones; mpi or nccl, a process each",
       {"sim", "mpi", "nccl"}},
      {"device",
       choice,
       kBackendSection,
       Reader::replay | Reader::check,
       "cpu",
       "what virtual ranks compute on",
       {"cpu", "cuda"}},
      {"deadline", size, kBackendSection, kProcesses | Reader::check_of_project, "60",
       "seconds that processes wait for each other"},
      {"mpi-reductions",
       choice,
       kBackendSection,
       Reader::mpi | Reader::check_of_project,
       "folded",
       "folded in the simulator's order, or native: MPI's own, in any order",
       {"folded", "native"}},
      {"nccl-order",
       choice,
       kBackendSection,
       Reader::nccl,
       "exact",
       "exact: rings whose sums have a known order; any: as NCCL chooses",
       {"exact", "any"}},
      {"ranks-per-gpu", size, kBackendSection, Reader::nccl, "1", "processes that share a GPU, over NCCL"},
      {"cuda-kernels",
       choice,
       kBackendSection,
       Reader::nccl | Reader::cuda,
       "exact",
       "exact: the CPU's order of additions; vendor: products of cuBLAS, in any order",
       {"exact", "vendor"}},
      {"message-bytes",
       numbers,
       kBackendSection,
       kProcesses,
       "4096,1048576",
       "sizes that collectives of processes are timed at; 0: none",
       {},
       false,
       Reader::replay},

      {"master-addr", text, kProcessSection, kProcesses, "what the launcher says", "where rank 0 listens"},
      {"master-port", number, kProcessSection, kProcesses, "what the launcher says", "its port"},

      {"kind", words, kOutputSection, Reader::groups, "all",
       "group kinds to show: tp or tp,dp; may be repeated"},
      {"rank", number, kOutputSection, kProcesses | Reader::groups, "",
       "show the groups of this rank; with a backend of processes, the rank that this process is"},
      {"svg", text, kOutputSection, Reader::schedule, "", "draw the pipeline schedule into this file"},
      {"report", text, kOutputSection, Reader::replay, "",
       "write a page of what replay found into this file (HTML)"},
      {"junit", text, kOutputSection, Reader::replay, "",
       "write the checks of replay into this file (JUnit XML)"},
      {"trace",
       text,
       kOutputSection,
       Reader::replay,
       "",
       "write what the virtual ranks of replay did into this file, in logical time (for ui.perfetto.dev)",
       {},
       kNeedsVirtualRanks},
      {"format", choice, kOutputSection, kEverybody, "text", "text or json", {"text", "json"}},
      {"help", flag, kOutputSection, kEverybody, "", "this page"},
      {"version", flag, kOutputSection, kEverybody, "", "the version, the commit and what is compiled in"},
  };
  return options;
}

std::string help_of(const OptionInfo& option) {
  if (*option.fallback == '\0') return option.help;
  return std::string(option.help) + " (" + option.fallback + ")";
}

std::string text_of_readers(const OptionInfo& option) {
  struct Name {
    Reader reader;
    const char* text;
  };
  static constexpr Name kNames[] = {
      {Reader::groups, "groups"},     {Reader::layers, "layers"},       {Reader::schedule, "schedule"},
      {Reader::shards, "shards"},     {Reader::replay, "replay"},       {Reader::check, "check"},
      {Reader::mpi, "--backend mpi"}, {Reader::nccl, "--backend nccl"}, {Reader::cuda, "--device cuda"}};
  std::string text;
  for (const Name& name : kNames) {
    if (!overlap(option.readers, name.reader)) continue;
    text += (text.empty() ? "" : ", ") + std::string(name.text);
  }
  return text;
}

const OptionInfo& option_named(const std::string& name) {
  const auto& all = option_vocabulary();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OptionInfo& o) { return name == o.name; });
  CHECK(found != all.end());
  return *found;
}

void refuse_without_effect(const std::string& option, const std::string& command) {
  sim::refuse({.code = "option_without_effect",
               .option = "--" + option,
               .numbers = fmt::format("given to '{}'", command),
               .rule = "a command is given what it reads",
               .hint = "shardproof --help"});
}

}  // namespace verify
