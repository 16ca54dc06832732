// Proves that the ranks of a ring have equal work, that rows of padding have no context and no gradient, and
// that attention which cannot be computed is refused.

#include "sim/context/core_attention.h"

#include <gtest/gtest.h>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/model/gpt_model.h"
#include "sim/tensor/counting_device.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::refusal_code;

WorldSpec world(int cp) {
  WorldSpec spec = world_of(cp);
  spec.layout = make_layout({.world_size = cp, .context_parallel_size = cp}, RuleBook::megatron);
  return spec;
}

/// Runs forward and backward of two heads of two channels.
CoreAttention::Gradients run(Rank& rank, const CoreAttentionConfig& config, const SequenceCut& cut,
                             CpCommType type, Tensor* context = nullptr) {
  const auto attention = make_core_attention(rank, config, cut, type);
  const auto heads = [&](const char* name) {
    return keyed(rank.device, DType::f32, {1, 2, cut.local_length(), 2}, rank.random.named(name));
  };
  const auto forward = attention->forward(heads("queries"), heads("keys"), heads("values"), 0);
  if (context != nullptr) *context = forward.context;
  return attention->backward(forward.saved, heads("grad"));
}

std::string code_of(int cp, const CoreAttentionConfig& config, const SequenceCut& cut, CpCommType type) {
  CpuDevice device;
  std::vector<std::string> codes(static_cast<std::size_t>(cp));
  simulate(world(cp), device, [&](Rank& rank) {
    codes[static_cast<std::size_t>(rank.id)] = refusal_code([&] { run(rank, config, cut, type); });
  });
  return codes.front();
}

TEST(CoreAttention, TheRanksOfARingHaveEqualWork) {
  for (const int cp : {2, 3, 4, 8}) {
    CpuDevice cpu;
    CountingDevice device(cpu);
    std::vector<std::int64_t> work(static_cast<std::size_t>(cp));
    simulate(world(cp), device, [&](Rank& rank) {
      const SequenceCut cut = SequenceCut::of_sequence(std::int64_t{16} * cp, cp);
      run(rank, {.name = "attention"}, cut, CpCommType::p2p);
      work[static_cast<std::size_t>(rank.id)] = *rank.device.work();
    });
    for (const std::int64_t of_rank : work) {
      EXPECT_GT(of_rank, 0);
      EXPECT_LE(std::abs(of_rank - work.front()) * 20, work.front()) << cp << " ranks";
    }
  }
}

TEST(CoreAttention, RowsOfPaddingHaveNoContextAndNoGradient) {
  const SequenceCut cut = SequenceCut::of_documents({0, 5}, {0, 8}, 2);  // rows 5, 6 and 7 are padding
  for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
    CpuDevice device;
    simulate(world(2), device, [&](Rank& rank) {
      Tensor context;
      const auto grads = run(rank, {.name = "attention"}, cut, type, &context);
      const std::vector<std::int64_t> rows = cut.rows_of(rank.id);
      for (const Tensor& x : {context, grads.queries, grads.keys, grads.values}) {
        const std::vector<float> all = test::values<float>(x);
        for (std::size_t i = 0; i < all.size(); ++i)
          EXPECT_TRUE(rows[i / 2 % rows.size()] < 5 || all[i] == 0.0F) << name_of(type) << ", element " << i;
      }
    });
  }
}

TEST(CoreAttention, IsRefusedWhereItCannotBeComputed) {
  const SequenceCut four = SequenceCut::of_sequence(16, 4), two = SequenceCut::of_sequence(16, 2);
  const CoreAttentionConfig plain{.name = "attention"}, dropped{.name = "attention", .dropout = {1, 2}};
  EXPECT_EQ(code_of(4, plain, four, CpCommType::a2a), "cp_heads");
  EXPECT_EQ(code_of(2, plain, two, CpCommType::a2a), "none");
  EXPECT_EQ(code_of(2, dropped, two, CpCommType::p2p), "cp_dropout");
  const CoreAttentionConfig windowed{.name = "attention", .keys = {.causal = true, .window = 3}};
  EXPECT_EQ(code_of(2, windowed, two, CpCommType::p2p), "cp_window");
  EXPECT_EQ(code_of(2, windowed, two, CpCommType::all_gather), "none");
  EXPECT_EQ(code_of(2, windowed, two, CpCommType::a2a), "none");
  const SequenceCut whole = SequenceCut::of_packed_sequence({0, 2, 8}, {}, 2);
  EXPECT_EQ(code_of(2, plain, whole, CpCommType::p2p), "cp_packed_sequence");
  EXPECT_EQ(code_of(2, plain, whole, CpCommType::all_gather), "cp_packed_sequence");
  EXPECT_EQ(code_of(2, plain, whole, CpCommType::a2a), "none");
  EXPECT_EQ(refusal_code([] { cp_comm_type("ring"); }), "cp_comm_type");
  EXPECT_EQ(cp_comm_type("a2a+p2p"), CpCommType::a2a_p2p);
}

TEST(GptModel, RefusesKindsOfContextParallelismForOtherLayers) {
  CpuDevice device;
  GptConfig config{.num_layers = 3,
                   .hidden_size = 4,
                   .ffn_hidden_size = 4,
                   .num_attention_heads = 2,
                   .num_query_groups = 2,
                   .kv_channels = 2,
                   .seq_length = 8,
                   .context_parallel_size = 2,
                   .cp_comm_types = {CpCommType::p2p, CpCommType::a2a},
                   .vocab_size = 4,
                   .padded_vocab_size = 4};
  std::vector<std::string> codes(2);
  simulate(world(2), device, [&](Rank& rank) {
    codes[static_cast<std::size_t>(rank.id)] =
        refusal_code([&] { GptModel(rank, config, {.first_layer = 0, .num_layers = 3}); });
  });
  EXPECT_EQ(codes.front(), "cp_comm_types");
}

}  // namespace
