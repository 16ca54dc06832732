// Proves that --from reads the runs of Megatron's functional tests: every argument is accounted for, and the
// values after Megatron's defaults and rules are those that Megatron itself computes
// (tests/oracle/runs.jsonl).

#include "verify/program/run_from.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/run.h"
#include "verify/run_arguments/argument_table.h"

namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> lines() {
  std::ifstream stream("tests/oracle/runs.jsonl");
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  return lines;
}

/// The flags as the YAML of a functional test: "  --num-layers: 12".
std::string yaml_of(const ordered_json& flags) {
  std::string text = "MODEL_ARGS:\n";
  for (const auto& [name, value] : flags.items()) text += "  --" + name + ": " + value.dump() + "\n";
  return text;
}

ordered_json shown(const std::string& command, const std::string& text, std::int64_t world,
                   int* code = nullptr) {
  const test::TemporaryFile file("run.yaml", text);
  const test::RunResult result = test::run(std::vector<std::string>{
      command, "--from", file.path(), "--world-size", std::to_string(world), "--format", "json"});
  if (code != nullptr) *code = result.exit_code;
  EXPECT_TRUE(ordered_json::accept(result.out)) << result.out << result.err;
  return ordered_json::parse(result.out);
}

std::string canonical(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Whether a text says that something was refused for this reason.
bool says(const std::string& text, const std::string& code) {
  return text.find("[" + code + "]") != std::string::npos;
}

TEST(RunFrom, EveryArgumentOfEveryRunIsAccountedFor) {
  int shown_groups = 0;
  for (const ordered_json& line : lines()) {
    int code = 0;
    const std::int64_t world = line["world"].is_null() ? 8 : line["world"].get<std::int64_t>();
    const ordered_json document = shown("groups", yaml_of(line["flags"]), world, &code);
    shown_groups += code == 0 ? 1 : 0;
    if (code != 0) {
      const std::string refused = document["error"]["code"];
      EXPECT_TRUE(refused == "dense_div" || refused == "expert_div") << line["name"] << " " << refused;
    }
    const ordered_json& from = document["from"];
    EXPECT_EQ(from["kind"], "yaml");
    EXPECT_EQ(from["unknown"], ordered_json::array()) << line["name"];
    std::set<std::string> told;
    for (const auto& [name, value] : from["used"].items()) told.insert(name);
    for (const auto& [name, value] : from["not_modelled"].items()) told.insert(name);
    for (const auto& name : from["without_effect"]) told.insert(name.get<std::string>());
    for (const auto& [name, value] : line["flags"].items()) {
      if (value == ordered_json(false) || value.is_null()) continue;
      EXPECT_TRUE(told.contains("--" + canonical(name))) << line["name"] << " " << name;
    }
  }
  // The others do not fit the world that their recipe says, or the 8 ranks that are assumed without one.
  EXPECT_EQ(shown_groups, 205);
}

TEST(RunFrom, EffectiveValuesAreMegatrons) {
  int checked = 0;
  for (const ordered_json& line : lines()) {
    if (!line.contains("effective")) continue;
    ++checked;
    ordered_json flags = line["flags"];
    for (const auto& [name, value] : line["supplied"].items()) flags[name] = value;
    const ordered_json document = shown("groups", yaml_of(flags), line["oracle_world"].get<std::int64_t>());
    for (const auto& [name, value] : line["effective"].items()) {
      EXPECT_EQ(document["effective"][name], value) << line["name"] << " " << name;
    }
  }
  EXPECT_EQ(checked, 141);
}

TEST(RunFrom, TheTableNamesAtLeastFourHundredArgumentsOnce) {
  const std::vector<std::string> names = verify::argument_names();
  EXPECT_GE(names.size(), 400U);
  std::set<std::string> seen;
  for (const std::string& name : names) EXPECT_TRUE(seen.insert(name).second) << name;
}

/// Megatron takes each of these, so that nobody is told that it would stop.
TEST(RunFrom, ArgumentsOfMegatronCore019AreKnown) {
  for (const char* name :
       {"high-priority-a2a-comm-stream", "moe-permute-fusion-into-hybridep", "enable-ft-package",
        "use-grouped-gemm-for-shared-expert", "flight-recorder-dump-path", "moe-paged-stash",
        "async-ckpt-cpu-priority", "moe-router-quantile-balancing-ema", "mlp-chunks-for-training"})
    EXPECT_NE(verify::find_argument(name), nullptr) << name;
}

constexpr const char* kScript =
    "TP=2\nARGS=(--num-layers 4 --hidden-size 64 --num-attention-heads 8 --seq-length 16)\n"
    "torchrun --nnodes ${NNODES} --nproc_per_node 4 pretrain_gpt.py ${ARGS[@]} "
    "--tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --lr 1 --num-layerz 4 "
    "--micro-batch-size 1 --max-position-embeddings 16\n";

TEST(RunFrom, WhatIsUnresolvedIsAskedForAndSet) {
  const test::TemporaryFile file("run.sh", kScript);
  const test::RunResult asked = test::run(std::vector<std::string>{"groups", "--from", file.path()});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_TRUE(says(asked.err, "run_unresolved")) << asked.err;
  EXPECT_NE(asked.err.find("--set NNODES=VALUE"), std::string::npos) << asked.err;
  const test::RunResult set =
      test::run(std::vector<std::string>{"groups", "--from", file.path(), "--set", "NNODES=2"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_NE(set.out.find("8 ranks (--nnodes 2 x --nproc_per_node 4 of torchrun, line 3)"), std::string::npos)
      << set.out;
  EXPECT_NE(set.out.find("--num-layerz in line 3; the nearest name is --num-layers"), std::string::npos)
      << set.out;
  EXPECT_NE(set.out.find("8 ranks: tp 2, cp 1, dp 2, pp 2"), std::string::npos) << set.out;
  const test::RunResult given =
      test::run(std::vector<std::string>{"groups", "--from", file.path(), "--world-size", "16"});
  EXPECT_EQ(given.exit_code, 0) << given.err;
}

TEST(RunFrom, WhatHasNoEffectIsNotAskedFor) {
  const test::TemporaryFile file("run.sh",
                                 "torchrun --nproc_per_node 2 x.py --num-layers 2 --load $1 --save $1/$2 "
                                 "--train-samples 10_000 --global-batch-size 1_6 $MORE $MORE\n");
  const test::RunResult result =
      test::run(std::vector<std::string>{"groups", "--verbose", "--from", file.path()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("3 more in values that have no effect"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("unresolved (1)        line 1: $MORE"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("global-batch-size 16,"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("--set 1=VALUE"), std::string::npos) << result.out;
}

TEST(RunFrom, NumbersThatAreNotKnownAreNotJudged) {
  const std::string model =
      "torchrun --nproc_per_node 2 x.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size "
      "128 "
      "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --save $DIR ";
  const auto code_of = [&](const std::string& more) {
    const test::TemporaryFile file("run.sh", model + more + "\n");
    return test::run(std::vector<std::string>{"replay", "--layout-only", "--from", file.path()}).exit_code;
  };
  EXPECT_EQ(code_of("--save-interval $EVERY --train-samples $((TOKENS / 16))"), 0);
  EXPECT_EQ(code_of("--train-samples $((TOKENS / 16))"), 2);
  EXPECT_EQ(code_of("--save-interval 5 --train-samples many"), 2);
}

TEST(RunFrom, WhatIsNotModelledTakesItsRowsAndNoOthers) {
  const std::string model =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 128 --seq-length 16 "
      "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 ";
  const auto rows_without = [&](const std::string& more) {
    const test::TemporaryFile file("run.txt", model + more);
    const test::RunResult result = test::run(std::vector<std::string>{
        "replay", "--layout-only", "--from", file.path(), "--world-size", "2", "--format", "json"});
    const ordered_json report = ordered_json::parse(result.out)["scenarios"][0];
    std::string rows;
    for (const ordered_json& absent : report["absent"]) {
      if (absent["reason"] != "--layout-only") rows += absent["check"].get<std::string>() + " ";
    }
    return rows;
  };
  EXPECT_EQ(rows_without("--kv-channels 16"), "");
  EXPECT_EQ(rows_without("--kv-channels 32"), "");
  EXPECT_EQ(rows_without("--disable-bias-linear --add-qkv-bias"), "");
  EXPECT_EQ(rows_without("--qk-layernorm"), "");
  EXPECT_EQ(rows_without("--window-size 128,0 --window-attn-skip-freq 2"), "");
  const std::string latent = "--multi-latent-attention --no-rope-fusion ";
  EXPECT_EQ(rows_without(latent), "");
  EXPECT_EQ(rows_without(latent + "--window-size 128,0"), "training ");
  EXPECT_EQ(rows_without(latent + "--transformer-impl local"), "training ");
  EXPECT_EQ(rows_without("--fp8-format hybrid"), "training memory ");
  EXPECT_EQ(rows_without("--use-megatron-fsdp --ckpt-format fsdp_dtensor"), "memory ");
  EXPECT_EQ(rows_without("--rampup-batch-size 2 2 100"), "training ");
  EXPECT_EQ(rows_without("--decoder-seq-length 8"), "");
  EXPECT_EQ(rows_without("--decoder-seq-length 8 --decoder-num-layers 2"), "training layers memory ");
  EXPECT_EQ(rows_without("--hybrid-layer-pattern M-M-"), "training layers memory ");
}

TEST(RunFrom, SaysWhatADecoderAndARampAre) {
  const test::TemporaryFile file("run.txt",
                                 "--decoder-num-layers 2 --decoder-seq-length 8 --rampup-batch-size 2 2 100");
  const test::RunResult result = test::run(
      std::vector<std::string>{"groups", "--from", file.path(), "--world-size", "2", "--format", "json"});
  const ordered_json from = ordered_json::parse(result.out)["from"];
  const auto says_of = [&](const char* name, const char* sentence) {
    return from["not_modelled"][name].dump().find(sentence) != std::string::npos;
  };
  EXPECT_TRUE(says_of("--decoder-seq-length", "a decoder beside an encoder (T5)")) << from["not_modelled"];
  EXPECT_TRUE(says_of("--rampup-batch-size", "have --step-batch-size-schedule instead"))
      << from["not_modelled"];
}

TEST(RunFrom, TheMemoryIsThatOfTheRunsDtypes) {
  const std::string model =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 --seq-length 16 "
      "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 ";
  const auto memory = [&](const std::string& more) {
    const test::TemporaryFile file("run.txt", model + more);
    const test::RunResult result = test::run(
        std::vector<std::string>{"replay", "--layout-only", "--from", file.path(), "--world-size", "2"});
    const std::size_t begin = result.out.find("a rank (");
    if (begin == std::string::npos) return result.out + result.err;
    return result.out.substr(begin, result.out.find('\n', begin) - begin) + result.err;
  };
  EXPECT_EQ(memory("--bf16 --use-distributed-optimizer"), "a rank (bf16, ZeRO-1)");
  EXPECT_EQ(memory(""), "a rank (fp32, optimizer states of 8 bytes, no ZeRO-1)");
  EXPECT_EQ(memory("--bf16 --use-distributed-optimizer --use-precision-aware-optimizer "
                   "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"),
            "a rank (bf16, optimizer states of 4 bytes, ZeRO-1)");
}

TEST(RunFrom, TheVocabularyIsPaddedOnce) {
  const auto vocabulary = [](const std::string& words) {
    const test::TemporaryFile file("run.txt", "--tensor-model-parallel-size 2 " + words);
    const test::TemporaryFile scenario("run.ini", "");
    test::run(std::vector<std::string>{"replay", "--layout-only", "--from", file.path(), "--world-size", "2",
                                       "--from-as", "scenario", scenario.path()});
    std::ifstream stream(scenario.path());
    std::string lines;
    for (std::string line; std::getline(stream, line);)
      if (line.find("vocab") != std::string::npos) lines += line + "; ";
    return lines;
  };
  EXPECT_EQ(vocabulary("--vocab-size 100"), "vocab-size = 100; ");
  EXPECT_EQ(vocabulary("--vocab-size 100 --make-vocab-size-divisible-by 3"),
            "make-vocab-size-divisible-by = 3; vocab-size = 100; ");
  EXPECT_EQ(vocabulary("--vocab-size 100 --padded-vocab-size 130"),
            "make-vocab-size-divisible-by = 1; vocab-size = 130; ");
}

TEST(RunFrom, TheCommandLineCountsFirst) {
  const test::TemporaryFile file("run.sh", kScript);
  const test::RunResult result = test::run(std::vector<std::string>{
      "groups", "--from", file.path(), "--world-size", "16", "--tensor-model-parallel-size", "4"});
  EXPECT_NE(result.out.find("16 ranks: tp 4"), std::string::npos) << result.out << result.err;
}

TEST(RunFrom, WritesTheEquivalentScenario) {
  const test::TemporaryFile file("run.sh", kScript);
  const test::TemporaryFile scenario("run.ini", "");
  const test::RunResult from = test::run(std::vector<std::string>{
      "layers", "--from", file.path(), "--world-size", "8", "--from-as", "scenario", scenario.path()});
  EXPECT_EQ(from.exit_code, 0) << from.err;
  const test::RunResult again = test::run(std::vector<std::string>{"layers", scenario.path()});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(from.out.find(again.out), std::string::npos) << from.out << again.out;
  const test::RunResult unwritten =
      test::run(std::vector<std::string>{"layers", "--from", file.path(), "--world-size", "8", "--from-as",
                                         "scenario", "/no/such/folder/run.ini"});
  EXPECT_TRUE(says(unwritten.err, "from_as_file")) << unwritten.err;
  const test::RunResult form =
      test::run(std::vector<std::string>{"layers", "--from", file.path(), "--from-as", "yaml", "x"});
  EXPECT_TRUE(says(form.err, "from_as_form")) << form.err;
}

/// Returns what the replay of a launch script says.
std::string replayed(const std::string& script) {
  const test::TemporaryFile file("run.sh", script);
  const test::RunResult result =
      test::run(std::vector<std::string>{"replay", "--layout-only", "--verbose", "--from", file.path()});
  return result.out + result.err;
}

int counted_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::string kWholeScript =
    "torchrun --nnodes 2 --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 64 "
    "--num-attention-heads 8 --seq-length 16 --max-position-embeddings 16 --vocab-size 100 "
    "--micro-batch-size 2 ";

TEST(RunFrom, WhatNobodyCanReadIsWarnedOf) {
  EXPECT_EQ(replayed(kWholeScript).find("warning "), std::string::npos);
  const std::string text = replayed(kWholeScript + "--globl-batch-size 16 --mine 3 $EXTRA");
  EXPECT_NE(text.find("unknown_arguments"), std::string::npos) << text;
  EXPECT_NE(text.find("--globl-batch-size (the nearest name is --global-batch-size)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("unresolved_words"), std::string::npos) << text;
  EXPECT_NE(text.find("$EXTRA in line 1 (--set EXTRA=VALUE) may hold more arguments"), std::string::npos)
      << text;
}

TEST(RunFrom, ANodeHasTheGpusOfTheLauncher) {
  const std::string text = replayed(kWholeScript + "--tensor-model-parallel-size 8");
  EXPECT_NE(text.find("1 of 1 tp groups cross a node of 4 GPUs"), std::string::npos) << text;
}

TEST(RunFrom, ARunWithoutABatchHasOneMicrobatchOnEachReplica) {
  const std::string text = replayed(kWholeScript);
  EXPECT_NE(text.find("global batch 16 = 1 microbatch of 2 on 8 replicas"), std::string::npos) << text;
  const std::string interleaved = replayed(kWholeScript +
                                           "--pipeline-model-parallel-size 4 "
                                           "--num-layers-per-virtual-pipeline-stage 1");
  EXPECT_NE(interleaved.find("REFUSED"), std::string::npos) << interleaved;
}

/// Returns what the replay of a launch script says under further words of the command line.
std::string replayed_with(const std::string& script, const std::vector<std::string>& words) {
  const test::TemporaryFile file("run.sh", script);
  std::vector<std::string> all = {"replay", "--layout-only", "--from", file.path()};
  all.insert(all.end(), words.begin(), words.end());
  const test::RunResult result = test::run(all);
  return result.out + result.err;
}

TEST(RunFrom, TheBatchIsThatOfTheLayoutThatRuns) {
  const auto says_of = [](const std::string& script, const std::vector<std::string>& words,
                          const std::string& sentence) {
    const std::string text = replayed_with(kWholeScript + script, words);
    EXPECT_NE(text.find(sentence), std::string::npos) << text;
  };
  says_of("", {"--tensor-model-parallel-size", "2"}, "global batch 8 = 1 microbatch of 2 on 4 replicas");
  says_of("", {"--tensor-model-parallel-size", "2"},
          "without --global-batch-size Megatron takes 8: one microbatch on each of 4 replicas");
  says_of("", {"--micro-batch-size", "4"}, "global batch 32 = 1 microbatch of 4 on 8 replicas");
  const std::string decreased =
      "--global-batch-size 30 --eval-global-batch-size 16 "
      "--decrease-batch-size-if-needed ";
  says_of(decreased, {}, "global batch 16 = 1 microbatch of 2 on 8 replicas");
  says_of(decreased, {"--tensor-model-parallel-size", "2"},
          "global batch 24 = 3 microbatches of 2 on 4 replicas");
  says_of(decreased, {"--global-batch-size", "50"}, "global batch 48 = 3 microbatches of 2 on 8 replicas");
}

TEST(RunFrom, ABatchOfMicrobatchesIsNotDerived) {
  const std::string text = replayed_with(kWholeScript, {"--num-microbatches", "3"});
  EXPECT_EQ(text.find("microbatches_batch"), std::string::npos) << text;
  EXPECT_EQ(text.find("without --global-batch-size"), std::string::npos) << text;
}

TEST(RunFrom, AnotherNameOfWhatTheCommandLineGivesDoesNotContradictIt) {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --encoder-num-layers 8 --hidden-size 64 "
      "--num-attention-heads 8 --encoder-seq-length 16 --max-position-embeddings 16 --vocab-size 100 "
      "--micro-batch-size 2 ";
  const std::string text = replayed_with(script, {"--num-layers", "4", "--seq-length", "8"});
  EXPECT_EQ(text.find("REFUSED"), std::string::npos) << text;
}

TEST(RunFrom, AScenarioBesideTheFileChangesItsLayout) {
  const test::TemporaryFile scenario("above.ini", "tensor-model-parallel-size = 2\n");
  const std::string text = replayed_with(kWholeScript, {scenario.path()});
  EXPECT_NE(text.find("global batch 8 = 1 microbatch of 2 on 4 replicas"), std::string::npos) << text;
}

TEST(RunFrom, TheSegmentsOfAHybridPatternAreChunks) {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_mamba.py --hidden-size 64 --num-attention-heads 8 "
      "--seq-length 16 --max-position-embeddings 16 --vocab-size 100 --micro-batch-size 1 "
      "--global-batch-size 16 --position-embedding-type rope --pipeline-model-parallel-size 2 "
      "--hybrid-layer-pattern 'M-|M*|M-|M*'";
  const std::string text = replayed_with(script, {});
  EXPECT_NE(text.find("interleaved"), std::string::npos) << text;
  const test::TemporaryFile file("run.sh", script);
  const auto schedule = [&](const std::string& pp) {
    return test::run("schedule --from " + file.path() + " --pipeline-model-parallel-size " + pp).out;
  };
  EXPECT_NE(schedule("2").find("interleaved: 4 microbatches in groups of 2 on 2 pipeline ranks of 2 chunks"),
            std::string::npos)
      << schedule("2");
  EXPECT_NE(schedule("4").find("1f1b: 8 microbatches on 4 pipeline ranks"), std::string::npos)
      << schedule("4");
}

TEST(RunFrom, TheLauncherGivesTheRanks) {
  const test::TemporaryFile file("run.sh", kWholeScript + "--world-size 4 --data-parallel-size 3");
  const test::RunResult result = test::run("groups --format json --from " + file.path());
  const ordered_json document = ordered_json::parse(result.out);
  EXPECT_EQ(document["world_size"], 8) << result.out;
  for (const char* argument : {"--world-size", "--data-parallel-size"}) {
    const ordered_json& without = document["from"]["without_effect"];
    EXPECT_FALSE(document["from"]["used"].contains(argument)) << argument;
    EXPECT_NE(std::find(without.begin(), without.end(), argument), without.end()) << argument;
  }
  const test::TemporaryFile bare("bare.txt", "--world-size 4 --num-layers 2");
  EXPECT_EQ(ordered_json::parse(test::run("groups --format json --from " + bare.path()).out)["world_size"],
            4);
}

TEST(RunFrom, TheNoteOnSequenceParallelismIsAboutTheTpThatRuns) {
  const std::string note = "--sequence-parallel has no effect with tp 1";
  EXPECT_NE(replayed(kWholeScript + "--sequence-parallel").find(note), std::string::npos);
  EXPECT_EQ(
      replayed_with(kWholeScript + "--sequence-parallel", {"--tensor-model-parallel-size", "2"}).find(note),
      std::string::npos);
  EXPECT_NE(replayed_with(kWholeScript + "--sequence-parallel --tensor-model-parallel-size 2",
                          {"--tensor-model-parallel-size", "1"})
                .find(note),
            std::string::npos);
}

TEST(RunFrom, TheNoteOnSequenceParallelismNeedsATpThatIsKnown) {
  const test::TemporaryFile file("run.sh",
                                 kWholeScript + "--sequence-parallel --tensor-model-parallel-size $1");
  const test::RunResult result = test::run("groups --from " + file.path());
  EXPECT_TRUE(says(result.err, "run_unresolved")) << result.err;
  EXPECT_EQ(result.out.find("has no effect with tp 1"), std::string::npos) << result.out;
}

/// Megatron prints one size for the FFNs of experts where there are none.
TEST(RunFrom, ALogOfADenseModelHasNoFfnOfExperts) {
  const auto log = [](const std::string& more) {
    std::string text = "------------------------ arguments ------------------------\n";
    for (const std::string line :
         {"hidden_size 64", "moe_ffn_hidden_size 256", "num_attention_heads 8", "num_layers 4",
          "padded_vocab_size 128", "seq_length 16", "world_size 4", "encoder_tensor_model_parallel_size 0"}) {
      const std::size_t blank = line.find(' ');
      text += "  " + line.substr(0, blank) + " " + std::string(48 - blank, '.') + line.substr(blank) + "\n";
    }
    return text + more + "-------------------- end of arguments ---------------------\n";
  };
  const std::string dense = replayed(log(""));
  EXPECT_EQ(dense.find("REFUSED"), std::string::npos) << dense;
  EXPECT_EQ(dense.find("not modelled"), std::string::npos) << dense;
  const std::string experts = replayed(log("  num_experts ..................................... 8\n"));
  EXPECT_NE(experts.find("moe-ffn-hidden-size 256"), std::string::npos) << experts;
}

TEST(RunFrom, WhatIsRefusedMayFollowFromAWordThatIsNotKnown) {
  const std::string text = replayed("torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} --bf16");
  const std::size_t unknown = text.find("REFUSED  run_unresolved"), missing = text.find("no_layer_count");
  EXPECT_NE(text.find("--set MODEL_ARGS=VALUE"), std::string::npos) << text;
  EXPECT_LT(unknown, missing) << text;
  const std::string two = replayed("torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 $SIZES ${MORE}");
  EXPECT_NE(two.find("--set SIZES=VALUE --set MORE=VALUE"), std::string::npos) << two;
  const std::string misspelt =
      replayed("MODEL_ARGS='--num-layers 2'\ntorchrun --nproc_per_node 8 pretrain_gpt.py $MODEL_ARG --bf16");
  EXPECT_NE(misspelt.find("it is not assigned in the file, but MODEL_ARGS is"), std::string::npos)
      << misspelt;
  EXPECT_EQ(replayed(kWholeScript + "$EXTRA").find("REFUSED"), std::string::npos);
}

TEST(RunFrom, AValueThatIsNotKnownIsNotJudged) {
  const std::string modules = "--recompute-granularity selective --recompute-modules ";
  EXPECT_NE(replayed(kWholeScript + modules + "all").find("recompute_unknown_module"), std::string::npos);
  EXPECT_EQ(replayed(kWholeScript + modules + "$M").find("recompute_unknown_module"), std::string::npos);
  const std::string pattern = replayed(kWholeScript + "--hybrid-layer-pattern M-$P");
  EXPECT_EQ(pattern.find("hybrid_symbol"), std::string::npos) << pattern;
  EXPECT_NE(pattern.find("--set P=VALUE"), std::string::npos) << pattern;
}

TEST(RunFrom, MegatronsRulesAreNotHeldAgainstRunsOfOtherPrograms) {
  const std::string removed = kWholeScript + "--checkpoint-activations --position-embedding-type alibi";
  EXPECT_NE(replayed(removed).find("checkpoint_activations_removed"), std::string::npos);
  const std::string deepspeed = replayed(removed + " --deepspeed --deepspeed_config c.json");
  EXPECT_EQ(deepspeed.find("REFUSED"), std::string::npos) << deepspeed;
  const std::string cut = replayed(kWholeScript + "--tensor-model-parallel-size 2 --deepspeed");
  EXPECT_EQ(cut.find("max_connections_not_1"), std::string::npos) << cut;
  EXPECT_NE(deepspeed.find("no row: --deepspeed: a run of Megatron-DeepSpeed"), std::string::npos);
  const std::string slime = replayed(
      "python3 train.py --num-layers 8 --pipeline-model-parallel-size 2 --use-precision-aware-optimizer "
      "--actor-num-nodes 2 --actor-num-gpus-per-node 8");
  EXPECT_EQ(slime.find("REFUSED"), std::string::npos) << slime;
  EXPECT_NE(slime.find("8 layers on 2 ranks"), std::string::npos) << slime;
}

TEST(RunFrom, ExpertsOfMegatronDeepspeedMayDifferFromLayerToLayer) {
  const std::string script = kWholeScript + "--deepspeed --num-experts ";
  const std::string pyramid = replayed(script + "4 4 8");
  EXPECT_EQ(pyramid.find("REFUSED"), std::string::npos) << pyramid;
  EXPECT_NE(pyramid.find("--num-experts 4 4 8: experts that differ"), std::string::npos) << pyramid;
  const test::TemporaryFile file("run.sh", script + "4 4 8 --moe-expert-parallel-size 4");
  const test::RunResult groups = test::run("groups --from '" + file.path() + "'");
  EXPECT_EQ(groups.exit_code, 0) << groups.err;
  EXPECT_NE(groups.out.find("the groups that DeepSpeed makes for experts are not shown"), std::string::npos);
  // One expert is a dense layer, and is not warned of as less than the top-k.
  EXPECT_EQ(replayed(script + "1").find("topk_above_experts"), std::string::npos);
}

TEST(RunFrom, AnOptionReplacesAnArgumentThatMegatronHasRemoved) {
  const std::string script = kWholeScript + "--checkpoint-activations";
  EXPECT_NE(replayed(script).find("checkpoint_activations_removed"), std::string::npos);
  const std::string text = replayed_with(script, {"--recompute-granularity", "full", "--recompute-method",
                                                  "uniform", "--recompute-num-layers", "1"});
  EXPECT_EQ(text.find("REFUSED"), std::string::npos) << text;
}

TEST(RunFrom, ALogHasNoVariables) {
  const test::TemporaryFile file("run.log",
                                 "------------------------ arguments ------------------------\n"
                                 "  num_layers ...................................... 4\n"
                                 "-------------------- end of arguments ---------------------\n");
  EXPECT_TRUE(says(test::run("groups --set A=1 --from " + file.path()).err, "bad_set"));
}

TEST(RunFrom, AWorldThatATestOfTheDevicesTellsIsAskedForAsThat) {
  const test::TemporaryFile file("run.sh", "torchrun --nnodes 2 --nproc_per_node=gpu x.py --num-layers 4");
  const std::string text = test::run("groups --from '" + file.path() + "'").err;
  EXPECT_NE(text.find("line 1: --nproc_per_node=gpu, it is not a whole number"), std::string::npos) << text;
  EXPECT_NE(text.find("--world-size N"), std::string::npos) << text;
}

TEST(RunFrom, AValueForAVariableThatTheFileDoesNotHaveIsRefused) {
  const test::TemporaryFile file("run.sh",
                                 "A=${TP_SIZE:-2}\ntorchrun --nproc_per_node 8 x.py --num-layers 4 "
                                 "--tensor-model-parallel-size $A $1");
  const auto set = [&](const std::string& given) {
    return test::run(std::vector<std::string>{"groups", "--from", file.path(), "--set", given});
  };
  EXPECT_TRUE(says(set("TP=8").err, "bad_set"));
  EXPECT_TRUE(says(set("TP_SIZ=8").err, "bad_set"));
  EXPECT_NE(set("TP_SIZE=8").out.find("tp 8"), std::string::npos);
  EXPECT_EQ(set("2=8").exit_code, 0);
}

TEST(RunFrom, EveryCommandSaysWhatNobodyCanRead) {
  const test::TemporaryFile flag("flag.sh", kWholeScript + "--swiglu=3");
  const test::TemporaryFile file("run.sh",
                                 kWholeScript + "--pipeline-model-parallel-size 2 --num-layerz 3 $EXTRA");
  for (const std::string command : {"groups", "layers", "schedule"}) {
    EXPECT_TRUE(says(test::run(command + " --from " + flag.path()).err, "flag_with_value")) << command;
    const test::RunResult result = test::run(command + " --from " + file.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("warning [unknown_arguments]"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("warning [unresolved_words]"), std::string::npos) << result.out;
    const ordered_json document =
        ordered_json::parse(test::run(command + " --format json --from " + file.path()).out);
    EXPECT_EQ(document["warnings"].size(), 2U) << command;
  }
}

/// The commands that show a part of a run show it, and say that Megatron would not begin.
TEST(RunFrom, EveryCommandSaysThatMegatronRefusesTheRun) {
  const test::TemporaryFile file("run.sh", kWholeScript + "--overlap-param-gather --min-lr 2 --lr 1");
  const test::TemporaryFile part("part.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4");
  for (const std::string command : {"groups", "layers", "schedule"}) {
    const test::RunResult result = test::run(command + " --from " + file.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("warning [megatron_refuses]"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("--min-lr"), std::string::npos) << result.out;
  }
  const test::RunResult silent = test::run("layers --from " + part.path());
  EXPECT_EQ(silent.out.find("megatron_refuses"), std::string::npos) << silent.out;
}

/// As in Megatron's parser the last value counts, and the program says so.
TEST(RunFrom, TheLastOfTwoValuesCounts) {
  const std::string twice = "--tensor-model-parallel-size 2 --tensor-model-parallel-size 4";
  const test::TemporaryFile file("run_twice.txt", kWholeScript + twice);
  const test::RunResult result = test::run("groups --from " + file.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("8 ranks: tp 4"), std::string::npos) << result.out;
  const char* told = "--tensor-model-parallel-size is '2' in line 1 and '4' in line 1";
  EXPECT_NE(result.out.find(told), std::string::npos) << result.out;
  const std::string replaced = replayed_with(kWholeScript + twice, {"--tensor-model-parallel-size", "1"});
  EXPECT_EQ(replaced.find("repeated_arguments"), std::string::npos) << replaced;
  EXPECT_EQ(replayed(kWholeScript + "--bf16 --bf16").find("repeated_arguments"), std::string::npos);
}

/// What a hint says to try is taken by the rule that it belongs to.
TEST(RunFrom, HintsHaveTheNumbersOfTheRun) {
  const std::string text = replayed(
      "torchrun --nnodes 5 --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 5 "
      "--micro-batch-size 2 --global-batch-size 36 --vocab-size 1000 --seq-length 512 --hidden-size 768 "
      "--decrease-batch-size-if-needed --save x --save-interval 100 --save-retain-interval 150 "
      "--log-memory-interval 7 --log-interval 5\n");
  for (const char* hint :
       {"--num-layers 25", "--num-attention-heads 12", "--max-position-embeddings 512",
        "--eval-global-batch-size 48", "--save-retain-interval 200", "--log-memory-interval 10"})
    EXPECT_NE(text.find(std::string("try                     ") + hint), std::string::npos) << hint << text;
}

TEST(RunFrom, OffloadedActivationsNeedAVariable) {
  const std::string offload = "--fine-grained-activation-offloading --offload-modules core_attn";
  EXPECT_NE(replayed(kWholeScript + offload).find("offload_v1_not_1"), std::string::npos);
  EXPECT_EQ(replayed("export NVTE_CPU_OFFLOAD_V1=1\n" + kWholeScript + offload).find("offload_v1_not_1"),
            std::string::npos);
}

TEST(RunFrom, MemorySaysWhatToTryWhereAStepFails) {
  const test::TemporaryFile file("run.sh", kWholeScript +
                                               "--tensor-model-parallel-size 2 --num-experts 4 "
                                               "--disable-bias-linear");
  const test::RunResult result = test::run("memory --from " + file.path());
  EXPECT_TRUE(says(result.err, "memory_not_counted")) << result.err;
  EXPECT_NE(result.err.find("try    --sequence-parallel"), std::string::npos) << result.err;
}

TEST(RunFrom, AFlagWithAValueIsRefused) {
  const std::string text = replayed(kWholeScript + "--bf16 True --sequence-parallel False");
  EXPECT_EQ(counted_in(text, "flag_with_value"), 2) << text;
  EXPECT_NE(text.find("--bf16: 'True' in line 1"), std::string::npos) << text;
  EXPECT_NE(text.find("--sequence-parallel: 'False' in line 1"), std::string::npos) << text;
}

/// So is a word behind a flag that has no effect here, and one that is not there, or one too many, or a list
/// with commas in the place of blanks.
TEST(RunFrom, WordsThatMegatronsParserDoesNotTakeAreRefused) {
  const std::string text = replayed(kWholeScript +
                                    "--overlap-grad-reduce True --moe-per-layer-logging 3 --lr --min-lr 0 1 "
                                    "--recompute-granularity selective --recompute-modules core_attn,mlp");
  EXPECT_NE(text.find("flag_with_value   --overlap-grad-reduce: 'True' in line 1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("flag_with_value   --moe-per-layer-logging: '3' in line 1"), std::string::npos) << text;
  EXPECT_NE(text.find("value_missing     --lr: no word after it in line 1"), std::string::npos) << text;
  EXPECT_NE(text.find("values_too_many   --min-lr: '0 1' in line 1"), std::string::npos) << text;
  EXPECT_NE(text.find("--recompute-modules core_attn mlp"), std::string::npos) << text;
  EXPECT_EQ(counted_in(text, "REFUSED"), 5) << text;
}

TEST(RunFrom, WordsThatMegatronsParserTakesAreNotRefused) {
  const std::string text = replayed(kWholeScript +
                                    "--overlap-grad-reduce $MORE --lr=0.5 --min-lr $LR --data-path a,b c,d "
                                    "--cp-comm-type p2p --spec --an-argument-of-the-script 1 2 "
                                    "--optimizer $OPT --timing-log-level ${LEVEL} --rampup-batch-size $R "
                                    "--cuda-graph-impl local --cuda-graph-modules $GRAPHS "
                                    "--lr-warmup-iters +5 --weight-decay ' +0.5' "
                                    "--seed 99999999999999999999");
  EXPECT_EQ(text.find("REFUSED"), std::string::npos) << text;
}

/// Megatron turns sequence parallelism off for the tp that runs, and not for the file's.
TEST(RunFrom, SequenceParallelismOfAFileCountsWhereTheCommandLineSetsTp) {
  const auto largest = [](const std::string& of_file, const std::string& given) {
    const test::TemporaryFile file(
        "run_sp.txt",
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 "
        "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 "
        "--micro-batch-size 4 --global-batch-size 32 --vocab-size 1024 "
        "--sequence-parallel " +
            of_file);
    std::vector<std::string> words = {"memory", "--from", file.path(), "--format", "json"};
    if (!given.empty()) words.insert(words.end(), {"--tensor-model-parallel-size", given});
    const test::RunResult result = test::run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("stages");
  };
  EXPECT_EQ(largest("--tensor-model-parallel-size 1", "2"), largest("--tensor-model-parallel-size 2", ""));
}

constexpr const char* kPasted =
    "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 "
    "--tensor-model-parallel-size 4";

/// A command answers of a pasted run what it answers of the same text in a file, but for the name.
TEST(RunFrom, WordsBehindDashesAreTheCommandLineOfARun) {
  const test::TemporaryFile file("command.txt", kPasted);
  const test::RunResult of_file = test::run(std::vector<std::string>{"layers", "--from", file.path()});
  EXPECT_EQ(of_file.exit_code, 0) << of_file.err;
  std::string expected = of_file.out;
  for (std::size_t at; (at = expected.find(file.path())) != std::string::npos;)
    expected.replace(at, file.path().size(), "the command");
  expected.replace(expected.find("a launch script"), 15, "a command line");
  EXPECT_EQ(test::run(std::string("layers -- ") + kPasted).out, expected);
  EXPECT_EQ(test::run({"layers", "--command", kPasted}).out, expected);
  const std::string alone = test::run({"layers", "--command", "--bf16"}).err;
  EXPECT_NE(alone.find("the command line of the run after '--', as in: -- --bf16"), std::string::npos)
      << alone;
  const test::RunResult of_arguments =
      test::run(std::string("layers --world-size 8 --command '--num-layers 8 --bf16'"));
  EXPECT_NE(of_arguments.out.find("8 layers"), std::string::npos) << of_arguments.err;
}

TEST(RunFrom, APastedWordKeepsWhatIsInIt) {
  const test::RunResult result =
      test::run({"layers", "--format", "json", "--", "NAME=a b", "torchrun", "--nproc_per_node", "2", "x.py",
                 "--num-layers", "4", "--save", "it's $HOME; #1 \\ \"x\" `y`", "--normalization", "RMSNorm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ordered_json from = ordered_json::parse(result.out)["from"];
  EXPECT_EQ(from["unresolved"].size(), 0U) << from;
  EXPECT_EQ(from["unknown"].size(), 0U) << from;
  EXPECT_EQ(from["used"]["--normalization"], "RMSNorm") << from;
}

/// What stands before the "=" of a pasted word is in quotes, too, unless it is the name of a variable.
TEST(RunFrom, APastedWordIsNoCommandOfItsOwn) {
  const auto layers = [](const std::string& word) {
    return test::run({"layers", "--", "torchrun", "--nproc_per_node", "4", "p.py", "--wandb-exp-name", word,
                      "--num-layers", "4", "--micro-batch-size", "1"});
  };
  for (const char* word : {"run --num-layers=8", "a #=b", "it's=4", "http://x/?a=1&b=2;c", "line\nbreak=1"})
    EXPECT_NE(layers(word).out.find("4 layers on 1 pipeline rank x 1 chunk"), std::string::npos)
        << word << layers(word).out << layers(word).err;
  EXPECT_NE(test::run({"layers", "--world-size", "4", "--", "--num-layers=4"}).out.find("4 layers"),
            std::string::npos);
  EXPECT_TRUE(
      says(test::run({"layers", "--command", "x.py --num-layers 4", "--", "--bf16"}).err, "missing_value"));
}

TEST(RunFrom, RefusalsOfAPastedCommandNameNoFile) {
  const std::string command = "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP";
  for (const std::string option : {"--set A=1 ", "", "--set TP "}) {
    const std::string refused = test::run("groups " + option + "--command '" + command + "'").err;
    EXPECT_TRUE(says(refused, option.empty() ? "run_unresolved" : "bad_set")) << refused;
    EXPECT_EQ(refused.find("--from"), std::string::npos) << refused;
    EXPECT_EQ(refused.find("file"), std::string::npos) << refused;
  }
  const std::string alone = test::run(std::string("groups --set TP=1")).err;
  EXPECT_TRUE(says(alone, "option_without_effect")) << alone;
  EXPECT_NE(alone.find("neither --from nor a command after '--' is given"), std::string::npos) << alone;
}

TEST(RunFrom, ALoopThatIsLeftTooOftenIsLeftOnce) {
  const test::TemporaryFile script(
      "loops.sh",
      "N=4\nf() { for i in 1; do break 2; done; N=8; }\nf\nfor i in 1; do continue 3; done\n"
      "torchrun --nproc_per_node 4 p.py --num-layers $N --micro-batch-size 1\n");
  const std::string out = test::run({"layers", "--from", script.path()}).out;
  EXPECT_NE(out.find("8 layers"), std::string::npos) << out;
}

TEST(RunFrom, StandardInputIsAFile) {
  const std::string program = std::string(SHARDPROOF_BINARY_DIR) + "/shardproof layers --from - < ";
  const test::TemporaryFile script("script.sh", kPasted);
  const std::string of_script = test::run_process(program + script.path()).out;
  EXPECT_NE(of_script.find("from standard input: a launch script, 2 arguments, 8 ranks"), std::string::npos)
      << of_script;
  const test::TemporaryFile log("run.log",
                                "------------------------ arguments ------------------------\n"
                                "  num_layers ...... 4\n  world_size ...... 2\n"
                                "-------------------- end of arguments ---------------------\n");
  const std::string of_log = test::run_process(program + log.path()).out;
  EXPECT_NE(of_log.find("from standard input: the log of a run"), std::string::npos) << of_log;
  const test::TemporaryFile refused(
      "refused.sh", "torchrun --nproc_per_node 8 p.py --num-layers 4 --tensor-model-parallel-size 3\n");
  const std::string replayed = test::run_process(std::string(SHARDPROOF_BINARY_DIR) +
                                                 "/shardproof replay --from - < " + refused.path())
                                   .out;
  EXPECT_NE(replayed.find("shardproof replay --from - < FILE\n"), std::string::npos) << replayed;
  const std::string of_nothing = test::run_process(program + "/dev/null").out;
  EXPECT_TRUE(says(of_nothing, "run_without_arguments")) << of_nothing;
}

TEST(RunFrom, RefusesWhatCannotBeJudged) {
  const auto refused = [](const std::string& text) {
    const test::TemporaryFile file("run_tp1.txt", text);
    const test::RunResult result =
        test::run(std::vector<std::string>{"groups", "--from", file.path(), "--world-size", "8"});
    return result.exit_code == 0 ? result.out : result.err;
  };
  EXPECT_TRUE(says(refused("--tensor-parallel-num-weight-shards 4"), "run_not_modelled"));
  EXPECT_TRUE(says(refused(std::string("--a \x00 b", 8)), "run_file_text"));
  EXPECT_TRUE(says(refused("--a \xff"), "run_file_text"));
  EXPECT_TRUE(says(refused("no argument"), "run_without_arguments"));
  const std::string list = "c = [\"torchrun\", \"x.py\", \"--tensor-model-parallel-size\", \"4\"]\n";
  EXPECT_TRUE(says(refused("# runs it\nimport subprocess\n" + list), "run_file_format"));
  EXPECT_TRUE(says(refused("#!/usr/bin/env python3\n" + list), "run_file_format"));
  EXPECT_TRUE(says(refused("args = \" \".join([\n \"--num-layers 4\"])\n"), "run_file_format"));
  EXPECT_TRUE(says(refused("# torchtitan\n[job]\ntensor_parallel_degree = 8\n"), "run_file_format"));
  EXPECT_NE(refused("--sequence-parallel").find("--sequence-parallel has no effect with tp 1"),
            std::string::npos);
  const test::RunResult missing = test::run(std::vector<std::string>{"groups", "--from", "nowhere.sh"});
  EXPECT_TRUE(says(missing.err, "run_file_missing")) << missing.err;
  const test::RunResult folder = test::run(std::vector<std::string>{"groups", "--from", "tests"});
  EXPECT_NE(folder.err.find("it is a folder"), std::string::npos) << folder.err;
  const test::RunResult set = test::run(std::vector<std::string>{"groups", "--set", "A=1"});
  EXPECT_TRUE(says(set.err, "option_without_effect")) << set.err;
  const test::RunResult both = test::run(std::string("groups --from nowhere.sh -- torchrun x.py --bf16"));
  EXPECT_TRUE(says(both.err, "two_runs")) << both.err;
  EXPECT_TRUE(says(test::run(std::string("groups --command --bf16")).err, "missing_value"));
  const test::RunResult nothing = test::run(std::string("groups --"));
  EXPECT_TRUE(says(nothing.err, "run_without_arguments")) << nothing.err;
  EXPECT_EQ(nothing.err.find("--from"), std::string::npos) << nothing.err;
  const test::TemporaryFile file("run.sh", kScript);
  const test::RunResult bad =
      test::run(std::vector<std::string>{"groups", "--from", file.path(), "--set", "A"});
  EXPECT_TRUE(says(bad.err, "bad_set")) << bad.err;
}

}  // namespace
