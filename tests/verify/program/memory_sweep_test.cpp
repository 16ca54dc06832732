// Proves what memory --sweep and --machine write: a table, a document and a page, and what they refuse.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::json;

const std::string kJob =
    "memory --world-size 8 --num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 200 "
    "--seq-length 64 --global-batch-size 16 ";
const std::string kMachine = "--machine scenarios/machines/h100-node.ini ";

json document(const std::string& words, int exit_code = 0) {
  const test::RunResult result = test::run(words + " --format json");
  EXPECT_EQ(result.exit_code, exit_code) << words << result.err << result.out;
  return json::parse(result.out);
}

TEST(MemorySweep, TheDocumentHasNumbersAsNumbers) {
  const json sweep = document(kJob + "--sweep " + kMachine);
  EXPECT_EQ(sweep["world_size"], 8);
  EXPECT_EQ(sweep["accepted"], sweep["layouts"].size());
  EXPECT_TRUE(sweep["fitting"].is_null());
  EXPECT_EQ(sweep["machine"], "h100-node");
  for (const json& layout : sweep["layouts"]) {
    for (const char* name :
         {"tensor_model_parallel_size", "data_parallel_size", "num_microbatches", "static_bytes",
          "peak_bytes", "bytes_inside_nodes", "bytes_across_nodes", "bubble", "estimated_seconds"})
      EXPECT_TRUE(layout[name].is_number()) << name << layout;
    EXPECT_EQ(layout["data_parallel_size"].get<int>() * layout["micro_batch_size"].get<int>() *
                  layout["num_microbatches"].get<int>(),
              16);
  }
  EXPECT_LE(document(kJob + "--sweep --sweep-rows 3")["layouts"].size(), 4U);  // with the own one
  EXPECT_TRUE(document(kJob + "--sweep --sweep-rows 1")["layouts"][0]["estimated_seconds"].is_null());
}

TEST(MemorySweep, TheTextSaysTheOrderAndThatTimesAreEstimates) {
  const test::RunResult plain = test::run(kJob + "--sweep --sweep-rows 2");
  EXPECT_NE(plain.out.find("by the bytes sent across nodes"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("--sweep-rows N shows more"), std::string::npos);
  EXPECT_EQ(plain.out.find("estimate"), std::string::npos);
  const test::RunResult timed = test::run(kJob + "--sweep " + kMachine);
  EXPECT_NE(timed.out.find("Times are estimates from the rates of h100-node"), std::string::npos)
      << timed.out;
}

/// A run with adapters holds less than is counted: that no layout fits is not known.
TEST(MemorySweep, AnArgumentThatHoldsLessLeavesItOpenWhetherLayoutsFit) {
  const std::string command =
      "NPROC_PER_NODE=8 megatron sft --num_layers 8 --hidden_size 64 --num_attention_heads 8 --vocab_size "
      "200 "
      "--max_length 64 --micro_batch_size 1 --global_batch_size 16 --train_type ";
  const auto asked = [&](const std::string& type, const std::string& more) {
    const test::TemporaryFile run("run.sh", command + type + "\n");
    return document("memory --from " + run.path() + " --gpu-memory 1MB " + more, type == "lora" ? 6 : 1);
  };
  for (const char* more : {"", "--sweep"}) {
    const json adapters = asked("lora", more), full = asked("full", more);
    const bool sweeps = adapters.contains("layouts");
    const auto doubt = [&](const json& answer) {
      return sweeps ? answer["layouts"][0]["doubt"] : answer["doubted_by"];
    };
    EXPECT_EQ(doubt(adapters), sweeps ? json("--train-type") : json::array({"--train-type"}));
    EXPECT_EQ(doubt(full), sweeps ? json("") : json::array());
  }
}

TEST(MemorySweep, TheOwnLayoutIsAlwaysShownWithItsPlace) {
  const json all = document(kJob + "--sweep"), some = document(kJob + "--sweep --sweep-rows 1");
  const auto own =
      std::ranges::find_if(all["layouts"], [](const json& one) { return one["is_own"].get<bool>(); });
  ASSERT_NE(own, all["layouts"].end());
  EXPECT_EQ((*own)["place"], own - all["layouts"].begin() + 1);
  EXPECT_EQ(some["layouts"].back(), *own);
}

TEST(MemorySweep, WhereNoLayoutFitsTheExitCodeSaysSo) {
  EXPECT_EQ(document(kJob + "--sweep --gpu-memory 1MB", 1)["fitting"], 0);
  EXPECT_GT(document(kJob + "--sweep --gpu-memory 80GB")["fitting"], 0);
}

TEST(MemorySweep, ThePageHasATableAndAPicture) {
  const test::TemporaryFile page("sweep.html", "");
  const test::RunResult result =
      test::run(kJob + "--sweep --gpu-memory 110MB " + kMachine + "--report " + page.path());
  ASSERT_NE(result.exit_code, 2) << result.err;
  std::ostringstream text;
  text << std::ifstream(page.path()).rdbuf();
  const std::string html = text.str();
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = html.find(part); at != std::string::npos; at = html.find(part, at + 1)) ++found;
    return found;
  };
  const std::size_t layouts = document(kJob + "--sweep")["accepted"];
  EXPECT_EQ(count("<circle"), layouts);
  EXPECT_EQ(count("class=\"part0 own\"") + count("class=\"part1 own\""), 1U);
  EXPECT_NE(html.find("seconds of a step, an estimate"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
}

TEST(MemorySweep, AllThatIsMissingIsRefusedAtOnce) {
  const test::RunResult result =
      test::run("memory --sweep --sweep-values tp=0 --machine /nowhere --format json");
  EXPECT_EQ(result.exit_code, 2);
  const json refusal = json::parse(result.out);
  std::vector<std::string> codes = {refusal["error"]["code"]};
  for (const json& further : refusal["further_errors"]) codes.push_back(further["code"]);
  EXPECT_EQ(codes, (std::vector<std::string>{"missing_option", "missing_option", "missing_option",
                                             "sweep_values", "machine_missing"}));
  for (const char* option : {"--sweep-values tp=1", "--sweep-rows 3", "--report x.html"}) {
    const test::RunResult without = test::run(kJob + option + " --format json");
    EXPECT_EQ(json::parse(without.out)["error"]["code"], "option_without_effect") << option;
  }
}

TEST(MemorySweep, WithAMachineMemoryAndScheduleEstimateTheSameStep) {
  const std::string scenario = "scenarios/published/llama3-405b-8192-gpus.ini ";
  const json memory = document("memory " + scenario + kMachine);
  const json schedule = document("schedule " + scenario + kMachine);
  EXPECT_EQ(memory["estimate"], schedule["estimate"]);
  const json& path = memory["estimate"]["critical_path_seconds"];
  double sum = 0;
  for (const auto& [name, seconds] : path.items()) sum += seconds.get<double>();
  // Steps and messages are whole numbers of nanoseconds; the critical path has fewer than 10,000.
  EXPECT_LE(std::abs(sum - memory["estimate"]["seconds"].get<double>()), 10'000.0 / 1'000'000'000);
  const test::RunResult text = test::run("schedule " + scenario + kMachine);
  EXPECT_NE(text.out.find("Estimate for h100-node: 1f1b"), std::string::npos) << text.out;
}

/// Returns the sizes of one name in the layouts that are accepted of a run of --from.
std::set<int> accepted(const std::string& of_file, const std::string& values, const std::string& size) {
  const test::TemporaryFile file(
      "swept.txt",
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 8 "
      "--vocab-size 200 --seq-length 64 --max-position-embeddings 64 --train-iters 10 --micro-batch-size 1 " +
          of_file);
  const test::RunResult result = test::run("memory --sweep --format json --from " + file.path() +
                                           " --sweep-values recompute=none " + values);
  std::set<int> sizes;
  const json sweep = json::parse(result.out);
  if (result.exit_code == 0)
    for (const json& layout : sweep["layouts"]) sizes.insert(layout[size].get<int>());
  return sizes;
}

TEST(MemorySweep, AllArgumentsOfAFileAreJudgedForEachLayout) {
  const char* pp = "pipeline_model_parallel_size";
  const char* tp = "tensor_model_parallel_size";
  const std::string batch = "--global-batch-size 32 ";
  const std::string pipelines =
      "--sweep-values tp=1 --sweep-values pp=1,2,4 --sweep-values cp=1 "
      "--sweep-values micro-batch-size=1";
  EXPECT_EQ(accepted(batch + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 "
                             "--no-overlap-p2p-communication",
                     pipelines + " --sweep-values chunks=2", pp),
            (std::set<int>{1, 4}));  // one pipeline rank has one chunk
  EXPECT_EQ(
      accepted(batch + "--pipeline-model-parallel-size 2 --defer-embedding-wgrad-compute", pipelines, pp),
      (std::set<int>{2, 4}));
  EXPECT_EQ(accepted(batch + "--pipeline-model-parallel-size 2 --cpu-offloading-num-layers 2", pipelines, pp),
            (std::set<int>{1}));
  EXPECT_EQ(accepted(batch + "--eval-global-batch-size 4", pipelines, pp), (std::set<int>{2, 4}));
  EXPECT_EQ(accepted(batch + "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap",
                     "--sweep-values tp=1,2,4 --sweep-values pp=1 --sweep-values cp=1", tp),
            (std::set<int>{2, 4}));
  EXPECT_EQ(accepted(batch + "--tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 2",
                     "--sweep-values tp=1,2 --sweep-values pp=1 --sweep-values cp=1", tp),
            (std::set<int>{2}));
}

TEST(MemorySweep, ABatchThatMegatronDecreasesIsThatOfEachLayout) {
  const test::TemporaryFile file(
      "decreased.txt",
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 8 "
      "--vocab-size 200 --seq-length 64 --max-position-embeddings 64 --train-iters 10 --micro-batch-size 1 "
      "--global-batch-size 30 --eval-global-batch-size 32 --decrease-batch-size-if-needed");
  const json sweep = document("memory --sweep --from " + file.path() +
                              " --sweep-values recompute=none --sweep-values tp=1,2 --sweep-values pp=1 "
                              "--sweep-values cp=1 --sweep-values micro-batch-size=1,2");
  std::set<std::vector<int>> found;  // dp, the microbatch, the microbatches
  for (const json& layout : sweep["layouts"])
    found.insert({layout["data_parallel_size"].get<int>(), layout["micro_batch_size"].get<int>(),
                  layout["num_microbatches"].get<int>()});
  EXPECT_EQ(found, (std::set<std::vector<int>>{{8, 1, 3}, {8, 2, 1}, {4, 1, 7}, {4, 2, 3}}));
}

TEST(MemorySweep, OptionsThatAMachineReplacesAreRefused) {
  const std::string scenario = "schedule scenarios/published/llama3-405b-8192-gpus.ini --format json ";
  const auto code_of = [&](const std::string& more) -> std::string {
    return json::parse(test::run(scenario + more).out)["error"]["code"];
  };
  EXPECT_EQ(code_of(kMachine + "--forward-cost 2"), "option_without_effect");
  EXPECT_EQ(code_of("--trace x.json"), "option_without_effect");
}

}  // namespace
