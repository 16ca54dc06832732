// Proves that the JSON of a gradient buffer is written a little at a time, however many ranks own it. What
// it says is proven against Megatron by oracle_test.cpp.

#include <algorithm>
#include <gtest/gtest.h>
#include <sstream>
#include <streambuf>

#include "tests/support/contains.h"
#include "tests/support/run.h"
#include "verify/output/json.h"
#include "verify/program/program.h"

namespace {

/// Counts what is written to it, and keeps nothing.
class Counter : public std::streambuf {
 public:
  std::streamsize bytes = 0;
  std::streamsize largest = 0;  // bytes of one write

 protected:
  std::streamsize xsputn(const char*, std::streamsize count) override {
    bytes += count;
    largest = std::max(largest, count);
    return count;
  }
  int_type overflow(int_type c) override {
    ++bytes;
    return c;
  }
};

TEST(ShardsJson, JsonOfManyRanksIsWrittenALittleAtATime) {
  Counter counter;
  std::ostream out(&counter);
  std::ostringstream err;
  EXPECT_EQ(verify::run_program(
                {"shards", "--param-sizes", "1000,70", "--data-parallel-size", "200000", "--format", "json"},
                {out, err}),
            0)
      << err.str();
  EXPECT_GT(counter.bytes, 3 * 200'000);
  EXPECT_LT(counter.largest, 1 << 18);
}

TEST(ShardsJson, JsonIsOneDocument) {
  const auto result = test::run("shards --param-sizes 1000,70 --data-parallel-size 3 --format json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = verify::parsed_json(result.out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("rank_maps")->size(), 3U);
  const auto plain = test::run("shards --param-sizes 1000,70 --no-distributed-optimizer --format json");
  ASSERT_TRUE(verify::parsed_json(plain.out)) << plain.out;
  EXPECT_EQ(verify::parsed_json(plain.out)->find("rank_maps"), nullptr);
}

// ---- the buffers of a run

constexpr const char* kRun =
    " -- torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 "
    "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --num-layers 8 --hidden-size "
    "64 "
    "--num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 "
    "--global-batch-size 8 --vocab-size 256 --swiglu --normalization RMSNorm --disable-bias-linear "
    "--position-embedding-type rope --untie-embeddings-and-output-weights --use-distributed-optimizer --bf16 "
    "--overlap-grad-reduce";

verify::Json buffers_of(const std::string& options) {
  const auto result = test::run("shards --format json " + options + kRun);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = verify::parsed_json(result.out);
  return json ? *json->find("buffers") : verify::Json();
}

std::int64_t elements_of(const verify::Json& buffer) {
  std::int64_t elements = 0;
  for (const verify::Json& range : buffer.find("param_index")->elements())
    elements += range[1].integer() - range[0].integer();
  return elements;
}

TEST(ShardsOfARun, EachChunkHasItsBuffer) {
  // Of a rank of tp 2: a layer of H 64 and F 128 has 6 H^2 / 2 + 3 H F / 2 + 2 H elements with 4 H^2 of
  // attention; a half of the vocabulary is at each end, and the last norm at the last one.
  const std::int64_t layer = 4 * 64 * 64 / 2 + 3 * 64 * 128 / 2 + 2 * 64, words = 256 / 2 * 64;
  const verify::Json first = buffers_of(""), last = buffers_of("--stage 1");
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(first[0].find("name")->text(), "Pipeline rank 0, chunk 0, reduced over dp-cp");
  EXPECT_EQ(elements_of(first[0]), 2 * layer + words);
  EXPECT_EQ(elements_of(first[1]), 2 * layer);
  EXPECT_EQ(elements_of(last[0]), 2 * layer);
  EXPECT_EQ(elements_of(last[1]), 2 * layer + 64 + words);
  EXPECT_EQ(first[0].find("names")->elements().front().text(), "embedding of words");
  EXPECT_EQ(first[0].find("rank_maps")->size(), 2U);
}

TEST(ShardsOfARun, ABucketSizeReplacesThatOfTheRun) {
  EXPECT_EQ(buffers_of("")[1].find("buckets")->size(), 1U);
  EXPECT_GT(buffers_of("--bucket-size 10000")[1].find("buckets")->size(), 1U);
}

TEST(ShardsOfARun, AnInstanceOfTheOptimizerHasItsOwners) {
  const auto result = test::run(
      "shards --format json -- torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 "
      "--hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
      "--vocab-size 256 --micro-batch-size 1 --global-batch-size 8 "
      "--use-distributed-optimizer --num-distributed-optimizer-instances 2");
  EXPECT_EQ(verify::parsed_json(result.out)->find("buffers")->elements().front().find("rank_maps")->size(),
            4U)
      << result.out << result.err;
}

TEST(ShardsOfARun, WhatIsNotPlacedOrKnownIsSaid) {
  const std::string model =
      " pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1 --global-batch-size 8";
  const auto hybrid =
      test::run("shards -- torchrun --nproc_per_node 8" + model + " --hybrid-layer-pattern M*M*");
  EXPECT_EQ(hybrid.exit_code, 2) << hybrid.out << hybrid.err;
  EXPECT_TRUE(test::contains(test::run("shards --" + model).out, "The number of ranks is not known"));
  EXPECT_TRUE(test::contains(test::run(std::string("shards --data-parallel-size 3") + kRun).err,
                             "option_without_effect"));
}

TEST(ShardsOfARun, AStageIsOneOfARun) {
  EXPECT_TRUE(test::contains(test::run(std::string("shards --stage 2") + kRun).err, "no_such_stage"));
  const char* model =
      "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64 --seq-length 16";
  EXPECT_TRUE(
      test::contains(test::run(std::string("shards --stage 0 ") + model).err, "option_without_effect"));
}

}  // namespace
