// Breaks every rule that Megatron has for arguments which the command line does not know, by one change of a
// run that holds. Refusals are compared as sets, because a change may break several rules.

#include <algorithm>
#include <cctype>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/verify/megatron_rules/broken_rows.h"
#include "tests/verify/megatron_rules/judged_run.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/run_script.h"

namespace {

using test::Codes;

constexpr const char* kDense =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size "
    "2 --pipeline-model-parallel-size 2 --global-batch-size 8";
constexpr const char* kExperts =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size "
    "2 --expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --num-experts 4 --disable-bias-linear "
    "--sequence-parallel --moe-token-dispatcher-type alltoall --moe-grouped-gemm --global-batch-size 8";
constexpr const char* kFsdp =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 --train-iters 10 --bf16 --global-batch-size 8 "
    "--use-torch-fsdp2 --untie-embeddings-and-output-weights --no-gradient-accumulation-fusion";
constexpr const char* kHybrid =
    "--hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 --max-position-embeddings 16 "
    "--micro-batch-size 1 --train-iters 10 --bf16 --tensor-model-parallel-size 2 "
    "--pipeline-model-parallel-size 2 --global-batch-size 8 --position-embedding-type rope "
    "--hybrid-layer-pattern M-|M*";

using Words = std::vector<std::string>;

void remove(Words& words, const std::string& argument) {
  const auto at = std::find(words.begin(), words.end(), argument);
  if (at == words.end()) return;
  const auto is_flag = [](const std::string& word) { return word.starts_with("--"); };
  words.erase(at, std::find_if(at + 1, words.end(), is_flag));
}

/// Returns the script of a run of `base` with these changes.
std::string script(const char* base, const std::string& more) {
  std::istringstream base_words(base), more_words(more);
  Words words{std::istream_iterator<std::string>(base_words), {}};
  std::string variables;
  for (std::string word; more_words >> word;) {
    const bool is_number = word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
    if (std::isupper(static_cast<unsigned char>(word[0])) != 0 && word.find('=') != std::string::npos) {
      variables += "export " + word + "\n";
    } else if (word.starts_with('-') && !word.starts_with("--") && !is_number) {
      remove(words, "-" + word);
    } else {
      if (word.starts_with("--")) remove(words, word);
      words.push_back(word);
    }
  }
  std::string text = variables + "torchrun pretrain_gpt.py";
  for (const std::string& word : words) text += word.starts_with("--") ? " " + word : " '" + word + "'";
  return text + "\n";
}

Codes refused(const std::string& text) { return test::judged(verify::read_run_script(text, {}), 8).refused; }

/// Megatron's parser knows no blank in such an expression, also where a shell hands it over as one word.
TEST(RunRules, ListsHaveNoBlanks) {
  for (const char* name :
       {"moe-layer-freq", "no-rope-freq", "linear-attention-freq", "window-attn-skip-freq"}) {
    std::string text = script(kExperts, "");
    text.insert(text.size() - 1, std::string(" --") + name + " '([0] * 1+[1]*3)'");
    EXPECT_EQ(refused(text), Codes({"pattern_blanks"})) << text;
  }
}

/// Megatron makes the granularity selective when it has looked at the method and the layers.
TEST(RunRules, RecomputedExpertsMayComeWithAMethod) {
  EXPECT_EQ(
      refused(script(kExperts, "--moe-layer-recompute --recompute-method block --recompute-num-layers 1")),
      Codes());
}

std::set<std::size_t> rules_broken_by(const std::string& text) {
  const verify::RunArguments run = verify::read_run_script(text, {});
  return test::broken_rules(verify::RuleFacts(verify::RunValues(run), run.environment, 8));
}

TEST(RunRules, EveryRuleIsBrokenByOneChangeOfARunThatHolds) {
  const std::map<std::string, const char*> bases = {
      {"dense", kDense}, {"experts", kExperts}, {"fsdp", kFsdp}, {"hybrid", kHybrid}};
  for (const auto& [name, base] : bases) EXPECT_EQ(refused(script(base, "")), Codes()) << name;
  std::set<std::size_t> met;
  for (const test::Broken& one : test::broken_rows("broken_runs.tsv")) {
    const std::string text = script(bases.at(one.base), one.words);
    EXPECT_EQ(refused(text), one.codes) << one.words;
    met.merge(rules_broken_by(text));
  }
  EXPECT_EQ(test::rules_but(met, &verify::MegatronRule::is_of_runs), "");
}

TEST(RunRules, WhatTheCommandLineSaysIsJudged) {
  const std::string words = script(kDense, "--padded-vocab-size 101");
  EXPECT_EQ(refused(words), Codes({"layer_divide"}));
  const test::TemporaryFile file("run.sh", words);
  const auto refusals = [&](const std::string& more) {
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "' " + more);
  };
  EXPECT_EQ(refusals("").exit_code, 2);
  EXPECT_EQ(refusals("--tensor-model-parallel-size 1").exit_code, 0);
}

TEST(RunRules, EverythingIsToldTogether) {
  const test::TemporaryFile file(
      "run.sh", script(kDense, "--fp16 --num-layers 5 --global-batch-size 9 --ckpt-format zarr"));
  const test::RunResult result =
      test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'");
  EXPECT_EQ(result.exit_code, 2);
  for (const char* told : {"fp16_and_bf16", "layers_pp_div", "microbatches_div", "bad_choice", "--fp16",
                           "parameters have one dtype"})
    EXPECT_NE(result.out.find(told), std::string::npos) << told << result.out;
  // The other commands show their part of the run.
  EXPECT_EQ(test::run("groups --world-size 8 --from '" + file.path() + "'").exit_code, 0);
}

TEST(RunRules, AValueOfAForkIsToldAsThat) {
  const auto told = [](const std::string& more) {
    const test::TemporaryFile file("run.sh", script(kDense, more));
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'").out;
  };
  const std::string balancing = told("--moe-router-load-balancing-type noaux_tc");
  EXPECT_NE(balancing.find("only MindSpeed-LLM knows this one"), std::string::npos) << balancing;
  EXPECT_NE(balancing.find("none, with --moe-router-enable-expert-bias"), std::string::npos) << balancing;
}

/// A word that changes no size refuses nothing; of a learning rate, for example, only replay does.
TEST(RunRules, WhatHasNoEffectOnWhatIsAskedIsAWarning) {
  const auto said = [](const std::string& command, const std::string& more) {
    const test::TemporaryFile file("run.sh", script(kDense, more));
    const test::RunResult result = test::run(command + " --world-size 8 --from '" + file.path() + "'");
    return std::to_string(result.exit_code) + result.out + result.err;
  };
  for (const std::string command : {"memory", "groups", "layers", "replay --layout-only"}) {
    const std::string text =
        said(command, "--optimizer adamw-bnb-8bit --tokenizer-type YuanTokenizer --load <path to model>");
    // `replay` answers for the training and the memory too: these are not proved with another optimizer.
    EXPECT_TRUE(text.starts_with(command.starts_with("replay") ? "6" : "0")) << command << text;
    for (const char* word :
         {"other_words", "'adamw-bnb-8bit'", "'YuanTokenizer'", "--load: '<path to model>'"})
      EXPECT_NE(text.find(word), std::string::npos) << command << word << text;
  }
  const std::string rates = "--lr fast --min-lr 0 1 --save x --ckpt-format zarr";
  for (const std::string command : {"memory", "groups", "layers"}) {
    const std::string text = said(command, rates);
    EXPECT_TRUE(text.starts_with("0")) << command << text;
    EXPECT_NE(text.find("megatron_refuses"), std::string::npos) << command << text;
    EXPECT_TRUE(said(command, "--hidden-size 64 32").starts_with("2")) << command;
  }
  EXPECT_TRUE(said("replay --layout-only", rates).starts_with("2"));
}

TEST(RunRules, TheExpertsOfOtherProgramsAreNotHeldToThem) {
  const auto told = [](const std::string& command) {
    const test::TemporaryFile file("run.sh", command);
    return test::run("replay --layout-only --from '" + file.path() + "'");
  };
  const std::string experts =
      " --num-experts 16 --tensor-model-parallel-size 2 --num-layers 4 --hidden-size 64 "
      "--num-attention-heads 4 "
      "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --lr 1 --train-iters 5 ";
  const auto of_deepspeed =
      told("deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --moe-expert-parallel-size 8" + experts);
  EXPECT_EQ(of_deepspeed.exit_code, 6) << of_deepspeed.out;  // its layers are not proved
  EXPECT_EQ(of_deepspeed.out.find("moe_tp_needs_sp"), std::string::npos);
  const auto of_megatron = told("torchrun --nproc_per_node 8 pretrain_gpt.py" + experts);
  EXPECT_NE(of_megatron.out.find("moe_tp_needs_sp"), std::string::npos) << of_megatron.out;
  const auto of_swift = told(
      "NPROC_PER_NODE=8 megatron sft --load a --tensor_model_parallel_size 2 --expert_model_parallel_size 4 "
      "--micro_batch_size 1 --sequence_parallel true");
  EXPECT_EQ(of_swift.exit_code, 0) << of_swift.out;
}

TEST(RunRules, WordsThatAddNothingThatCountsAreNotAskedFor) {
  const auto told = [](const std::string& more) {
    const test::TemporaryFile file("run.sh", "A=(--lr 1)\nif [ -n \"$W\" ]; then A+=(" + more +
                                                 "); fi\ntorchrun pretrain_gpt.py " + kDense +
                                                 " \"${A[@]}\"\n");
    return test::run("replay --layout-only --world-size 8 --from '" + file.path() + "'").out;
  };
  EXPECT_EQ(told("--wandb-project a --wandb-exp-name ${N:-b}").find("unresolved_words"), std::string::npos);
  for (const char* more : {"--swiglu", "--wandb-project a --swiglu", "--wandb-project $X", "--my-own 1", "$X",
                           "--wandb-project a $X"})
    EXPECT_NE(told(more).find("unresolved_words"), std::string::npos) << more;
}

TEST(RunRules, ALogIsNotHeldAgainstThem) {
  verify::RunArguments run = verify::read_run_script(script(kDense, "--encoder-num-layers 4"), {});
  EXPECT_EQ(test::judged(run, 8).refused, Codes({"two_layer_counts"}));
  run.kind = verify::RunFileKind::log;
  EXPECT_EQ(test::judged(run, 8).refused, Codes());
}

TEST(RunRules, WhatAStepOrADeviceRefusesIsWarnedOf) {
  const auto warnings = [](const char* base, const std::string& more) {
    const bool sets_connections = more.starts_with("CUDA_DEVICE_MAX_CONNECTIONS");
    const std::string all = sets_connections ? more : "CUDA_DEVICE_MAX_CONNECTIONS=1 " + more;
    const test::JudgedAsScenario judged = test::judged(verify::read_run_script(script(base, all), {}), 8);
    EXPECT_EQ(judged.refused, Codes()) << more;
    Codes names;
    if (judged.request)
      for (const sim::Warning& warning : judged.request->warnings) names.insert(warning.name);
    return names;
  };
  EXPECT_EQ(warnings(kDense, ""), Codes());
  EXPECT_EQ(warnings(kDense, "--group-query-attention --num-query-groups 6"), Codes({"groups_div"}));
  EXPECT_EQ(warnings(kExperts, "--moe-router-topk 5"), Codes({"topk_above_experts"}));
  EXPECT_EQ(warnings(kExperts, "-train-iters -sequence-parallel"), Codes({"moe_tp_needs_sp"}));
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS=8"), Codes({"max_connections_not_1"}));
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS=1"), Codes());
  EXPECT_EQ(warnings(kDense, "CUDA_DEVICE_MAX_CONNECTIONS="), Codes({"max_connections_not_1"}));
  EXPECT_EQ(warnings(kDense, "--apply-rope-fusion"), Codes({"derived_names"}));
  EXPECT_EQ(warnings(kDense, "--fp8 hybrid"), Codes({"derived_names"}));
}

}  // namespace
