// Proves laws of the memory of a rank on drawn models: more ranks never hold more, recomputation never needs
// more, and parts add up.

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <vector>

#include "verify/memory/activation_memory.h"
#include "verify/memory/model_memory.h"

namespace {

using namespace verify;

struct Setting {
  sim::GptConfig shape;
  int tp = 1, pp = 1, dp = 1;
  std::int64_t chunks = 1;
  bool sequence_parallel = false;
  MemoryOptions options = {};

  MemoryReport report(const StateBytes& state = {}) const {
    const sim::Layout layout = sim::make_layout(
        {.world_size = tp * pp * dp, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
        sim::RuleBook::megatron);
    sim::LayerRequest layers{.num_layers = shape.num_layers, .pipeline_model_parallel_size = pp};
    ActivationRun run{.micro_batch_size = 2,
                      .sequence_parallel = sequence_parallel,
                      .schedule = sim::no_pipelining,
                      .pipeline = {.pipeline_model_parallel_size = pp, .num_microbatches = 2 * pp}};
    if (pp > 1) run.schedule = sim::one_forward_one_backward;
    if (pp > 1 && chunks > 1) {
      layers.virtual_pipeline_model_parallel_size = chunks;
      run.pipeline.virtual_pipeline_model_parallel_size = chunks;
      run.schedule = sim::interleaved;
    }
    return check_memory(shape, layout, sim::place_layers(layers), run, state, options);
  }
};

/// A model whose sizes divide among up to 4 ranks of tp, and whose layers among up to 4 stages of 2 chunks.
Setting drawn() {
  const std::int64_t heads = 4 * *rc::gen::inRange(1, 4), hidden = heads * 8 * *rc::gen::inRange(1, 4);
  Setting setting{.shape = {.num_layers = 8 * *rc::gen::inRange(1, 3),
                            .hidden_size = hidden,
                            .ffn_hidden_size = 128 * *rc::gen::inRange(1, 8),
                            .num_attention_heads = heads,
                            .num_query_groups = *rc::gen::element<std::int64_t>(4, heads),
                            .seq_length = 16 * *rc::gen::inRange(1, 9),
                            .vocab_size = 512 * *rc::gen::inRange(1, 9),
                            .normalization = *rc::gen::element(sim::Norm::layer_norm, sim::Norm::rms_norm),
                            .gated = *rc::gen::arbitrary<bool>(),
                            .bias = *rc::gen::arbitrary<bool>(),
                            .qk_layernorm = *rc::gen::arbitrary<bool>(),
                            .untie_embeddings_and_output_weights = *rc::gen::arbitrary<bool>(),
                            .mtp_num_layers = *rc::gen::inRange(0, 3)}};
  if (*rc::gen::arbitrary<bool>()) {
    setting.shape.num_query_groups = heads;
    setting.shape.latent = sim::LatentSizes{.q_lora_rank = 8 * *rc::gen::inRange(0, 3),
                                            .kv_lora_rank = 16,
                                            .qk_head_dim = 16,
                                            .qk_pos_emb_head_dim = 8,
                                            .v_head_dim = 16};
  }
  setting.tp = *rc::gen::element(1, 2);
  setting.pp = *rc::gen::element(1, 2);
  setting.dp = *rc::gen::element(1, 2, 4);
  setting.chunks = *rc::gen::element(1, 2);
  setting.sequence_parallel = setting.tp > 1 && *rc::gen::arbitrary<bool>();
  MemoryOptions& options = setting.options;
  options.keeps_scores = *rc::gen::arbitrary<bool>();
  options.local_layers = options.keeps_scores && *rc::gen::arbitrary<bool>();
  options.hidden_dropout = *rc::gen::arbitrary<bool>();
  options.attention_dropout = *rc::gen::arbitrary<bool>();
  options.fused_weight_gradient = *rc::gen::arbitrary<bool>();
  options.loss = *rc::gen::element(LossKernel::unfused, LossKernel::fused, LossKernel::transformer_engine);
  return setting;
}

/// Returns the most that a stage holds of the model and its states.
std::int64_t states(const Setting& setting) {
  std::int64_t most = 0;
  for (const StageMemory& stage : setting.report().stages)
    most = std::max(most, stage.parameters + stage.gradients + stage.optimizer());
  return most;
}

RC_GTEST_PROP(MemoryLaws, ElementsOfLatentAttentionAndOfPredictionsAddUpToTheModel, ()) {
  Setting setting = drawn();
  setting.pp = *rc::gen::element(1, 2, 4);
  const MemoryReport report = setting.report();
  RC_ASSERT(report.row.holds);
}

// Buffers are padded to 128 elements of each rank, which may be more than a tiny share.
RC_GTEST_PROP(MemoryLaws, MoreRanksHoldNoMoreOfTheStates, ()) {
  const Setting setting = drawn();
  const std::int64_t now = states(setting);
  const std::int64_t padding = 18 * 128 * 8 * (setting.shape.num_layers + 4);
  Setting more = setting;
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      more.tp *= 2;
      break;
    case 1:
      more.pp *= 2;
      break;
    default:
      more.dp *= 2;
      break;
  }
  RC_PRE(!(setting.pp == 1 && more.pp == 2 && setting.shape.mtp_num_layers > 0));  // a second embedding
  RC_ASSERT(states(more) <= now + padding);
}

RC_GTEST_PROP(MemoryLaws, RecomputationNeedsNoMore, ()) {
  const Setting setting = drawn();
  const MemoryReport kept = setting.report();
  Setting again = setting;
  again.options.recompute = *rc::gen::element(RecomputeMethod::uniform, RecomputeMethod::block);
  again.options.recompute_layers = *rc::gen::inRange(1, 4);
  const MemoryReport report = again.report();
  for (std::size_t stage = 0; stage < kept.stages.size(); ++stage) {
    RC_ASSERT(report.stages[stage].peak_bytes() <= kept.stages[stage].peak_bytes());
    RC_ASSERT(report.stages[stage].static_bytes() == kept.stages[stage].static_bytes());
  }
}

// The largest moment may be another one: where the gradient of the whole embedding is most, nothing is kept,
// and a layer's backward step, where much is, may be most with sequence parallelism.
RC_GTEST_PROP(MemoryLaws, SequenceParallelismNeedsNoMore, ()) {
  Setting setting = drawn();
  setting.tp = 2;
  setting.sequence_parallel = false;
  const MemoryReport whole = setting.report();
  setting.sequence_parallel = true;
  const MemoryReport split = setting.report();
  for (std::size_t stage = 0; stage < whole.stages.size(); ++stage) {
    const StageMemory &of_whole = whole.stages[stage], &of_split = split.stages[stage];
    RC_ASSERT(of_split.passing_bytes() <= of_whole.passing_bytes());
    const bool is_comparable = of_split.peak_in == of_whole.peak_in && of_whole.activations > 0;
    if (is_comparable) RC_ASSERT(of_split.activations < of_whole.activations);
  }
}

RC_GTEST_PROP(MemoryLaws, PartsAddUpAndAreNotNegative, ()) {
  const Setting setting = drawn();
  const auto copied = *rc::gen::element<std::int64_t>(0, 4);
  const StateBytes state{.gradient = copied > 0 ? 2 : 4, .optimizer = 12 + copied, .copied_gradient = copied};
  for (const StageMemory& stage : setting.report(state).stages) {
    for (const MemoryPart& part : memory_parts()) RC_ASSERT((stage.*part.bytes) >= 0);
    // The parts are named here, because the sums of the stage are made from their table.
    const std::int64_t between_steps = stage.parameters + stage.gradients + stage.main_parameters +
                                       stage.optimizer_moments + stage.gradient_copies + stage.workspace +
                                       stage.placeholder_gradients + stage.communication_buffers;
    const std::int64_t of_the_step =
        stage.activations + stage.attention_mask + stage.logits_and_loss + stage.temporary;
    RC_ASSERT(between_steps == stage.static_bytes());
    RC_ASSERT(stage.gradient_copies % 4 == 0 && (stage.gradient_copies > 0) == (copied > 0));
    // Megatron gives the copies back before the next forward step.
    RC_ASSERT(stage.peak_bytes() ==
              std::max(between_steps, between_steps - stage.gradient_copies + of_the_step));
    RC_ASSERT((stage.peak_in == "between steps, with copies of gradients") ==
              (of_the_step < stage.gradient_copies));
    RC_ASSERT(!stage.peak_in.empty());
  }
}

Setting small_setting() {
  return {.shape = {.num_layers = 8,
                    .hidden_size = 64,
                    .ffn_hidden_size = 256,
                    .num_attention_heads = 4,
                    .num_query_groups = 4,
                    .seq_length = 16,
                    .vocab_size = 512}};
}

TEST(MemoryLaws, AGivenWorkspaceReplacesTheUsualOne) {
  Setting setting = small_setting();
  const std::int64_t usual = setting.report().stages[0].static_bytes();
  EXPECT_EQ(setting.report().stages[0].workspace, 98LL << 20U);
  setting.options.workspace = 1000;
  EXPECT_EQ(setting.report().stages[0].static_bytes(), usual - (98LL << 20U) + 1000);
}

/// Transformer Engine keeps one tensor of the weight's dtype for each shape of a weight: H is 64, F 256, with
/// 512 words. A shape that two weights have is there once, and the embedding of the first stage has none.
TEST(MemoryLaws, WhatStandsForFusedGradientsIsHeldOnceForEachShape) {
  Setting setting = small_setting();
  const auto held = [&](std::size_t stage) { return setting.report().stages[stage].placeholder_gradients; };
  const std::int64_t attention = 192 * 64 + 64 * 64, mlp = 2 * 256 * 64, output = 512 * 64;
  EXPECT_EQ(held(0), 2 * (attention + mlp + output));
  setting.shape.ffn_hidden_size = 64;  // both shapes are that of the output of attention
  EXPECT_EQ(held(0), 2 * (attention + output));
  setting.options.fused_weight_gradient = false;
  EXPECT_EQ(held(0), 0);
}

}  // namespace
