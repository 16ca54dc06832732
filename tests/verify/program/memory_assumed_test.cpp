// Proves what the command memory takes for sizes that a run does not give, what it asks for, and what it says
// of arguments that it does not model exactly.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

const std::string kLayout = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ";
const std::string kSizes =
    "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 2 --bf16 ";

/// The run that a command starts on 8 ranks, or on a number that nobody says.
std::string on_eight_ranks(const std::string& arguments) {
  return "--world-size 8 -- torchrun pretrain_gpt.py " + arguments;
}
std::string of_command(const std::string& arguments) { return "-- pretrain_gpt.py " + arguments; }

ordered_json document_of(const std::string& words, int exit_code = 0) {
  const test::RunResult result = test::run("memory --format json " + words);
  EXPECT_EQ(result.exit_code, exit_code) << words << "\n" << result.err;
  return ordered_json::parse(result.out);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MemoryWithoutAVocabulary, CountsTheSameAsWithTheChosenOne) {
  const std::string run = on_eight_ranks(kLayout + kSizes);
  const ordered_json open = document_of(run), given = document_of("--vocab-size 32000 " + run);
  EXPECT_EQ(open["stages"], given["stages"]);
  EXPECT_EQ(open["vocabulary"]["base_entries"], 32000);
  EXPECT_EQ(open["vocabulary"]["padding_entries"], 256);
  EXPECT_EQ(open["vocabulary"]["slope"].size(), 2U);
  EXPECT_TRUE(open["vocabulary"]["fits_up_to_entries"].is_null());
  EXPECT_TRUE(given["vocabulary"].is_null());
  EXPECT_EQ(given["assumed"], ordered_json::array());
  const std::string text = test::run("memory " + run).out;
  EXPECT_TRUE(has(
      text,
      "The vocabulary is not known. The figures are those of 32,000 entries.\nEach 1,000 entries more take "))
      << text;
}

/// What is said of the largest vocabulary is what the run with that vocabulary has.
TEST(MemoryWithoutAVocabulary, IsJudgedByTheLargestOneThatFits) {
  const std::string run = on_eight_ranks(kLayout + kSizes);
  const auto peak = [&](std::int64_t entries) {
    const ordered_json document = document_of(fmt::format("--vocab-size {} ", entries) + run);
    return document["stages"][document["fullest_pipeline_rank"].get<std::size_t>()]["peak_bytes"]
        .get<std::int64_t>();
  };
  const auto judged = [&](std::int64_t bytes, int exit_code) {
    return document_of(fmt::format("--gpu-memory {}B ", bytes) + run, exit_code);
  };
  const ordered_json fits = judged(peak(400'128), 0);
  EXPECT_EQ(fits["fits"], true);
  EXPECT_EQ(fits["vocabulary"]["fits_up_to_entries"], 400'128);
  const ordered_json open = judged(peak(100'096), 6);
  EXPECT_TRUE(open["fits"].is_null());
  EXPECT_EQ(open["vocabulary"]["fits_up_to_entries"], 100'096);
  EXPECT_EQ(judged(peak(256) - 1, 1)["fits"], false);

  const auto said = [&](std::int64_t bytes) {
    return test::run("memory " + fmt::format("--gpu-memory {}B ", bytes) + run).out;
  };
  EXPECT_TRUE(has(said(peak(400'128)), " with every vocabulary of up to 400,128 entries: stage "));
  EXPECT_TRUE(has(said(peak(100'096)),
                  "It is not known whether it fits, because the vocabulary is not known: it fits with up to "
                  "100,096 entries. Stage "));
  EXPECT_TRUE(has(said(peak(256) - 1), "It does not fit with any vocabulary: stage "));
}

TEST(MemoryWithoutAVocabulary, TakesThatOfTheTokenizerAndSaysSo) {
  const std::string run = on_eight_ranks(
      kLayout + kSizes + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B");
  const ordered_json document = document_of(run);
  EXPECT_EQ(document["stages"], document_of("--vocab-size 128256 " + run)["stages"]);
  EXPECT_TRUE(document["vocabulary"].is_null());
  EXPECT_EQ(document["assumed"][0]["option"], "--vocab-size");
  EXPECT_EQ(document["assumed"][0]["value"], 128256);
  EXPECT_TRUE(has(test::run("memory " + run).out,
                  "The vocabulary has 128,256 entries, by --tokenizer-model meta-llama/Llama-3.1-8B ("));
}

/// A tensor that failed may have the size of the vocabulary.
TEST(MemoryWithoutAVocabulary, NamesNoTensor) {
  const test::RunResult result =
      test::run("memory --out-of-memory '1.00 GiB' " + on_eight_ranks(kLayout + kSizes));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(has(result.err, "[missing_option]") && has(result.err, "--vocab-size")) << result.err;
}

TEST(MemoryWithoutAWorld, IsThatOfTheFewestRanks) {
  const std::string experts =
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --num-experts 8 "
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --vocab-size 1000 "
      "--use-distributed-optimizer ";
  const std::string run = of_command(experts + kSizes);
  EXPECT_EQ(document_of(run)["stages"], document_of("--world-size 8 " + run)["stages"]);
  EXPECT_TRUE(has(test::run("memory " + run).out,
                  "The number of ranks is not known. The answer is for 8 ranks, the fewest that this layout "
                  "takes. The distributed optimizer of more ranks holds less on each."));
  // Four ranks are a stage of each pipeline: more replicas never hold more.
  const std::int64_t fewest = document_of(run)["stages"][0]["peak_bytes"],
                     more = document_of("--world-size 32 " + run)["stages"][0]["peak_bytes"];
  EXPECT_LT(more, fewest);
}

/// A script often starts one node where nobody has said how many. What the user gives is refused instead.
TEST(MemoryWithoutAWorld, IsTakenForAScriptThatStartsTooFewRanks) {
  const std::string run =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 4 --vocab-size 1000 " +
      kSizes;
  const test::RunResult result = test::run("memory -- " + run);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "The script starts only 8 ranks. The answer is for 32 ranks")) << result.out;
  EXPECT_EQ(document_of("-- " + run)["stages"], document_of("--world-size 32 -- " + run)["stages"]);
  EXPECT_EQ(test::run("memory --world-size 8 -- " + run).exit_code, 2);
}

TEST(MemoryOfAScript, NeedsNoNumberOfNodes) {
  const test::TemporaryFile file(
      "nodes.sh",
      "torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES pretrain_gpt.py --vocab-size 1000 " + kSizes);
  const std::string run = "--from " + file.path();
  EXPECT_EQ(document_of(run)["stages"], document_of("--world-size 1 " + run)["stages"]);
}

TEST(MemoryOfAScript, TakesOneLengthForTheOther) {
  const std::string sizes =
      "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 2 ";
  const std::string both = "--seq-length 1024 --max-position-embeddings 1024 ";
  const std::string world = "memory --format json --world-size 2 --vocab-size 1000 ";
  const ordered_json whole = ordered_json::parse(test::run(world + of_command(sizes + both)).out);
  for (const std::string one : {"--seq-length 1024 ", "--max-position-embeddings 1024 "}) {
    const ordered_json document = ordered_json::parse(test::run(world + of_command(sizes + one)).out);
    EXPECT_EQ(document["stages"], whole["stages"]) << one;
    EXPECT_EQ(document["assumed"].size(), 1U) << one;
  }
}

/// All that is asked for is in one refusal, whose last line answers it.
TEST(MemoryOfAScript, AsksForAllAtOnce) {
  const test::TemporaryFile file("asks.sh",
                                 "torchrun --nproc_per_node $GPUS pretrain_gpt.py --num-layers $LAYERS "
                                 "--hidden-size $(cat hidden) --seq-length 1024\n");
  const test::RunResult result = test::run("memory --from " + file.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err.find("refused ["), result.err.rfind("refused [")) << result.err;
  const std::string answer =
      "--set LAYERS=VALUE --hidden-size VALUE --num-attention-heads N --micro-batch-size N";
  EXPECT_TRUE(has(result.err, "try    " + answer + "\n")) << result.err;
  const test::RunResult answered = test::run(
      "memory --set LAYERS=2 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 --from " +
      file.path());
  EXPECT_EQ(answered.exit_code, 0) << answered.err;
}

/// An argument that is not modelled exactly leaves a doubt only if it may change what is said.
TEST(MemoryDoubt, IsSaidIfTheRoomIsTooSmall) {
  const auto said = [](const std::string& memory, const std::string& more) {
    return test::run("memory --vocab-size 1000 --gpu-memory " + memory + " " +
                     on_eight_ranks(kLayout + kSizes + more))
        .out;
  };
  const std::string peak = "900MB";
  EXPECT_TRUE(has(said("80GB", "--cuda-graph-impl local"), "It fits: "))
      << said("80GB", "--cuda-graph-impl local");
  EXPECT_TRUE(has(said("80GB", "--cuda-graph-impl local"),
                  " --cuda-graph-impl is not modelled exactly, but cannot change this."));
  EXPECT_TRUE(has(said("80GB", "--fp8-format hybrid"), "It fits: "));
  const std::string doubt =
      " It is not known whether the real run fits, because --cuda-graph-impl is not modelled exactly.";
  EXPECT_TRUE(has(said(peak, "--cuda-graph-impl local"), "What is counted fits"))
      << said(peak, "--cuda-graph-impl local");
  EXPECT_TRUE(has(said(peak, "--cuda-graph-impl local"), doubt));
  // Pools of graphs only add memory, while a format of 8 bits may take some away.
  EXPECT_TRUE(has(said("100MB", "--cuda-graph-impl local"), "It does not fit: "));
  EXPECT_TRUE(has(said("100MB", "--fp8-format hybrid"), "What is counted does not fit: "));
  EXPECT_TRUE(has(said("80GB", "--optimizer muon"), "because --optimizer is not modelled exactly."));
}

}  // namespace
