// Proves what is said of a vocabulary whose size is not known: what further entries take, and up to how many
// a run fits. The sizes of tokenizers are found by their names alone.

#include "verify/memory/vocabulary_law.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <utility>

#include "verify/memory/assumed_sizes.h"
#include "verify/memory/scenario_memory.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/settings.h"

namespace {

using namespace verify;

constexpr std::int64_t kEntries = 3'000;

/// A model with 3,000 entries or a few more, which are more than the rows of every other matrix: Transformer
/// Engine holds one tensor for matrices of one shape.
Settings drawn_settings() {
  Settings settings;
  const auto set = [&](const char* option, std::int64_t value) {
    settings.append(option, {fmt::format("{}", value)});
  };
  const auto draw_flag = [&](const char* option) {
    if (*rc::gen::arbitrary<bool>()) settings.append(option, {"true"});
  };
  const std::int64_t tp = *rc::gen::element(1, 2, 4), pp = *rc::gen::element(1, 2, 4);
  set("tensor-model-parallel-size", tp);
  set("pipeline-model-parallel-size", pp);
  set("world-size", tp * pp * *rc::gen::element(1, 2, 3));
  set("num-layers", 4 * *rc::gen::inRange(1, 3));
  set("hidden-size", 64 * *rc::gen::inRange(1, 9));
  set("num-attention-heads", 4);
  set("seq-length", 64 * *rc::gen::inRange(1, 9));
  set("micro-batch-size", *rc::gen::inRange(1, 5));
  set("num-microbatches", 2 * pp);
  set("vocab-size", kEntries);
  set("make-vocab-size-divisible-by", *rc::gen::element(8, 128));
  if (tp > 1) draw_flag("sequence-parallel");
  for (const char* flag : {"untie-embeddings-and-output-weights", "no-distributed-optimizer", "swiglu",
                           "cross-entropy-loss-fusion", "no-gradient-accumulation-fusion"})
    draw_flag(flag);
  if (*rc::gen::arbitrary<bool>()) {
    settings.append("recompute-granularity", {"full"});
    settings.append("recompute-method", {"uniform"});
    set("recompute-num-layers", 1);
  }
  return settings;
}

ScenarioRequest request_of(const Settings& settings) {
  return scenario_request({.path = "", .name = "drawn", .source = "", .settings = settings});
}

MemoryReport counted_with(ScenarioRequest request, std::int64_t entries) {
  request.model.config.vocab_size = entries;
  return scenario_memory(request);
}

/// What the padding of buckets may add or leave out: none without ZeRO-1, whose buffers have none.
std::int64_t padding_of_buffers(const ScenarioRequest& request) {
  constexpr std::int64_t kOfElement = 18, kMostBuckets = 16, kMultiple = 128;
  return request.state.is_distributed ? kOfElement * kMostBuckets * kMultiple * request.layout.dp : 0;
}

RC_GTEST_PROP(VocabularyLaw, EachStageGrowsAsItSays, ()) {
  const ScenarioRequest request = request_of(drawn_settings());
  const VocabularyLaw law = vocabulary_law(request);
  RC_ASSERT(law.entries % law.padding == 0 && law.entries >= kEntries &&
            law.entries < kEntries + law.padding);
  const std::int64_t steps = *rc::gen::inRange<std::int64_t>(0, 7 * law.entries / law.padding + 1);
  const std::int64_t more = steps * law.padding, slack = padding_of_buffers(request) + 2 + more / 1000;
  const MemoryReport base = counted_with(request, law.entries),
                     other = counted_with(request, law.entries + more);
  for (std::size_t stage = 0; stage < base.stages.size(); ++stage) {
    const auto found = std::ranges::find(law.growth, stage, &VocabularyLaw::Growth::stage);
    const auto [own, least, most] =
        found == law.growth.end() ? VocabularyLaw::Growth{.stage = stage} : *found;
    const std::int64_t grown = other.stages[own].peak_bytes() - base.stages[own].peak_bytes();
    RC_ASSERT(grown >= least * more / 1000 - slack);
    RC_ASSERT(grown <= most * more / 1000 + slack);
  }
}

RC_GTEST_PROP(VocabularyLaw, OnlyTheFirstAndTheLastStageDependOnIt, ()) {
  const ScenarioRequest request = request_of(drawn_settings());
  const VocabularyLaw law = vocabulary_law(request);
  RC_ASSERT(!law.growth.empty());
  for (const VocabularyLaw::Growth& growth : law.growth) {
    RC_ASSERT(growth.stage == 0 || std::cmp_equal(growth.stage + 1, request.layout.pp));
    RC_ASSERT(growth.least >= 0 && growth.least <= growth.most);
  }
}

RC_GTEST_PROP(VocabularyLaw, ARunFitsUpToTheEntriesThatItSays, ()) {
  Settings settings = drawn_settings();
  const MemoryReport small = counted_with(request_of(settings), kEntries);
  const std::int64_t bytes = small.stages[small.fullest()].peak_bytes() * *rc::gen::inRange(50, 400) / 100;
  settings.append("gpu-memory", {fmt::format("{}B", bytes)});
  const ScenarioRequest request = request_of(settings);
  const VocabularyLaw law = vocabulary_law(request);
  RC_ASSERT(law.fits_up_to.has_value());
  const std::int64_t most = *law.fits_up_to;
  RC_ASSERT(most % law.padding == 0);
  if (most > 0) RC_ASSERT(counted_with(request, most).fits() == true);
  if (most + law.padding <= kMostEntries)
    RC_ASSERT(counted_with(request, most + law.padding).fits() == false);
  RC_ASSERT(law.fits() == (most == 0                    ? std::optional(false)
                           : most >= kLargestVocabulary ? std::optional(true)
                                                        : std::nullopt));
}

std::int64_t entries_of(const std::string& argument, const std::string& value) {
  RunArguments run;
  run.given.push_back({argument, {value}, 1});
  return named_vocabulary(RunValues(run)).value_or(NamedVocabulary{}).entries;
}

TEST(NamedVocabulary, IsFoundByWholeWords) {
  const auto of_model = [](const std::string& name) { return entries_of("tokenizer-model", name); };
  EXPECT_EQ(of_model("meta-llama/Meta-Llama-3-8B"), 128256);
  EXPECT_EQ(of_model("/models/llama_3_8b/tokenizer.json"), 128256);
  EXPECT_EQ(of_model("meta-llama/Llama-3.1-8B-Instruct"), 128256);
  EXPECT_EQ(of_model("/data/Llama-2-7b-hf/tokenizer.model"), 32000);
  EXPECT_EQ(of_model("Qwen/Qwen2-57B-A14B"), 151646);
  EXPECT_EQ(of_model("Qwen/Qwen2.5-7B"), 151665);
  EXPECT_EQ(of_model("Qwen/Qwen3-30B-A3B"), 151669);
  EXPECT_EQ(of_model("deepseek-ai/DeepSeek-V3"), 128815);
  EXPECT_EQ(of_model("mistralai/Mixtral-8x7B-v0.1"), 32000);
  EXPECT_EQ(entries_of("tokenizer-type", "GPT2BPETokenizer"), 50257);
  EXPECT_EQ(entries_of("tokenizer-type", "TikTokenizer"), 131072);
  EXPECT_EQ(entries_of("vocab-file", "${DATA}/gpt2-vocab.json"), 50257);
  for (const char* other :
       {"llama-30b", "codellama-7b", "Qwen3.5-9B", "/data/tokenizer.model", "mygpt2x", ""})
    EXPECT_EQ(of_model(other), 0) << other;
  for (const char* other : {"Llama2Tokenizer", "GPTSentencePieceTokenizer", "HuggingFaceTokenizer"})
    EXPECT_EQ(entries_of("tokenizer-type", other), 0) << other;
}

TEST(NamedVocabulary, SaysWhichNameItIsAndWhereItsSizeIsPublished) {
  RunArguments run;
  run.given = {{"tokenizer-type", {"HuggingFaceTokenizer"}, 1},
               {"tokenizer-model", {"openai/gpt-oss-20b"}, 2}};
  const auto named = named_vocabulary(RunValues(run));
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->argument, "--tokenizer-model openai/gpt-oss-20b");
  EXPECT_NE(named->source.find("openai/gpt-oss-20b, config.json"), std::string::npos) << named->source;
}

}  // namespace
