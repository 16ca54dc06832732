// Proves what the command memory says of an allocation that failed: which tensor has its size, where the
// memory of the GPU was, and how that compares with what is counted.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

/// Two stages of 4 layers, each rank with 4096 tokens of 4 sequences; 25,600 padded columns of the logits.
const std::string kModel =
    "memory --world-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 8 "
    "--hidden-size 1024 --num-attention-heads 16 --vocab-size 51200 --seq-length 4096 --micro-batch-size 4 "
    "--untie-embeddings-and-output-weights --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 ";

std::string first_sentence_of(const std::string& failure, const std::string& options = "") {
  const std::string out = test::run(kModel + options + "--out-of-memory '" + failure + "'").out;
  return out.substr(0, out.find('\n'));
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// What PyTorch 2.6 says on rank 3, with these numbers in GiB.
std::string message(const std::string& asked, double free, double in_tensors, double unused) {
  return fmt::format(
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 3 has a total capacity "
      "of 39.50 GiB of which {:.2f} GiB is free. Including non-PyTorch memory, this process has {:.2f} GiB "
      "memory in use. Of the allocated memory {:.2f} GiB is allocated by PyTorch, and {:.2f} GiB is reserved "
      "by PyTorch but unallocated.",
      asked, free, 39.5 - free, in_tensors, unused);
}

// The logits are [4096, 4, 25600]: 1600 MiB of fp32, and half of it of bf16.
TEST(MemoryFailure, LogitsAreKnownByTheirSize) {
  EXPECT_EQ(
      first_sentence_of("1.56GiB"),
      "PyTorch asked for 1.56 GiB, which is the size of the logits in fp32, [4096, 4, 25600] of 4 bytes "
      "(in a forward or backward step on stage 1).");
  EXPECT_TRUE(says(first_sentence_of("800.00 MiB"), "the size of the logits, [4096, 4, 25600] of 2 bytes"));
  EXPECT_TRUE(says(first_sentence_of("1600 MiB"), "the logits in fp32")) << "in another unit";
}

// A layer's MLP has 2048 of 4096 columns on a rank, [4096, 4, 2048] of 2 bytes: 64 MiB. Scores of 8 heads are
// [4, 8, 4096, 4096]: 1 GiB. The mask is [4, 1, 4096, 4096]: 64 MiB.
TEST(MemoryFailure, TensorsOfALayerAreKnownByTheirSize) {
  const std::string mlp = first_sentence_of("64.00 MiB", "--ffn-hidden-size 4096 ");
  EXPECT_TRUE(says(mlp, "the MLP before activation of a layer, or its gradient, [4096, 4, 2048] of 2 bytes"))
      << mlp;
  EXPECT_TRUE(says(mlp, "the mask of attention, [4, 1, 4096, 4096] of 1 byte")) << mlp;
  const std::string scores = first_sentence_of("1024.00 MiB", "--attention-backend unfused ");
  EXPECT_TRUE(says(scores, "the attention scores of a layer, or its gradient, [4, 8, 4096, 4096] of 2 bytes"))
      << scores;
}

// The first stage has 4 layers of 12 H H / tp elements and four norms' vectors, the embedding of 25,600 words
// and that of 4,096 positions: 55,590,912 elements. PyTorch asks for whole 2 MiB.
// Scores of 8 heads are [4, 8, 4096, 4096]: 1 GiB in 16 bits, 2 GiB in fp32. A flash kernel has none.
TEST(MemoryFailure, ScoresOfAttentionThatShouldBeFusedAreKnownByTheirSize) {
  for (const char* size : {"1024.00 MiB", "2.00 GiB"}) {
    const std::string scores = first_sentence_of(size);
    EXPECT_TRUE(says(scores, "the attention scores of a layer, which exist only if attention runs unfused"))
        << scores;
    EXPECT_TRUE(says(scores, "[4, 8, 4096, 4096] of")) << scores;
  }
  EXPECT_FALSE(says(first_sentence_of("1024.00 MiB", "--attention-backend unfused "), "exist only"));
}

TEST(MemoryFailure, TheBuffersOfAModelAreKnownByTheirSize) {
  const ordered_json document =
      ordered_json::parse(test::run(kModel + "--format json --out-of-memory 108.00MiB").out);
  const ordered_json& failure = document["out_of_memory"];
  EXPECT_EQ(failure["asked_bytes"], 108 << 20);
  EXPECT_EQ(failure["pipeline_rank"], 0);
  ASSERT_EQ(failure["tensors"].size(), 1U) << document;
  EXPECT_EQ(failure["tensors"][0]["name"], "the buffer of all parameters");
  EXPECT_EQ(failure["tensors"][0]["shape"], (std::vector<std::int64_t>{55'590'912}));
  EXPECT_EQ(failure["tensors"][0]["bytes"], 2 * 55'590'912);
}

TEST(MemoryFailure, WhereNoTensorHasTheSizeTheNearestAreTold) {
  const std::string sentence = first_sentence_of("1.10 GiB");
  EXPECT_TRUE(says(sentence,
                   "the size of no tensor that is counted; the nearest are the logits, [4096, 4, "
                   "25600] of 2 bytes: 800.00 MiB; the logits in fp32"))
      << sentence;
}

// PyTorch asks for 20 MiB in place of any tensor of less than 10 MiB, so that its size says nothing.
TEST(MemoryFailure, SmallTensorsAreNotNamed) {
  for (const char* size : {"2.00 MiB", "20.00 MiB"}) {
    const std::string sentence = first_sentence_of(size);
    EXPECT_TRUE(says(sentence, "the GPU was full")) << sentence;
    EXPECT_FALSE(says(sentence, "which is the size")) << sentence;
  }
}

// The run is judged by what PyTorch had for its tensors: 39.5 GiB less the 0.9 GiB outside of its allocator.
TEST(MemoryFailure, AMessageSaysWhereTheMemoryWas) {
  const test::RunResult result =
      test::run(kModel + "--out-of-memory '" + message("1.56 GiB", 1.2, 36.0, 1.4) + "'");
  EXPECT_TRUE(says(result.out,
                   "Of the GPU's 39.50 GiB, 36.00 GiB were in tensors, 1.40 GiB were kept by PyTorch's "
                   "allocator without use, 921.60 MiB were outside of it (the CUDA context, NCCL), and 1.20 "
                   "GiB were free."))
      << result.out;
  EXPECT_TRUE(says(result.out, "more than is counted of stage 1")) << result.out;
  EXPECT_TRUE(says(result.out, "What is counted fits, though the run did not")) << result.out;
  EXPECT_TRUE(says(result.out, "of 38.60 GiB")) << result.out;
  EXPECT_EQ(result.exit_code, 1);
}

// 2.6 GiB in pieces would hold 1.56 GiB; that is told only of a run whose count fits.
TEST(MemoryFailure, PiecesAreToldWhereTheyWouldHaveBeenEnough) {
  const auto told = [](const std::string& options, const std::string& text) {
    return says(test::run(kModel + options + "--out-of-memory '" + text + "'").out, "expandable_segments");
  };
  EXPECT_TRUE(told("", message("1.56 GiB", 1.2, 36.0, 1.4)));
  EXPECT_FALSE(told("", message("1.56 GiB", 0.2, 36.0, 0.4))) << "they are too few";
  EXPECT_FALSE(told("", message("1.56 GiB", 1.7, 36.0, 1.4))) << "free memory alone would be enough";
  EXPECT_TRUE(told("", message("1.56 GiB", 1.2, 5.0, 1.4))) << "7.6 GiB are enough";
  EXPECT_FALSE(told("--attention-backend unfused ", message("1.56 GiB", 1.2, 5.0, 1.4)))
      << "the scores of attention need more";
}

// The message of versions before 2.1, in two lines of a log.
TEST(MemoryFailure, OlderMessagesAreRead) {
  const std::string out =
      test::run(
          kModel +
          "--out-of-memory 'CUDA out of memory. Tried to allocate 1.56 GiB (GPU 3; 39.50 GiB\n total "
          "capacity; 36.00 GiB already allocated; 1.20 GiB free; 37.40 GiB reserved in total by PyTorch)'")
          .out;
  EXPECT_TRUE(says(out,
                   "36.00 GiB were in tensors, 1.40 GiB were kept by PyTorch's allocator without use, "
                   "921.60 MiB were outside of it"))
      << out;
}

// Before the step of the optimizer a rank has its parameters and gradients, and no scores of attention.
TEST(MemoryFailure, ATensorIsToldOfAPhaseThatHasSoMuchInTensors) {
  const auto told_with = [](double in_tensors) {
    return first_sentence_of(message("50.00 MiB", 0.2, in_tensors, 0.4), "--ffn-hidden-size 3200 ");
  };
  EXPECT_TRUE(says(told_with(0), "while the model is built")) << told_with(0);
  EXPECT_FALSE(says(told_with(0), "forward or backward")) << told_with(0);
  EXPECT_TRUE(says(told_with(30), "forward or backward")) << told_with(30);
  EXPECT_FALSE(says(told_with(30), "while the model is built")) << told_with(30);
}

// Ranks 0 and 1 are on the first stage, 2 and 3 on the last one. A log may have lines of other ranks before.
TEST(MemoryFailure, TheRankIsThatOfTheLine) {
  const auto stage_of = [](const std::string& lines) {
    return ordered_json::parse(
        test::run(kModel + "--format json --out-of-memory '" + lines + "Tried to allocate 50.00 MiB'")
            .out)["out_of_memory"]["pipeline_rank"];
  };
  EXPECT_EQ(stage_of("[rank1]: CUDA out of memory. "), 0);
  EXPECT_EQ(stage_of("[rank1]: Traceback\n[rank3]: CUDA out of memory. "), 1);
  EXPECT_TRUE(stage_of("CUDA out of memory. ").is_null()) << "both stages have such a tensor";
}

TEST(MemoryFailure, OtherProcessesAreTold) {
  const std::string others =
      "Tried to allocate 1.56 GiB. GPU 3 has a total capacity of 39.50 GiB of which 1.00 GiB is free. "
      "Including "
      "non-PyTorch memory, this process has 20.00 GiB memory in use. Of the allocated memory 18.00 GiB is "
      "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";
  EXPECT_TRUE(says(test::run(kModel + "--out-of-memory '" + others + "'").out,
                   "Other processes had 18.50 GiB of this GPU"));
}

}  // namespace
