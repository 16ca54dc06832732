// Proves that what would help a run has the figures of the changed run: on drawn settings, given as options
// and as a launch script, each change is put into the same command, whose own figures are those that were
// told.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

/// The options of a command by their names, with their values; "" for one that has none.
using Options = std::map<std::string, std::string>;

std::string text_of(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options) text += name + (value.empty() ? " " : " " + value + " ");
  return text;
}

/// Returns the options with those of a change: "no --option" and "--option=false" leave it out.
Options with_change(Options options, const std::string& change) {
  std::istringstream words(change);
  std::string last;
  bool leaves_out = false;
  for (std::string word; words >> word;) {
    if (word == "no") {
      leaves_out = true;
    } else if (leaves_out || word.ends_with("=false")) {
      options.erase(word.substr(0, word.find('=')));
      leaves_out = false;
    } else if (word.starts_with("--")) {
      last = word;
      options[last] = "";
    } else {
      options[last] += (options[last].empty() ? "" : " ") + word;
    }
  }
  return options;
}

std::string number(std::int64_t n) { return fmt::format("{}", n); }

/// Options that the command line and Megatron spell alike.
Options drawn(std::int64_t& world) {
  const int tp = *rc::gen::element(1, 2), pp = *rc::gen::element(1, 2, 4), cp = *rc::gen::element(1, 2);
  const bool has_experts = *rc::gen::element(false, false, true);
  world = std::int64_t{8} * tp * pp * cp;
  Options options{{"--tensor-model-parallel-size", number(tp)},
                  {"--pipeline-model-parallel-size", number(pp)},
                  {"--context-parallel-size", number(cp)},
                  {"--num-layers", "16"},
                  {"--hidden-size", number(512 * *rc::gen::inRange(1, 5))},
                  {"--num-attention-heads", "16"},
                  {"--vocab-size", *rc::gen::element<std::string>("1000", "50257")},
                  {"--seq-length", *rc::gen::element<std::string>("512", "4096")},
                  {"--max-position-embeddings", "4096"},
                  {"--micro-batch-size", number(*rc::gen::inRange(1, 5))},
                  {"--disable-bias-linear", ""},
                  {"--bf16", ""}};
  const auto maybe = [&](const std::string& name, const std::string& value = "") {
    if (*rc::gen::arbitrary<bool>()) options[name] = value;
  };
  maybe("--swiglu");
  maybe("--untie-embeddings-and-output-weights");
  maybe("--position-embedding-type", "rope");
  maybe("--no-create-attention-mask-in-dataloader");
  maybe("--cross-entropy-loss-fusion");
  maybe("--hidden-dropout", "0");
  if (cp == 1) maybe("--attention-backend", "unfused");
  if (tp > 1 && !has_experts) maybe("--sequence-parallel");
  if (*rc::gen::arbitrary<bool>()) options["--recompute-granularity"] = "selective";
  if (!has_experts) return options;
  if (tp > 1) options["--sequence-parallel"] = "";
  options["--num-experts"] = "8";
  options["--expert-model-parallel-size"] = number(*rc::gen::element(1, 2));
  options["--expert-tensor-parallel-size"] = "1";
  options["--moe-token-dispatcher-type"] = *rc::gen::element<std::string>("allgather", "alltoall");
  return options;
}

ordered_json memory_document(const std::string& words) {
  return ordered_json::parse(test::run("memory --format json " + words).out);
}

std::int64_t peak_of(const ordered_json& document) {
  std::int64_t most = 0;
  for (const auto& stage : document["stages"]) most = std::max(most, stage["peak_bytes"].get<std::int64_t>());
  return most;
}

/// Holds one change that is told for a run against the changed run. `judged` is the document of the options,
/// with this much memory.
template <typename Judged>
void hold_advice(const Options& options, const Judged& judged) {
  const std::int64_t peak = peak_of(judged(options, 0));
  const std::int64_t memory = peak / 100 * *rc::gen::inRange(10, 100);
  const ordered_json told = judged(options, memory)["advice"];
  RC_PRE(!told.empty());
  const ordered_json advice = told[*rc::gen::inRange<std::size_t>(0, told.size())];
  const std::string change = advice["options"];
  RC_LOG() << change << "\n" << text_of(options) << "\n";
  const ordered_json own = judged(with_change(options, change), 0);
  RC_ASSERT(own.contains("stages"));
  RC_ASSERT(peak_of(own) == advice["peak_bytes"].get<std::int64_t>());
  RC_ASSERT(own["fullest_pipeline_rank"] == advice["pipeline_rank"]);
  RC_ASSERT((peak_of(own) <= memory) == advice["fits"].get<bool>());
  RC_ASSERT(peak_of(own) < peak);
}

std::string with_memory(std::int64_t world, std::int64_t memory) {
  return fmt::format("--world-size {} {}", world, memory > 0 ? fmt::format("--gpu-memory {} ", memory) : "");
}

RC_GTEST_PROP(MemoryAdvice, WhatIsToldForARunIsWhatItNeeds, ()) {
  std::int64_t world = 0;
  Options options = drawn(world);
  const bool is_script = *rc::gen::arbitrary<bool>(), has_shards = *rc::gen::arbitrary<bool>();
  if (is_script && has_shards) options["--use-distributed-optimizer"] = "";
  if (!is_script && !has_shards) options["--no-distributed-optimizer"] = "";
  if (is_script && *rc::gen::arbitrary<bool>()) options["--recompute-activations"] = "";
  // A script without it has one microbatch on each replica, and another batch on another layout.
  if (is_script && *rc::gen::arbitrary<bool>()) options["--global-batch-size"] = "768";
  hold_advice(options, [&](const Options& given, std::int64_t memory) {
    if (!is_script) return memory_document(with_memory(world, memory) + text_of(given));
    const test::TemporaryFile file(
        "run.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun pretrain_gpt.py " + text_of(given) + "\n");
    return memory_document(with_memory(world, memory) + "--from " + file.path());
  });
}

/// A model of 8,835,567,616 parameters, or of more layers.
std::string llama(int layers = 32, int seq_length = 8192) {
  return fmt::format(
      "--num-layers {} --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--vocab-size 128256 --seq-length {} --swiglu --disable-bias-linear --normalization RMSNorm "
      "--untie-embeddings-and-output-weights --position-embedding-type rope --hidden-dropout 0 "
      "--attention-dropout 0 ",
      layers, seq_length);
}

/// What is said of a script with 80 GB of memory on so many ranks, up to the table.
std::string said_of_script(const std::string& words, int ranks) {
  const test::TemporaryFile file("run.sh",
                                 "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                                 "torchrun pretrain_gpt.py --max-position-embeddings 8192 " +
                                     llama() + words + "\n");
  const std::string out =
      test::run(fmt::format("memory --gpu-memory 80GB --world-size {} --from {}", ranks, file.path())).out;
  return out.substr(0, out.find("Memory of a rank"));
}

/// The changes that are told for options, a line each.
std::string told_for(const std::string& words) {
  const ordered_json document = memory_document(words);
  std::string text;
  for (const ordered_json& advice : document["advice"]) text += advice["options"].get<std::string>() + "\n";
  return text;
}

/// Where neither one change nor two make a run fit, as many are told as it needs, and none without need.
TEST(MemoryAdvice, SeveralChangesAreToldTogether) {
  const std::string run = llama() + "--world-size 2 --gpu-memory 80GB ";
  const std::string precision = "--use-precision-aware-optimizer", micro = "--micro-batch-size 1",
                    tensor = "--tensor-model-parallel-size 2 --sequence-parallel",
                    full = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  const auto joined = [](const std::vector<std::string>& changes) {
    return fmt::format("{}", fmt::join(changes, " "));
  };
  const std::string told = joined({precision, micro, full, tensor});
  EXPECT_TRUE(told_for(run + "--micro-batch-size 2").starts_with(told + "\n"))
      << told_for(run + "--micro-batch-size 2");
  EXPECT_EQ(memory_document(run + told)["fits"], true);
  EXPECT_EQ(memory_document(run + joined({micro, full, tensor}))["fits"], false);
  EXPECT_EQ(memory_document(run + joined({precision, micro, tensor}))["fits"], false);
  EXPECT_EQ(memory_document(run + joined({precision, micro, full}))["fits"], false);
}

/// More ranks of one kind leave fewer to the others, so the kind comes first that saves most.
TEST(MemoryAdvice, RanksGoWhereTheySaveMost) {
  const std::string full = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  const std::string told = told_for(
      "--num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 --num-attention-heads 128 --vocab-size "
      "128256 --seq-length 16384 --swiglu --disable-bias-linear --untie-embeddings-and-output-weights "
      "--position-embedding-type rope --sequence-parallel --world-size 256 --tensor-model-parallel-size 2 "
      "--gpu-memory 80GB");
  EXPECT_TRUE(told.starts_with(full +
                               " --pipeline-model-parallel-size 16 --decoder-last-pipeline-num-layers 6 "
                               "--tensor-model-parallel-size 8\n"))
      << told;
}

/// A run whose states alone are more than its GPUs have is told how many it needs.
TEST(MemoryAdvice, TooFewGpusAreSaid) {
  const std::string few = said_of_script("--bf16 --micro-batch-size 1", 1);
  EXPECT_NE(
      few.find("  With these states no layout fits on 1 GPU: 8,835,567,616 parameters of 18 bytes each are "
               "148.12 GiB, and need at least 2 GPUs.\n"),
      std::string::npos)
      << few;
  EXPECT_EQ(few.find("--sweep"), std::string::npos) << few;
  const std::string enough = said_of_script("--bf16 --micro-batch-size 1", 2);
  EXPECT_EQ(enough.find("no layout fits"), std::string::npos) << enough;
  const std::string moved = said_of_script(
      "--bf16 --micro-batch-size 1 --use-distributed-optimizer --use-precision-aware-optimizer "
      "--optimizer-cpu-offload",
      1);
  EXPECT_NE(moved.find("does not fit"), std::string::npos) << moved;
  EXPECT_EQ(moved.find("no layout fits"), std::string::npos) << moved;
}

TEST(MemoryAdvice, TheLargestPartIsSaid) {
  const std::string of_states = said_of_script("--bf16 --micro-batch-size 1", 1);
  EXPECT_NE(of_states.find("The largest part is the states of the optimizer: 98.75 GiB."), std::string::npos)
      << of_states;
  const std::string in_flight = said_of_script(
      "--bf16 --micro-batch-size 8 --use-distributed-optimizer --tensor-model-parallel-size 8", 64);
  EXPECT_NE(in_flight.find("The largest part is activations: "), std::string::npos) << in_flight;
}

/// A run that says no dtype is in fp32, whose attention keeps its scores.
TEST(MemoryAdvice, ARunInFp32IsToldOfBf16) {
  const std::string run = "--micro-batch-size 2 --use-distributed-optimizer --tensor-model-parallel-size 8 ";
  EXPECT_NE(said_of_script(run, 64).find("  With --bf16 it needs "), std::string::npos)
      << said_of_script(run, 64);
  const std::string half = said_of_script(
      "--micro-batch-size 4 --use-distributed-optimizer --tensor-model-parallel-size 8 --fp16 "
      "--attention-backend unfused",
      64);
  EXPECT_NE(half.find("does not fit"), std::string::npos) << half;
  EXPECT_EQ(half.find("--bf16"), std::string::npos) << half;
}

TEST(MemoryAdvice, AnotherKernelOfAttentionIsTold) {
  EXPECT_TRUE(
      told_for(llama() +
               "--world-size 64 --tensor-model-parallel-size 8 --sequence-parallel --micro-batch-size 4 "
               "--no-create-attention-mask-in-dataloader --attention-backend unfused --gpu-memory 80GB")
          .starts_with("no --attention-backend\n"));
}

/// Layers that more pipeline ranks do not divide are placed with fewer on the last one.
TEST(MemoryAdvice, TheLastStageHasTheLayersThatAreLeft) {
  const std::string run = llama(61) + "--world-size 64 --tensor-model-parallel-size 8 --gpu-memory 20GB ";
  EXPECT_NE(told_for(run).find("--pipeline-model-parallel-size 8 --decoder-last-pipeline-num-layers 5"),
            std::string::npos)
      << told_for(run);
  EXPECT_EQ(told_for(run + "--account-for-embedding-in-pipeline-split").find("--decoder-last"),
            std::string::npos);
}

/// Where all ranks are taken, those of context parallelism may divide the model instead.
TEST(MemoryAdvice, ContextRanksMayBecomeTensorRanks) {
  const std::string told =
      told_for(llama() +
               "--world-size 4 --context-parallel-size 4 --no-create-attention-mask-in-dataloader "
               "--gpu-memory 60GB");
  EXPECT_NE(told.find("--tensor-model-parallel-size 4 --sequence-parallel --context-parallel-size 1\n"),
            std::string::npos)
      << told;
}

/// A block of layers that has all layers of each stage is told as all layers alone.
TEST(MemoryAdvice, ABlockIsSmallerThanAStage) {
  const std::string told = told_for(
      llama(64) + "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 4 --gpu-memory 20GB");
  EXPECT_NE(told.find("--recompute-method uniform"), std::string::npos) << told;
  EXPECT_EQ(told.find("--recompute-num-layers 16"), std::string::npos) << told;
}

/// Eight pipeline ranks may hold more than can be counted: what they hold between steps is not told as all.
TEST(MemoryAdvice, WhatIsNotCountedIsNotTold) {
  const std::string told = told_for(llama(32, 131072) +
                                    "--world-size 128 --attention-backend unfused "
                                    "--pipeline-model-parallel-size 4 --gpu-memory 80GB");
  EXPECT_NE(told, "");
  EXPECT_FALSE(told.starts_with("--pipeline-model-parallel-size 8") ||
               told.find("\n--pipeline-model-parallel-size") != std::string::npos)
      << told;
}

}  // namespace
