// Proves the command memory: its document, its judgement and what would help, and what it says of arguments
// that it does not count.

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

const std::string kModel =
    "memory --world-size 8 --tensor-model-parallel-size 2 --num-layers 8 --hidden-size 1024 "
    "--num-attention-heads 16 --vocab-size 50257 --seq-length 1024 --micro-batch-size 4 ";

ordered_json document_of(const std::string& words, int exit_code = 0) {
  const test::RunResult result = test::run(words + " --format json");
  EXPECT_EQ(result.exit_code, exit_code) << words << "\n" << result.err;
  return ordered_json::parse(result.out);
}

std::vector<std::string> keys_of(const ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(MemoryCommand, TheDocumentHasItsMembers) {
  const ordered_json document = document_of(kModel + "--pipeline-model-parallel-size 2");
  EXPECT_EQ(keys_of(document), (std::vector<std::string>{"stages", "workspace_bytes", "gpu_memory_bytes",
                                                         "fullest_pipeline_rank", "fits", "doubted_by",
                                                         "assumed", "vocabulary", "advice", "not_modelled"}));
  EXPECT_TRUE(document["fits"].is_null());
  EXPECT_EQ(document["workspace_bytes"], 98 << 20U);
  ASSERT_EQ(document["stages"].size(), 2U);
  for (const auto& stage : document["stages"]) {
    EXPECT_EQ(keys_of(stage), (std::vector<std::string>{"pipeline_rank", "static_bytes", "peak_bytes",
                                                        "parts", "expert_parameters", "peak_in"}));
    std::int64_t sum = 0;
    for (const auto& [part, bytes] : stage["parts"].items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(stage["peak_bytes"], sum);
  }
  EXPECT_EQ(document["stages"][1]["pipeline_rank"], 1);
  EXPECT_EQ(document["stages"][1]["peak_in"], "forward of microbatch 0, in the loss");
}

/// Of 16 experts in 4 layers a rank of ep 4 holds 4, each with two matrices in bf16.
TEST(MemoryCommand, TheDocumentHasTheParametersOfExperts) {
  const std::string experts =
      "memory --world-size 8 --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --vocab-size 512 "
      "--seq-length 512 --disable-bias-linear --num-experts 16 --expert-model-parallel-size ";
  EXPECT_EQ(document_of(experts + "4")["stages"][0]["expert_parameters"], 4 * 4 * 2 * 4 * 1024 * 1024 * 2);
  EXPECT_EQ(document_of(experts + "1")["stages"][0]["expert_parameters"], 0);
}

TEST(MemoryCommand, TheJudgementIsTheExitCode) {
  const std::int64_t peak = document_of(kModel)["stages"][0]["peak_bytes"];
  EXPECT_EQ(document_of(kModel + fmt::format("--gpu-memory {}", peak))["fits"], true);
  EXPECT_EQ(document_of(kModel + fmt::format("--gpu-memory {}B", peak - 1), 1)["fits"], false);
  const test::RunResult text = test::run(kModel + fmt::format("--gpu-memory {}", peak - (3 << 20U)));
  EXPECT_NE(text.out.find("It does not fit: stage 0 (ranks 0 to 7) needs "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("which is 3.00 MiB more than "), std::string::npos) << text.out;
  EXPECT_TRUE(text.out.starts_with("It does not fit: ")) << text.out;
}

/// A pipeline of so many ranks has a schedule that is too long to be walked, so activations are not counted.
TEST(MemoryCommand, WhatIsNotKnownToFitDoesNotPass) {
  const std::string long_pipeline =
      "memory --world-size 1024 --pipeline-model-parallel-size 1024 --num-layers 1024 --hidden-size 64 "
      "--num-attention-heads 4 --vocab-size 512 --seq-length 64 --num-microbatches 2048 --gpu-memory 80GB";
  const ordered_json document = document_of(long_pipeline, 6);
  EXPECT_TRUE(document["fits"].is_null());
  EXPECT_TRUE(document["stages"][0]["parts"]["activations"].is_null());
  EXPECT_TRUE(document["stages"][0]["peak_bytes"].is_null());
  const std::string text = test::run(long_pipeline).out;
  EXPECT_NE(text.find("It is not known whether it fits"), std::string::npos) << text;
  EXPECT_NE(text.find("a schedule of 1024 pipeline ranks that is full has too many steps"),
            std::string::npos);
  EXPECT_EQ(text.find(" 0 B  0 B "), std::string::npos) << text;
}

TEST(MemoryCommand, PredictionsBeforeTheLastStageAreNotCounted) {
  const auto refused = [](const std::string& layout) {
    return test::run(kModel +
                     "--pipeline-model-parallel-size 4 --mtp-num-layers 1 --position-embedding-type rope "
                     "--pipeline-model-parallel-layout " +
                     layout)
        .err;
  };
  EXPECT_EQ(refused("Ett|ttt|ttt|mL"), "");
  EXPECT_NE(refused("Ett|ttt|tttm|L").find("multi-token prediction (m) before the last stage"),
            std::string::npos);
  EXPECT_NE(refused("Ett|ttt|ttt,m*1|L").find("--pipeline-model-parallel-layout 'Ett|ttt|ttt,|mL'"),
            std::string::npos);
  EXPECT_EQ(refused("Ett|ttt|ttt,|mL"), "");
}

TEST(MemoryCommand, ABlockOfNoRecomputedLayersKeepsAllActivations) {
  EXPECT_EQ(document_of(kModel + "--recompute-granularity full --recompute-method block "
                                 "--recompute-num-layers 0"),
            document_of(kModel));
}

TEST(MemoryCommand, MoreMicrobatchesThanAScheduleTakesHoldNoMore) {
  const auto stages = [](const std::string& words) {
    return document_of(kModel + "--pipeline-model-parallel-size 4 " + words)["stages"];
  };
  for (const std::string chunks : {"", "--num-virtual-stages-per-pipeline-rank 2 "}) {
    EXPECT_EQ(stages(chunks + "--num-microbatches 16000000"), stages(chunks + "--num-microbatches 64"));
    EXPECT_EQ(stages(chunks + "--num-microbatches 8"), stages(chunks + "--num-microbatches 64"));
  }
}

/// The lines "  With OPTIONS it needs SIZE on stage S, and fits." of a run that does not fit.
struct Help {
  std::string options, size, stage, judgement;
};
std::vector<Help> helps_of(const std::string& text) {
  std::vector<Help> helps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t needs = line.find(" it needs "), on = line.find(" on stage "),
                      end = line.find(", and ");
    if (!line.starts_with("  With ") || end == std::string::npos) continue;
    helps.push_back({line.substr(7, needs - 7), line.substr(needs + 10, on - needs - 10),
                     line.substr(on + 10, end - on - 10), line.substr(end + 6)});
  }
  return helps;
}

TEST(MemoryCommand, WhatWouldHelpHasTheFiguresOfItsOwnRun) {
  const std::string call =
      kModel + "--no-distributed-optimizer --attention-backend unfused --gpu-memory 2000MB ";
  const test::RunResult result = test::run(call);
  EXPECT_EQ(result.exit_code, 1);
  const std::vector<Help> helps = helps_of(result.out);
  EXPECT_EQ(helps.size(), 8U) << result.out;
  for (const Help& help : helps) {
    std::string changed = call;
    for (const char* option :
         {"--tensor-model-parallel-size 2 ", "--micro-batch-size 4 ", "--no-distributed-optimizer "}) {
      const std::string name = std::string(option).substr(0, std::string(option).find(' '));
      if (help.options.find(name) != std::string::npos)
        changed.replace(changed.find(option), std::string(option).size(), "");
    }
    const test::RunResult own = test::run(changed + help.options);
    const bool fits = own.exit_code == 0;
    const std::string figure =
        fits ? fmt::format(" holds most, {} of", help.size) : fmt::format(" needs {} at", help.size);
    EXPECT_NE(own.out.find(figure), std::string::npos) << help.options << "\n" << own.out;
    EXPECT_NE(own.out.find(fmt::format(": stage {} (rank", help.stage)), std::string::npos) << own.out;
    const bool just = own.out.starts_with("It fits only just");
    EXPECT_EQ(help.judgement, just ? "fits only just." : fits ? "fits." : "does not fit.");
  }
}

TEST(MemoryCommand, TheDocumentHasWhatWouldHelp) {
  const ordered_json document = document_of(kModel + "--gpu-memory 1000MB", 1);
  EXPECT_EQ(document["gpu_memory_bytes"], 1'000'000'000);
  ASSERT_FALSE(document["advice"].empty());
  EXPECT_EQ(keys_of(document["advice"][0]),
            (std::vector<std::string>{"options", "peak_bytes", "pipeline_rank", "fits"}));
  EXPECT_TRUE(document_of(kModel)["advice"].empty());
}

TEST(MemoryCommand, WhatIsLeftIsSaid) {
  const std::int64_t peak = document_of(kModel)["stages"][0]["peak_bytes"];
  const auto said = [&](std::int64_t left) {
    return test::run(kModel + fmt::format("--gpu-memory {}", peak + left)).out;
  };
  EXPECT_TRUE(said(0).starts_with("It fits only just: stage 0 (ranks 0 to 7) holds most, ")) << said(0);
  EXPECT_NE(said(5 << 20U).find(" 5.00 MiB are left for the CUDA context"), std::string::npos);
  EXPECT_TRUE(said(std::int64_t{3} << 30U).starts_with("It fits: ")) << said(std::int64_t{3} << 30U);
}

/// What costs little time comes first of what fits. A block of the fewest layers is told that leave
/// 2 GiB.
TEST(MemoryCommand, WhatFitsComesFirst) {
  const std::string all =
      "memory --world-size 8 --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
      "--vocab-size 512 --seq-length 16384 --micro-batch-size 1 "
      "--position-embedding-type rope ";
  const std::int64_t without_mask =
      document_of(all + "--no-create-attention-mask-in-dataloader")["stages"][0]["peak_bytes"];
  const std::vector<Help> helps = helps_of(test::run(all + fmt::format("--gpu-memory {}", without_mask)).out);
  ASSERT_FALSE(helps.empty());
  EXPECT_EQ(helps[0].options, "--no-create-attention-mask-in-dataloader");
  const auto block = [](int layers) {
    return fmt::format("--recompute-granularity full --recompute-method block --recompute-num-layers {}",
                       layers);
  };
  const std::int64_t memory = document_of(all + block(2))["stages"][0]["peak_bytes"];
  int enough = 1;
  while (document_of(all + block(enough))["stages"][0]["peak_bytes"] > memory - (std::int64_t{2} << 30U))
    ++enough;
  EXPECT_GT(enough, 2);
  EXPECT_NE(test::run(all + fmt::format("--gpu-memory {}", memory))
                .out.find(fmt::format("With {} it needs", block(enough))),
            std::string::npos);
}

/// Where one change is not enough, two are told that are.
TEST(MemoryCommand, TwoChangesAreToldWhereOneIsNotEnough) {
  const std::string all =
      "memory --world-size 2 --num-layers 2 --hidden-size 1024 --num-attention-heads 16 "
      "--vocab-size 512 --seq-length 4096 --micro-batch-size 2 "
      "--position-embedding-type rope ";
  std::string changed = all;
  changed.replace(changed.find("--micro-batch-size 2 "), 21, "");
  const std::int64_t least =
      document_of(changed + "--micro-batch-size 1 --tensor-model-parallel-size 2")["stages"][0]["peak_bytes"];
  const std::vector<Help> helps = helps_of(test::run(all + fmt::format("--gpu-memory {}", least)).out);
  ASSERT_FALSE(helps.empty());
  EXPECT_EQ(helps[0].judgement, "fits only just.");
  for (const Help& help : helps) {
    if (help.judgement == "does not fit.") continue;
    const bool halves = help.options.find("--micro-batch-size") != std::string::npos;
    const std::int64_t own = document_of((halves ? changed : all) + help.options +
                                         fmt::format(" --gpu-memory {}", least))["stages"][0]["peak_bytes"];
    EXPECT_LE(own, least) << help.options;
  }
}

/// A run without its virtual stages keeps fewer microbatches.
TEST(MemoryCommand, LeavingVirtualStagesOutIsTold) {
  const std::string all =
      "memory --world-size 8 --pipeline-model-parallel-size 4 --num-layers 16 --hidden-size 1024 "
      "--num-attention-heads 16 --vocab-size 512 --seq-length 4096 --micro-batch-size 1 "
      "--num-microbatches 16 --position-embedding-type rope ";
  const ordered_json document = document_of(all);
  std::int64_t most = 0;
  for (const auto& stage : document["stages"]) most = std::max<std::int64_t>(most, stage["peak_bytes"]);
  const std::string out =
      test::run(all + fmt::format("--num-virtual-stages-per-pipeline-rank 2 --gpu-memory {}", most)).out;
  EXPECT_NE(out.find("Without --num-virtual-stages-per-pipeline-rank it needs"), std::string::npos) << out;
}

/// Of twice, four and eight times as many ranks, the fewest are told that are enough.
TEST(MemoryCommand, AsManyRanksAreToldAsAreEnough) {
  const std::string call =
      "memory --world-size 64 --tensor-model-parallel-size 2 --sequence-parallel --num-layers 8 "
      "--hidden-size 1024 "
      "--num-attention-heads 16 --vocab-size 512 --position-embedding-type rope --seq-length 65536 "
      "--micro-batch-size 1 ";
  const std::int64_t of_four = document_of(call + "--context-parallel-size 4")["stages"][0]["peak_bytes"];
  const test::RunResult result = test::run(call + fmt::format("--gpu-memory {}", of_four));
  EXPECT_NE(result.out.find("With --context-parallel-size 4 it needs"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("--context-parallel-size 2"), std::string::npos) << result.out;
}

/// A model of some GiB, of which a change leaves more or less than 2 GiB.
const std::string kLarge =
    "memory --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50257 --seq-length 4096 "
    "--position-embedding-type rope --disable-bias-linear --no-create-attention-mask-in-dataloader "
    "--hidden-dropout 0 --attention-dropout 0 ";

std::int64_t peak_of(const std::string& words) { return document_of(words)["stages"][0]["peak_bytes"]; }

std::vector<Help> helps_with(const std::string& words, std::int64_t memory) {
  return helps_of(test::run(words + fmt::format(" --gpu-memory {}", memory)).out);
}

/// Returns what is said of the first change that begins with these words; "" if it is not told.
std::string said_of(const std::vector<Help>& helps, const std::string& beginning) {
  for (const Help& help : helps)
    if (help.options.starts_with(beginning)) return help.options + ": " + help.judgement;
  return "";
}

/// The largest microbatch is told that leaves enough, and where none does, the largest one that fits.
TEST(MemoryCommand, EachSmallerMicrobatchIsTried) {
  const std::string all = kLarge + "--world-size 8 --micro-batch-size ";
  const auto said = [&](std::int64_t memory) {
    return said_of(helps_with(all + "8", memory), "--micro-batch-size");
  };
  EXPECT_EQ(said(peak_of(all + "4") + (std::int64_t{3} << 30U)), "--micro-batch-size 4: fits.");
  EXPECT_EQ(said(peak_of(all + "4")), "--micro-batch-size 2: fits.");
  EXPECT_EQ(said(peak_of(all + "1")), "--micro-batch-size 1: fits only just.");
  EXPECT_EQ(said(peak_of(all + "1") - 1), "--micro-batch-size 1: does not fit.");
}

/// Where a block of layers is not enough, all of them are told alone.
TEST(MemoryCommand, ABlockOfLayersIsToldIfItFits) {
  const std::string all = kLarge + "--world-size 8 --micro-batch-size 8 ",
                    full = "--recompute-granularity full ";
  const std::string uniform = full + "--recompute-method uniform --recompute-num-layers 1";
  const std::string block = full + "--recompute-method block --recompute-num-layers 14";
  EXPECT_EQ(said_of(helps_with(all, peak_of(all + block)), block), block + ": fits only just.");
  const std::vector<Help> helps = helps_with(all, peak_of(all + uniform) - 1);
  EXPECT_EQ(said_of(helps, full), uniform + ": does not fit.");
}

/// Tensor-parallel ranks of several nodes are not told. From one rank on, sequence parallelism is told with
/// them, and that experts stay whole.
TEST(MemoryCommand, TensorParallelRanksAreThoseOfANode) {
  const std::string all = kLarge + "--world-size 32 --micro-batch-size 8 --sequence-parallel ";
  const auto said = [](const std::string& words, std::int64_t memory) {
    return said_of(helps_with(words, memory), "--tensor-model-parallel-size");
  };
  const std::string of_eight = all + "--tensor-model-parallel-size 8 ";
  EXPECT_EQ(said(of_eight, 1'000'000'000), "");
  EXPECT_EQ(said(of_eight + "--gpus-per-node 16 ", 1'000'000'000),
            "--tensor-model-parallel-size 16: does not fit.");
  const std::string experts = kLarge +
                              "--world-size 8 --micro-batch-size 4 --num-experts 8 "
                              "--expert-model-parallel-size 8 ";
  const std::string change =
      "--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1";
  EXPECT_EQ(said(experts, peak_of(experts + change) + (std::int64_t{2} << 30U)), change + ": fits.");
}

/// The fused loss makes a second copy of the logits.
TEST(MemoryCommand, LeavingTheFusedLossOutIsTold) {
  const std::string all = kLarge + "--world-size 8 --micro-batch-size 8 ";
  const std::string out =
      test::run(all + fmt::format("--cross-entropy-loss-fusion --gpu-memory {}", peak_of(all))).out;
  EXPECT_NE(out.find("  Without --cross-entropy-loss-fusion it needs"), std::string::npos) << out;
}

/// Moments in bf16 are told where the narrower main parameters alone are not enough.
TEST(MemoryCommand, NarrowerStatesAreTold) {
  const std::string all = kLarge + "--world-size 1 --micro-batch-size 1 ";
  const std::string aware = "--use-precision-aware-optimizer";
  const std::string narrow = aware + " --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16";
  EXPECT_EQ(said_of(helps_with(all, peak_of(all + aware)), aware), aware + ": fits only just.");
  EXPECT_EQ(said_of(helps_with(all, peak_of(all + narrow)), aware), narrow + ": fits only just.");
}

TEST(MemoryCommand, WhatNoRecomputationMakesLessIsSaid) {
  const std::string all = kLarge + "--world-size 8 --micro-batch-size 8 ";
  const std::int64_t held = document_of(all)["stages"][0]["static_bytes"];
  const auto said = [&](std::int64_t memory) {
    return test::run(all + fmt::format("--gpu-memory {}", memory)).out.find(" between steps, which ") !=
           std::string::npos;
  };
  EXPECT_FALSE(said(held));
  EXPECT_TRUE(said(held - 1));
}

/// A run that recomputes whole layers in another way is told to do it one by one.
TEST(MemoryCommand, FullRecomputationOfEachLayerIsToldToOthers) {
  const std::string finest =
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  const auto told = [&](const std::string& options) {
    return test::run(kModel + options + " --gpu-memory 900MB").out.find("With " + finest) !=
           std::string::npos;
  };
  EXPECT_TRUE(told("--recompute-granularity full --recompute-method block --recompute-num-layers 1"));
  EXPECT_TRUE(told("--recompute-granularity full --recompute-method uniform --recompute-num-layers 8"));
  EXPECT_FALSE(told(finest));
}

TEST(MemoryCommand, WhereMegatronShardsInAnotherWayTheDistributedOptimizerIsNotTold) {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads "
      "16 "
      "--seq-length 512 --max-position-embeddings 512 --vocab-size 32000 --micro-batch-size 1 --bf16 ";
  const auto said = [&](const std::string& more) {
    const test::TemporaryFile file("run.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=8\n" + script + more);
    const test::RunResult result = test::run("memory --gpu-memory 500MB --from " + file.path());
    return result.out + result.err;
  };
  EXPECT_NE(said("").find("With --use-distributed-optimizer"), std::string::npos);
  for (const char* other : {"--use-torch-fsdp2 --no-gradient-accumulation-fusion --ckpt-format torch_dist "
                            "--untie-embeddings-and-output-weights",
                            "--optimizer muon"}) {
    EXPECT_EQ(said(other).find("With --use-distributed-optimizer"), std::string::npos) << other;
    EXPECT_NE(said(other).find("What is counted does not fit"), std::string::npos) << said(other);
  }
}

TEST(MemoryCommand, TheAllgatherDispatcherHoldsTheTokensOfAllRanks) {
  const std::string experts =
      "memory --world-size 16 --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 "
      "--seq-length 4096 --position-embedding-type rope --num-experts 16 --expert-model-parallel-size 4 "
      "--disable-bias-linear --micro-batch-size 1 --moe-token-dispatcher-type ";
  const auto held = [&](const std::string& dispatcher) {
    return document_of(experts + dispatcher)["stages"][0]["static_bytes"].get<std::int64_t>();
  };
  EXPECT_EQ(held("allgather") - held("alltoall"), 2 * 4 * 4096 * 1024);
}

TEST(MemoryCommand, WhatWouldHelpExpertsIsARunThatMegatronAccepts) {
  const test::RunResult result = test::run(
      "memory --world-size 16 --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 "
      "--seq-length 4096 --position-embedding-type rope --num-experts 16 --expert-model-parallel-size 4 "
      "--expert-tensor-parallel-size 1 --micro-batch-size 1 --bf16 --gpu-memory 1GB");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  std::vector<std::string> options;
  for (const Help& help : helps_of(result.out)) options.push_back(help.options);
  EXPECT_NE(std::ranges::find(options, "--tensor-model-parallel-size 8 --sequence-parallel"), options.end());
  EXPECT_NE(std::ranges::find(options, "--expert-model-parallel-size 16"), options.end());
}

TEST(MemoryCommand, WhatWouldHelpARunHasMegatronsWords) {
  const test::TemporaryFile file(
      "run.sh",
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
      "--max-position-embeddings 512 --vocab-size 32000 --micro-batch-size 1 --bf16\n");
  const test::RunResult result = test::run("memory --world-size 8 --gpu-memory 500MB --from " + file.path());
  std::vector<std::string> options;
  for (const Help& help : helps_of(result.out)) options.push_back(help.options);
  EXPECT_NE(std::ranges::find(options, "--use-distributed-optimizer"), options.end()) << result.out;
  EXPECT_EQ(result.out.find("no-distributed-optimizer"), std::string::npos) << result.out;
}

/// Beside --recompute-activations, Megatron refuses the method of full recomputation.
TEST(MemoryCommand, WhatMustBeLeftOutForAChangeIsTold) {
  const test::TemporaryFile file(
      "run.sh",
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
      "--max-position-embeddings 512 --vocab-size 32000 --micro-batch-size 4 --recompute-activations\n");
  const std::string out = test::run("memory --world-size 8 --gpu-memory 500MB --from " + file.path()).out;
  EXPECT_NE(out.find("  Without --recompute-activations and with --recompute-granularity full "),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("  With --recompute-granularity selective --recompute-modules core_attn mlp it needs"),
            std::string::npos)
      << out;
}

TEST(MemoryCommand, OptionsThatOnlyMemoryReadsAreUsed) {
  const test::TemporaryFile file(
      "run.sh",
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --vocab-size 100 --micro-batch-size 1 --bf16 --hidden-dropout 0.0 "
      "--cross-entropy-loss-fusion --attention-backend flash --qk-layernorm --lr 1\n");
  const ordered_json from = document_of("memory --world-size 2 --from " + file.path())["from"];
  for (const char* flag :
       {"--hidden-dropout", "--cross-entropy-loss-fusion", "--attention-backend", "--qk-layernorm"})
    EXPECT_TRUE(from["used"].contains(flag)) << flag;
  EXPECT_EQ(from["without_effect"], ordered_json::parse(R"(["--lr"])"));
}

TEST(MemoryCommand, ArgumentsThatAreNotCountedAreNamed) {
  const std::string arguments =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 "
      "--vocab-size 100 --micro-batch-size 1 --bf16 ";
  const auto named = [&](const std::string& more) {
    const test::TemporaryFile file("run.sh", "torchrun pretrain_gpt.py " + arguments + more + "\n");
    return document_of("memory --world-size 2 --from " + file.path())["not_modelled"];
  };
  EXPECT_EQ(named(""), ordered_json::array());
  EXPECT_EQ(named("--multi-latent-attention --qk-layernorm --position-embedding-type rope"),
            ordered_json::array());
  EXPECT_EQ(named("--cuda-graph-impl none"), ordered_json::array());
  // The batch grows to the one that is counted.
  EXPECT_EQ(named("--rampup-batch-size 2 2 100 --global-batch-size 8"), ordered_json::array());
  EXPECT_EQ(named("--cuda-graph-impl local --fp8-format hybrid"),
            ordered_json::array({"--cuda-graph-impl", "--fp8-format"}));
  EXPECT_EQ(named("--fp32-residual-connection"), ordered_json::array({"--fp32-residual-connection"}));
  EXPECT_EQ(named("--num-experts 4 --moe-apply-probs-on-input"),
            ordered_json::array({"--moe-apply-probs-on-input"}));
  EXPECT_EQ(named("--num-experts 4 --moe-input-jitter-eps 0.5"),
            ordered_json::array({"--moe-input-jitter-eps"}));
  const test::TemporaryFile file("run.sh", "torchrun pretrain_gpt.py " + arguments + "--fp8-format hybrid\n");
  EXPECT_NE(test::run("memory --world-size 2 --from " + file.path())
                .out.find("warning [not_modelled] --fp8-format hybrid"),
            std::string::npos);
}

TEST(MemoryCommand, ArgumentsThatNobodyKnowsAreWarnedOf) {
  const std::string arguments =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 "
      "--vocab-size 100 --micro-batch-size 1 --bf16 ";
  const auto said = [&](const std::string& more) {
    const test::TemporaryFile file("run.sh", "torchrun pretrain_gpt.py " + arguments + more + "\n");
    return test::run("memory --world-size 2 --from " + file.path()).out;
  };
  EXPECT_EQ(said("").find("warning"), std::string::npos);
  const std::string warned = said("--dense-layers 1 --heads-kv 2 ${MORE_ARGS}");
  EXPECT_NE(warned.find("warning [unknown_arguments]"), std::string::npos) << warned;
  EXPECT_NE(warned.find("--dense-layers, --heads-kv"), std::string::npos) << warned;
  EXPECT_NE(warned.find("warning [unresolved_words]"), std::string::npos) << warned;
  EXPECT_NE(warned.find("line 1: ${MORE_ARGS}"), std::string::npos) << warned;
}

TEST(MemoryCommand, ARunThatTrainsNoGptIsWarnedOf) {
  const auto said = [&](const std::string& script, const std::string& more = "") {
    const test::TemporaryFile file(
        "run.sh", "torchrun " + script +
                      " --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                      "--max-position-embeddings 32 --vocab-size 100 --micro-batch-size 1 --bf16 " +
                      more + "\n");
    return test::run("memory --world-size 2 --from " + file.path()).out;
  };
  for (const char* script :
       {"pretrain_gpt.py", "my/bert/train.py", "pretrain_expert5.py", "-m retrofit.train"})
    EXPECT_EQ(said(script).find("warning"), std::string::npos) << script;
  for (const char* script :
       {"tools/pretrain_bert.py", "pretrain_t5.py", "pretrain_mamba.py", "pretrain_vlm.py"})
    EXPECT_NE(said(script).find("warning [other_model]"), std::string::npos) << script;
  EXPECT_NE(said("pretrain_bert.py").find("the model of pretrain_bert.py is a BERT by its name"),
            std::string::npos);
  const std::string generates = "--inference-dynamic-batching-buffer-size-gb 20";
  EXPECT_NE(said("gpt_dynamic_inference.py").find("warning [no_training]"), std::string::npos);
  EXPECT_NE(said("gpt.py", generates).find("warning [no_training]"), std::string::npos);
  EXPECT_EQ(said("gpt.py", generates + " --train-iters 5").find("warning [no_training]"), std::string::npos);
}

TEST(MemoryCommand, ARunIsReadWithItsKernels) {
  const std::string arguments =
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--max-position-embeddings 32 --seq-length 32 --vocab-size 100 --micro-batch-size 1 --bf16 ";
  const auto activations = [&](const std::string& more) {
    const test::TemporaryFile file("run.sh", arguments + more + "\n");
    const ordered_json document = document_of("memory --world-size 2 --from " + file.path());
    return document["stages"][0]["parts"]["activations"].get<std::int64_t>();
  };
  const std::int64_t scores = 4 * 32 * 32;
  const std::int64_t usual = activations("");
  EXPECT_EQ(activations("--attention-backend unfused") - usual, 4 * (5 * scores - 4 * 4 * 32));
  EXPECT_EQ(activations("--attention-backend unfused --attention-dropout 0.0") - usual,
            4 * (2 * scores - 4 * 4 * 32));
  const std::string local = "--transformer-impl local --no-masked-softmax-fusion ";
  EXPECT_EQ(activations(local + "--attention-softmax-in-fp32") - activations(local), 4 * 2 * scores);
  EXPECT_EQ(activations(local + "--apply-query-key-layer-scaling"),
            activations(local + "--attention-softmax-in-fp32"));
  EXPECT_EQ(usual - activations("--hidden-dropout 0.0"), (2 * 4 + 1) * 64 * 32);
  EXPECT_EQ(activations("--no-bias-swiglu-fusion"), usual);
  EXPECT_EQ(activations("--swiglu --no-bias-swiglu-fusion") - activations("--swiglu"), 4 * 2 * 2 * 128 * 32);
  EXPECT_EQ(activations("--swiglu --no-bias-swiglu-fusion --use-te-activation-func"),
            activations("--swiglu"));
}

TEST(MemoryCommand, OnlyLearnedPositionsHaveParameters) {
  const std::string arguments =
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--max-position-embeddings 512 --seq-length 32 --vocab-size 100 --micro-batch-size 1 --bf16 ";
  const auto parameters = [&](const std::string& type) {
    const test::TemporaryFile file("run.sh", arguments + "--position-embedding-type " + type + "\n");
    const ordered_json document = document_of("memory --world-size 2 --from " + file.path());
    return document["stages"][0]["parts"]["parameters"].get<std::int64_t>();
  };
  const std::int64_t rotary = parameters("rope");
  for (const char* type : {"yarn", "mrope --mrope-section 2 3 3", "relative", "none"})
    EXPECT_EQ(parameters(type), rotary) << type;
  EXPECT_EQ(parameters("learned_absolute") - rotary, 2 * 64 * 512);
}

TEST(MemoryCommand, ArgumentsThatStandForOthersAreThem) {
  const auto stage = [&](const std::string& more) {
    const test::TemporaryFile file(
        "run.sh",
        "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--max-position-embeddings 32 --vocab-size 100 --micro-batch-size 1 --bf16 --num-experts 2 "
        "--moe-shared-expert-intermediate-size 32 --disable-bias-linear " +
            more + "\n");
    const ordered_json document = document_of("memory --world-size 2 --from " + file.path());
    EXPECT_EQ(document["not_modelled"], ordered_json::array());
    return document["stages"][0]["parts"];
  };
  EXPECT_EQ(stage("--quick-geglu"), stage("--swiglu --ffn-hidden-size 256 --no-bias-swiglu-fusion"));
  EXPECT_EQ(stage("--moe-layer-recompute"),
            stage("--recompute-granularity selective --recompute-modules core_attn moe"));
  EXPECT_EQ(stage("--moe-layer-recompute --recompute-granularity selective --recompute-modules layernorm"),
            stage("--recompute-granularity selective --recompute-modules layernorm moe"));
  EXPECT_NE(stage("--moe-layer-recompute"), stage("--recompute-granularity selective"));
}

TEST(MemoryCommand, ReplayJudgesWithTheSameFigure) {
  const std::string options = kModel.substr(kModel.find("--")) + "--train-iters 0 --layout-only ";
  const ordered_json stage = document_of(kModel)["stages"][0];
  const ordered_json replayed = document_of("replay " + options)["scenarios"][0]["memory"]["stages"][0];
  EXPECT_EQ(replayed, stage);
  const ordered_json judged = document_of("replay " + options + "--gpu-memory 1GB", 1)["scenarios"][0];
  EXPECT_EQ(judged["verdict"], "falsified");
}

// 80 GB are 74.5 GiB, but a GPU that is sold with them has nearly 80 GiB.
TEST(MemoryCommand, ANumberOfGBMayBeThatOfGiB) {
  const std::string model =
      "memory --world-size 8 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 50257 "
      "--seq-length 4096 ";
  const auto told = [&](std::int64_t gigabytes) {
    return test::run(model + fmt::format("--gpu-memory {}GB", gigabytes))
               .out.find(fmt::format("A GPU that is sold with {0} GB may have nearly {0} GiB", gigabytes)) !=
           std::string::npos;
  };
  const std::int64_t peak = document_of(model)["stages"][0]["peak_bytes"];
  const std::int64_t gigabytes = peak / 1'000'000'000;
  ASSERT_GT(gigabytes, 14) << "a GiB more for each GB is more than one GB";
  EXPECT_TRUE(told(gigabytes));
  EXPECT_FALSE(told(gigabytes * 9 / 10));
  EXPECT_FALSE(told(gigabytes + 1)) << "it fits";
}

// What is moved to the host leaves less than is counted: a run whose count fits does so.
TEST(MemoryCommand, WhatIsMovedToTheHostLeavesNoDoubtOfARunThatFits) {
  const auto judged = [](const std::string& arguments, const std::string& memory) {
    const test::TemporaryFile file(
        "moved.sh",
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
        "--num-attention-heads 16 --vocab-size 50257 --seq-length 1024 --max-position-embeddings "
        "1024 --micro-batch-size 4 --bf16 --use-distributed-optimizer "
        "--use-precision-aware-optimizer " +
            arguments);
    return test::run("memory --gpu-memory " + memory + " --from " + file.path()).out;
  };
  const std::string moved = "--optimizer-cpu-offload --optimizer-offload-fraction 0.5";
  const std::string fits = judged(moved, "80GB");
  EXPECT_NE(fits.find("It fits: "), std::string::npos) << fits;
  EXPECT_NE(
      fits.find(" --optimizer-cpu-offload, --optimizer-offload-fraction are not modelled exactly, but cannot "
                "change this."),
      std::string::npos)
      << fits;
  EXPECT_NE(judged(moved, "1GB").find("What is counted does not fit"), std::string::npos);
  EXPECT_NE(judged(moved + " --fp8-format hybrid", "4GB").find("What is counted fits"), std::string::npos);
}

}  // namespace
