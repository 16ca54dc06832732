// Proves that a context-parallel rank has its own tokens, labels and positions of the same samples, and that
// a model refuses sequences that cannot be cut over the ranks of the layout.

#include "sim/model/batch.h"

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;
using Ids = std::vector<std::int32_t>;

GptConfig config_of(int cp, std::int64_t seq_length, std::int64_t micro_batch_size) {
  return {.dtype = DType::field,
          .num_layers = 1,
          .hidden_size = 2,
          .ffn_hidden_size = 2,
          .num_attention_heads = 2,
          .num_query_groups = 2,
          .kv_channels = 1,
          .seq_length = seq_length,
          .micro_batch_size = micro_batch_size,
          .context_parallel_size = cp,
          .vocab_size = 6,
          .padded_vocab_size = 6};
}

WorldSpec world(int tp, int cp, int dp) {
  WorldSpec spec = world_of(tp * cp * dp);
  spec.layout =
      make_layout({.world_size = tp * cp * dp, .tensor_model_parallel_size = tp, .context_parallel_size = cp},
                  RuleBook::megatron);
  spec.seed = 7;
  return spec;
}

/// The token at a position of a sample, and its label, which are different everywhere.
std::int32_t token_at(std::int64_t sample, std::int64_t position) {
  return static_cast<std::int32_t>(1000 * sample + position);
}
SampleSource source_of(std::int64_t seq_length) {
  return [=](std::int64_t number) {
    Sample sample;
    for (std::int64_t s = 0; s < seq_length; ++s) {
      sample.tokens.push_back(token_at(number, s));
      sample.labels.push_back(-token_at(number, s));
    }
    return sample;
  };
}

RC_GTEST_PROP(GetBatch, EachContextParallelRankHasItsOwnRows, ()) {
  const int tp = *rc::gen::inRange(1, 3), cp = *rc::gen::inRange(1, 5), dp = *rc::gen::inRange(1, 3);
  const std::int64_t batch = *rc::gen::inRange(1, 4), length = 2 * cp * *rc::gen::inRange(1, 4);
  const GptConfig config = config_of(cp, length, batch);
  const BatchShape shape{.micro_batch_size = batch, .data_parallel_size = dp, .num_microbatches = 2};
  CpuDevice device;
  const RunReport report = simulate(world(tp, cp, dp), device, [&](Rank& rank) {
    const std::int64_t first = shape.first_sample(1, 1, rank.groups.get("dp").rank());
    const Microbatch microbatch = get_batch(rank, config, source_of(length), first, {});
    Ids wanted;
    for (const std::int64_t position :
         SequenceCut::of_sequence(length, cp).rows_of(rank.groups.get("cp").rank()))
      for (std::int64_t b = 0; b < batch; ++b) wanted.push_back(token_at(first + b, position));
    RC_ASSERT(test::values<std::int32_t>(microbatch.tokens) == wanted);
    for (std::int32_t& id : wanted) id = -id;
    RC_ASSERT(test::values<std::int32_t>(microbatch.labels) == wanted);
  });
  if (!report.ok()) RC_FAIL(report.failure());
}

/// The output of an embedding with learned positions and the gradient of these, of all tokens in the order of
/// their rows. Context-parallel ranks put theirs together here, by the cut.
struct Embedded {
  std::vector<Field> output;
  std::vector<Field> positions_grad;
  bool operator==(const Embedded&) const = default;
};

Embedded embedded(int cp, std::int64_t length, std::int64_t batch) {
  const GptConfig config = config_of(cp, length, batch);
  const auto width = static_cast<std::size_t>(batch * config.hidden_size);
  CpuDevice device(7);
  const RunReport report = simulate(world(1, cp, 1), device, [&](Rank& rank) {
    LanguageModelEmbedding embedding(rank, config);
    const SampleSource source = [&](std::int64_t number) {
      Sample sample{.tokens = {}, .labels = Ids(static_cast<std::size_t>(length))};
      for (std::int64_t s = 0; s < length; ++s)
        sample.tokens.push_back(static_cast<std::int32_t>((number + 2 * s) % config.vocab_size));
      return sample;
    };
    const Microbatch microbatch = get_batch(rank, config, source, 3, {});
    const auto forward = embedding.forward(microbatch.tokens);
    embedding.backward(forward.saved, forward.output);
    rank.publish("output", forward.output);
    rank.publish("grad", embedding.parameters().back()->main_grad);
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  Embedded whole;
  std::vector<Field> gathered;
  for (int r = 0; r < cp; ++r) {
    const auto own = test::values<Field>(report.find(r, "output"));
    gathered.insert(gathered.end(), own.begin(), own.end());
    const auto grad = test::values<Field>(report.find(r, "grad"));
    if (whole.positions_grad.empty()) whole.positions_grad.resize(grad.size());
    for (std::size_t i = 0; i < grad.size(); ++i) whole.positions_grad[i] = whole.positions_grad[i] + grad[i];
  }
  for (const std::int64_t place : SequenceCut::of_sequence(length, cp).places_of_rows()) {
    const auto row = gathered.begin() + place * static_cast<std::ptrdiff_t>(width);
    whole.output.insert(whole.output.end(), row, row + static_cast<std::ptrdiff_t>(width));
  }
  return whole;
}

RC_GTEST_PROP(LanguageModelEmbedding, ContextParallelRanksLookUpTheirOwnPositions, ()) {
  const int cp = *rc::gen::inRange(2, 5);
  const std::int64_t batch = *rc::gen::inRange(1, 4), length = 2 * cp * *rc::gen::inRange(1, 4);
  RC_ASSERT(embedded(cp, length, batch) == embedded(1, length, batch));
}

std::string code_of(const GptConfig& config, int cp) {
  CpuDevice device;
  std::string code;
  const RunReport report = simulate(world(1, cp, 1), device, [&](Rank& rank) {
    const std::string own = refusal_code([&] { GptModel(rank, config, {.num_layers = 0}); });
    if (rank.id == 0) code = own;
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  return code;
}

TEST(GptModel, RefusesSequencesThatAreNotCutOverTheRanksOfTheLayout) {
  EXPECT_EQ(code_of(config_of(2, 8, 1), 2), "none");
  EXPECT_EQ(code_of(config_of(2, 6, 1), 2), "sequence_cp");
  EXPECT_EQ(code_of(config_of(1, 8, 1), 2), "gpt_context");
  EXPECT_EQ(code_of(config_of(2, 8, 1), 1), "gpt_context");
  GptConfig packed = config_of(2, 16, 1);
  packed.cu_seqlens = {0, 4, 16};
  EXPECT_EQ(code_of(packed, 2), "none");
  packed.cu_seqlens = {0, 4, 12};
  EXPECT_EQ(code_of(packed, 2), "gpt_documents");
  packed.cu_seqlens = {0, 6, 16};
  EXPECT_EQ(code_of(packed, 2), "sequence_cp");
}

}  // namespace
