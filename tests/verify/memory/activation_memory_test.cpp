// Proves the closed forms of the paper for the memory of activations, and which activations are in flight.

#include "verify/memory/activation_memory.h"

#include <gtest/gtest.h>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/memory/layer_steps.h"

namespace {

using namespace verify;

/// The shape of the paper: F = 4 H, no gate, and one head for each query group.
ActivationShape shape_of_the_paper(int tp) {
  const std::int64_t heads = tp * *rc::gen::inRange(1, 5);
  const std::int64_t hidden = heads * tp * *rc::gen::inRange(1, 9);
  return {.model = {.num_layers = 1,
                    .hidden_size = hidden,
                    .ffn_hidden_size = 4 * hidden,
                    .num_attention_heads = heads,
                    .num_query_groups = heads},
          .padded_vocab_size = tp,  // so that the embedding's gradient, which the paper leaves out, is small
          .tokens = tp * *rc::gen::inRange(1, 100),
          .tp = tp};
}

/// The bytes of a layer without the statistics of norms and of attention, which the paper leaves out.
std::int64_t of_the_paper(const ActivationShape& shape) {
  std::int64_t bytes = 0;
  for (const SavedTensor& tensor : saved_tensors(shape, false))
    if (!std::string_view(tensor.name).ends_with("statistics")) bytes += tensor.bytes;
  return bytes;
}

/// A model whose layers are 8 wide and have two heads, and 32 in their MLP.
sim::GptConfig narrow_model(std::int64_t layers) {
  return {.num_layers = layers,
          .hidden_size = 8,
          .ffn_hidden_size = 32,
          .num_attention_heads = 2,
          .num_query_groups = 2};
}

RC_GTEST_PROP(ActivationMemory, ALayerIsTheEquationsOfThePaper, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 9));
  const std::int64_t hn = shape.model.hidden_size * shape.tokens;
  RC_ASSERT(of_the_paper(shape) == 10 * hn + 24 * hn / shape.tp);
  shape.sequence_parallel = true;
  RC_ASSERT(of_the_paper(shape) == 34 * hn / shape.tp);
  // Equation 2: without a flash kernel, 5 bytes for each score, whose heads are split.
  shape.options.keeps_scores = true;
  shape.model.seq_length = *rc::gen::inRange(1, 50);
  const std::int64_t scores =
      shape.model.num_attention_heads / shape.tp * shape.model.seq_length * shape.tokens;
  RC_ASSERT(of_the_paper(shape) == 34 * hn / shape.tp + 5 * scores);
  shape.options.attention_dropout = false;
  RC_ASSERT(of_the_paper(shape) == 34 * hn / shape.tp + 2 * scores);
  shape.options.hidden_dropout = false;
  RC_ASSERT(of_the_paper(shape) == 32 * hn / shape.tp + 2 * scores);
}

/// Returns what one microbatch takes in all chunks of a rank.
std::int64_t of_one_microbatch(const ActivationShape& shape, const std::vector<sim::StageLayers>& chunks) {
  std::int64_t layers = 0;
  for (const sim::StageLayers& chunk : chunks) layers += chunk.count;
  return layers * layer_activation_bytes(shape);
}

RC_GTEST_PROP(ActivationMemory, AStageOf1F1BKeepsPMinusRankMicrobatches, ()) {
  const ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  const int pp = *rc::gen::inRange(3, 7);
  const int microbatches = *rc::gen::inRange(1, 12);
  const sim::LayerPlacement placement =
      sim::place_layers({.num_layers = pp * *rc::gen::inRange(1, 4), .pipeline_model_parallel_size = pp});
  const auto bytes = largest_moments(shape, placement, sim::one_forward_one_backward,
                                     {.pipeline_model_parallel_size = pp, .num_microbatches = microbatches});
  RC_ASSERT(std::ssize(bytes) == pp);
  for (int rank = 1; rank + 1 < pp; ++rank) {
    const auto& chunks = placement.stages[static_cast<std::size_t>(rank)];
    RC_ASSERT(bytes[static_cast<std::size_t>(rank)].activations ==
              std::min(microbatches, pp - rank) * of_one_microbatch(shape, chunks));
  }
}

/// Korthikanti et al. 2022, section 4.2.3: with chunks, the first stage, which has L / p layers, keeps the
/// activations of L (1 + (p - 1) / (p v)) layers.
RC_GTEST_PROP(ActivationMemory, TheFirstStageOfAnInterleavedPipelineIsThatOfThePaper, ()) {
  const ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  const std::int64_t pp = *rc::gen::inRange(2, 7), chunks = *rc::gen::inRange(2, 5),
                     layers = *rc::gen::inRange(1, 4);
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = pp * chunks * layers,
                                                           .pipeline_model_parallel_size = pp,
                                                           .virtual_pipeline_model_parallel_size = chunks});
  const auto moments = largest_moments(shape, placement, sim::interleaved,
                                       {.pipeline_model_parallel_size = pp,
                                        .num_microbatches = 3 * pp,
                                        .virtual_pipeline_model_parallel_size = chunks});
  // The mask of the embedding, for its own chunk.
  const std::int64_t mask = shape.model.hidden_size * shape.tokens;
  const std::int64_t of_layers = (pp * chunks + pp - 1) * layers * layer_activation_bytes(shape);
  const std::int64_t activations = moments.front().activations;
  RC_ASSERT(activations > of_layers);
  RC_ASSERT((activations - of_layers) % mask == 0);
  RC_ASSERT((activations - of_layers) / mask <= 2 * pp);
}

TEST(ActivationMemory, TheLastStageAddsTheLogits) {
  const ActivationShape shape{.model = narrow_model(2), .padded_vocab_size = 256, .tokens = 6, .tp = 2};
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = 2});
  const LargestMoment moment =
      largest_moments(shape, placement, sim::no_pipelining, {.num_microbatches = 3}).front();
  const std::int64_t embedding = 8 * 6, output = 2 * 2 * 8 * 6 + 8 * 6;
  EXPECT_EQ(moment.activations, 2 * layer_activation_bytes(shape) + embedding + output);
  EXPECT_EQ(moment.logits_and_loss, (2 + 4) * 128 * 6);
  EXPECT_EQ(moment.step, "forward of microbatch 0, in the loss");
}

/// Recomputed layers, and a recomputed core of attention, keep the mask of every microbatch in flight.
TEST(ActivationMemory, RecomputationKeepsTheMasksOfAllMicrobatchesInFlight) {
  ActivationShape shape{.model = {.num_layers = 4,
                                  .hidden_size = 8,
                                  .ffn_hidden_size = 32,
                                  .num_attention_heads = 2,
                                  .num_query_groups = 2,
                                  .seq_length = 16},
                        .padded_vocab_size = 16,
                        .tokens = 16};
  const auto first_stage = [&](RecomputeMethod method, bool has_mask) {
    shape.options.recompute = method;
    shape.options.modules = {"core_attn"};
    shape.options.attention_mask = has_mask;
    const sim::LayerPlacement placement =
        sim::place_layers({.num_layers = 4, .pipeline_model_parallel_size = 4});
    return largest_moments(shape, placement, sim::one_forward_one_backward,
                           {.pipeline_model_parallel_size = 4, .num_microbatches = 8})
        .front()
        .all();
  };
  for (const RecomputeMethod method :
       {RecomputeMethod::uniform, RecomputeMethod::block, RecomputeMethod::modules}) {
    EXPECT_EQ(first_stage(method, true) - first_stage(method, false), 4 * 16 * 16);
    EXPECT_TRUE(keeps_attention_masks(shape));
  }
  EXPECT_EQ(first_stage(RecomputeMethod::none, true), first_stage(RecomputeMethod::none, false));
  EXPECT_FALSE(keeps_attention_masks(shape));
}

/// A rank of cp cuts its part from the whole mask, when nothing else of the microbatch is there.
TEST(ActivationMemory, TheWholeMaskIsThereWhileABatchIsLoaded) {
  const ActivationShape shape{.model = {.num_layers = 1,
                                        .hidden_size = 1,
                                        .ffn_hidden_size = 1,
                                        .num_attention_heads = 1,
                                        .num_query_groups = 1,
                                        .seq_length = 4096},
                              .padded_vocab_size = 1,
                              .tokens = 2048,
                              .cp = 2};
  const LargestMoment moment = largest_moments(shape, sim::place_layers({.num_layers = 1}),
                                               sim::no_pipelining, {.num_microbatches = 1})
                                   .front();
  EXPECT_EQ(moment.step, "forward of microbatch 0, loading its batch");
  EXPECT_EQ(moment.all(), 4096 * 4096);  // the part is the mask that the stage counts
}

/// What kernels of experts, a gate of shared experts and attention over gathered keys keep, by hand.
TEST(ActivationMemory, KernelsKeepWhatTheyReadAgain) {
  ActivationShape shape{.model = {.num_layers = 1,
                                  .hidden_size = 8,
                                  .ffn_hidden_size = 16,
                                  .num_attention_heads = 2,
                                  .num_query_groups = 2},
                        .tokens = 4};
  shape.model.gated = true;
  shape.model.experts.num_experts = 2;
  shape.model.experts.routing.topk = 1;
  shape.model.experts.moe_ffn_hidden_size = 16;
  const auto kept = [&] { return layer_activation_bytes(shape, true); };
  const std::int64_t inside = 2 * 4 * 16;  // e r F
  const std::int64_t fused = kept();
  shape.options.fused_gate = false;
  EXPECT_EQ(kept() - fused, 3 * inside);
  shape.options.te_activation = true;
  EXPECT_EQ(kept() - fused, inside);
  shape.options.te_activation = false;
  shape.model.gated = false;
  const std::int64_t squared = kept();
  shape.options.fused_squared_relu = true;
  EXPECT_EQ(squared - kept(), inside);
  shape.model.experts.shared_expert_intermediate_size = 16;
  const std::int64_t shared = kept();
  shape.model.experts.shared_expert_gate = true;
  EXPECT_EQ(kept() - shared, 2 * 8 * 4);
  shape.options.gathers_keys = true;
  const std::int64_t gated = kept();
  shape.cp = 2;
  EXPECT_EQ(kept() - gated, 2 * 8 * 4);
}

/// A layer of 4 heads of 2 in `groups`, whose microbatch is one sequence of 8 tokens.
ActivationShape shape_of_heads(std::int64_t groups) {
  return {.model = {.num_layers = 1,
                    .hidden_size = 8,
                    .ffn_hidden_size = 16,
                    .num_attention_heads = 4,
                    .num_query_groups = groups,
                    .seq_length = 8},
          .tokens = 8};
}

// Values are a view of the product that made them with queries and keys, until a flash kernel copies them.
TEST(ActivationMemory, AViewOfTheValuesKeepsTheirProduct) {
  ActivationShape shape = shape_of_heads(4);
  const auto kept_by = [&](const char* name) {
    for (const SavedTensor& tensor : saved_tensors(shape, false))
      if (std::string_view(tensor.name) == name) return tensor.bytes;
    return std::int64_t{-1};
  };
  const auto beside = [&] { return kept_by("queries and keys beside their product"); };
  constexpr std::int64_t kHead = 2 * 2 * 8;  // e d n
  EXPECT_EQ(beside(), 0);
  shape.options.recompute = RecomputeMethod::modules;
  shape.options.modules = {"core_attn"};
  EXPECT_EQ(beside(), 0) << "queries, keys and values are views of it";
  shape.model.num_query_groups = 2;
  EXPECT_EQ(beside(), 4 * kHead) << "grouped queries are copied";
  shape.model.rotary_base = 10'000;
  EXPECT_EQ(beside(), 6 * kHead) << "rotated queries and keys are tensors of their own";
  EXPECT_EQ(kept_by("rotary tables"), -1);
  shape.options.fused_rope = false;
  EXPECT_EQ(kept_by("rotary tables"), 4 * kHead) << "a cosine and a sine for queries and for keys";
  shape.options.recompute = RecomputeMethod::none;
  EXPECT_EQ(beside(), 0);
  shape.options.local_layers = true;
  EXPECT_EQ(beside(), 4 * kHead) << "keys and values are repeated";
  shape.model.num_query_groups = 4;
  EXPECT_EQ(beside(), 8 * kHead);
  shape.model.qk_layernorm = true;
  EXPECT_EQ(beside(), 0) << "the norms keep it already";
}

// Megatron's own softmax in fp32 keeps its result in 4 bytes, and a copy for the product or for dropout.
TEST(ActivationMemory, AnUnfusedSoftmaxInFp32KeepsItsResult) {
  ActivationShape shape = shape_of_heads(4);
  shape.options.keeps_scores = shape.options.local_layers = true;
  shape.options.fused_softmax = false;
  const auto beyond = [&] {
    shape.options.softmax_in_fp32 = false;
    const std::int64_t without = layer_activation_bytes(shape);
    shape.options.softmax_in_fp32 = true;
    return layer_activation_bytes(shape) - without;
  };
  constexpr std::int64_t kScores = 4 * 8 * 8;
  EXPECT_EQ(beyond(), 2 * kScores) << "dropout makes a copy in 16 bits from a mask";
  shape.options.attention_dropout = false;
  EXPECT_EQ(beyond(), 4 * kScores);
  shape.options.local_layers = false;
  EXPECT_EQ(beyond(), 0);
  shape.options.local_layers = shape.options.fused_softmax = true;
  EXPECT_EQ(beyond(), 4 * kScores) << "no kernel takes 8 tokens";
  shape.model.seq_length = shape.tokens = 32;
  EXPECT_EQ(beyond(), 0);
}

// Each kernel of the loss, by hand: logits in bf16, and their softmax in fp32.
TEST(ActivationMemory, EachKernelOfTheLossKeepsItsOwn) {
  ActivationShape shape{.model = narrow_model(1), .padded_vocab_size = 4096, .tokens = 6};
  const auto loss = [&] {
    const sim::LayerPlacement placement = sim::place_layers({.num_layers = 1});
    return largest_moments(shape, placement, sim::no_pipelining, {}).front().logits_and_loss;
  };
  const std::int64_t logits = 4096 * 6;
  EXPECT_EQ(loss(), 6 * logits);
  shape.options.loss = LossKernel::fused;
  EXPECT_EQ(loss(), 10 * logits);
  shape.model.mtp_num_layers = 1;
  EXPECT_EQ(loss(), (10 + 4) * logits) << "the loss of the prediction keeps its softmax";
}

/// What the final norm keeps, which is given back before the backward step of a layer.
std::int64_t of_final_norm(const ActivationShape& shape) {
  return (2 * 2 * shape.model.hidden_size + (shape.model.has_rms_norm() ? 4 : 8)) * shape.own_tokens();
}

/// The activations of a moment, and those of the final norm if they are gone by then.
std::int64_t activations_in_all(const ActivationShape& shape, const LargestMoment& moment) {
  const bool is_gone = shape.model.mtp_num_layers == 0 && moment.step.ends_with("in a layer");
  return moment.activations + (is_gone ? of_final_norm(shape) : 0);
}

/// The largest moment of a model of one layer, whose words take next to nothing.
LargestMoment moment_of_one_layer(const ActivationShape& shape) {
  return largest_moments(shape, sim::place_layers({.num_layers = 1}), sim::no_pipelining, {}).front();
}

// Of `block` the first layers of a chunk are computed again, when its other layers have given back what they
// kept.
TEST(ActivationMemory, LayersThatAreComputedAgainComeBeforeTheOthers) {
  ActivationShape shape{.model = narrow_model(2), .padded_vocab_size = 1, .tokens = 6};
  const auto moment = [&] {
    return largest_moments(shape, sim::place_layers({.num_layers = 2}), sim::no_pipelining, {}).front();
  };
  const LargestMoment whole = moment();
  shape.options.recompute = RecomputeMethod::block;
  const std::int64_t layer = layer_activation_bytes(shape), input = 2 * 8 * 6;
  EXPECT_EQ(whole.all() - moment().all(), layer - input);
  EXPECT_EQ(moment().temporary, whole.temporary) << "the second layer keeps everything, and is first";
  shape.options.recompute_layers = 2;
  const std::int64_t output = input;
  EXPECT_EQ(moment().temporary, whole.temporary + layer - input + output);
}

// An MLP gives back what its second product has read before its activation makes the gradient of its input.
TEST(ActivationMemory, AnMlpNeedsTheLargestOfItsGradients) {
  ActivationShape shape{.model = narrow_model(1), .padded_vocab_size = 1, .tokens = 6};
  shape.model.untie_embeddings_and_output_weights = true;
  const std::int64_t width = 2 * 8 * 6, inside = 2 * 32 * 6, weight = 2 * 32 * 8;
  const auto needed = [&] {
    const LargestMoment moment = moment_of_one_layer(shape);
    EXPECT_EQ(moment.step, "backward of microbatch 0, in a layer");
    return moment.temporary;
  };
  EXPECT_EQ(needed(), width + inside);
  shape.model.gated = true;
  EXPECT_EQ(needed(), width + 2 * inside);
  shape.options.fused_weight_gradient = false;
  EXPECT_EQ(needed(), width + inside + weight) << "in the second product";
  shape.model.ffn_hidden_size = 2;
  shape.tokens = 1;
  EXPECT_EQ(needed(), 2 * (8 + 8 + 2 * 2 * 8 - 2)) << "in the first product";
}

// The output layer and the final norm have given back what they kept before the layers' backward steps.
TEST(ActivationMemory, ALayerOfTheLastStageFindsTheFinalNormGivenBack) {
  for (const bool is_rms : {false, true}) {
    ActivationShape shape{.model = narrow_model(1), .padded_vocab_size = 1, .tokens = 6};
    shape.model.normalization = is_rms ? sim::Norm::rms_norm : sim::Norm::layer_norm;
    shape.options.hidden_dropout = false;
    const LargestMoment moment = moment_of_one_layer(shape);
    EXPECT_EQ(moment.step, "backward of microbatch 0, in a layer");
    EXPECT_EQ(moment.activations, layer_activation_bytes(shape));
  }
}

// A tied output layer of a single stage has its gradient first. PyTorch holds it until that of the embedding
// comes, and adds that to it; a fused one is a tensor that stands for it, and the sum is a third one.
TEST(ActivationMemory, ATiedGradientWaitsForThatOfTheEmbedding) {
  ActivationShape shape{.model = narrow_model(1), .padded_vocab_size = 1 << 10, .tokens = 1};
  const std::int64_t words = 2 * 8 << 10;
  const auto temporary = [&](bool is_untied, bool is_fused) {
    shape.model.untie_embeddings_and_output_weights = is_untied;
    shape.options.fused_weight_gradient = is_fused;
    const LargestMoment moment = moment_of_one_layer(shape);
    EXPECT_EQ(moment.step, "backward of microbatch 0, in the embedding");
    return moment.temporary - 2 * 8;
  };
  EXPECT_EQ(temporary(false, false), 2 * words);
  EXPECT_EQ(temporary(false, true), 2 * words);
  EXPECT_EQ(temporary(true, true), words);
  // Narrow words, and a layer that holds the gradient meanwhile.
  shape.padded_vocab_size = 1;
  shape.tokens = 100;
  shape.model.untie_embeddings_and_output_weights = true;
  shape.options.fused_weight_gradient = false;
  const std::int64_t untied = moment_of_one_layer(shape).temporary;
  shape.model.untie_embeddings_and_output_weights = false;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, untied + 2 * 8);
}

// Tokens that go to narrow experts, and what comes back, are more than the gradients of the experts.
TEST(ActivationMemory, TokensOnTheirWayToExpertsAreHeldInTheForwardStep) {
  ActivationShape shape{.model = {.num_layers = 1,
                                  .hidden_size = 64,
                                  .ffn_hidden_size = 2,
                                  .num_attention_heads = 2,
                                  .num_query_groups = 2},
                        .padded_vocab_size = 1,
                        .tokens = 8};
  sim::GptExperts& experts = shape.model.experts;
  experts = {.num_experts = 4,
             .moe_ffn_hidden_size = 2,
             .routing = {.topk = 4},
             .dispatcher = sim::TokenDispatcherType::alltoall};
  const std::int64_t width = 2 * 64 * 8, rows = 4 * width;
  EXPECT_EQ(moment_of_one_layer(shape).step, "forward of microbatch 0, in its experts");
  EXPECT_EQ(moment_of_one_layer(shape).temporary, 3 * rows) << "chosen, computed, sorted";
  shape.ep = 2;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, 4 * rows) << "and received";
  shape.ep = 1;
  experts.token_dropping = {.capacity_factor = 1, .pad_to_capacity = true};
  EXPECT_EQ(moment_of_one_layer(shape).temporary, width + 2 * rows) << "padded rows are sorted already";
  experts.token_dropping->pad_to_capacity = false;
  shape.ep = 4;
  EXPECT_EQ(moment_of_one_layer(shape).step, "backward of microbatch 0, in a layer");
  EXPECT_EQ(moment_of_one_layer(shape).temporary, width + 2 * rows) << "nothing is sorted";
  shape.ep = 1;
  experts.dispatcher = sim::TokenDispatcherType::allgather;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, width + width + rows) << "all tokens, and the rows of them";
  experts.dispatcher = sim::TokenDispatcherType::alltoall;
  shape.etp = shape.tp = 2;
  shape.sequence_parallel = true;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, 3 * rows)
      << "chosen, computed, sorted, and summed over etp";
  experts.shared_expert_intermediate_size = 2;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, 3 * rows + width / 2) << "and a part of shared outputs";
  shape.options.overlaps_shared_experts = true;
  EXPECT_EQ(moment_of_one_layer(shape).temporary, 3 * rows + width) << "and the whole shared outputs";
  shape.options.overlaps_shared_experts = false;
  experts.shared_expert_intermediate_size = 0;
  shape.etp = shape.tp = 1;
  shape.sequence_parallel = false;
  shape.options.recompute = RecomputeMethod::uniform;
  EXPECT_GE(moment_of_one_layer(shape).temporary, 3 * rows) << "the experts are computed again";
}

/// A prediction keeps, around its layer, what its two norms read, their outputs, the input of its final norm,
/// and its part of the joined outputs; computed again, what the norms read, and its part.
TEST(ActivationMemory, PredictionsKeepTheStatesAroundTheirLayers) {
  ActivationShape shape{.model = narrow_model(2), .padded_vocab_size = 1, .tokens = 6};
  shape.model.normalization = sim::Norm::rms_norm;
  const auto activations = [&](std::int64_t predictions) {
    shape.model.mtp_num_layers = predictions;
    const sim::LayerPlacement placement = sim::place_layers({.num_layers = 2});
    const LargestMoment moment = largest_moments(shape, placement, sim::no_pipelining, {}).front();
    return activations_in_all(shape, moment);
  };
  const std::int64_t width = 2 * 8 * 6, layer = layer_activation_bytes(shape), statistics = 3 * 4 * 6;
  EXPECT_EQ(activations(1) - activations(0), layer + 6 * width + statistics);
  EXPECT_EQ(activations(2) - activations(1), layer + 6 * width + statistics);
  shape.options.recompute = RecomputeMethod::uniform;
  EXPECT_EQ(activations(1) - activations(0), 3 * width);
}

// Deferred weight gradients of the output layer keep the gradients of the logits, and the layer's inputs.
TEST(ActivationMemory, DeferredWeightGradientsKeepTheGradientsOfTheLogits) {
  ActivationShape shape{.model = narrow_model(2), .padded_vocab_size = 4096, .tokens = 6};
  const auto last = [&] {
    const sim::LayerPlacement placement =
        sim::place_layers({.num_layers = 2, .pipeline_model_parallel_size = 2});
    return largest_moments(shape, placement, sim::one_forward_one_backward,
                           {.pipeline_model_parallel_size = 2, .num_microbatches = 5})
        .back()
        .all();
  };
  const std::int64_t usual = last(), deferred = 2 * 4096 * 6 + 2 * 8 * 6;
  shape.options.deferred_microbatches = 2;
  EXPECT_EQ(last() - usual, 2 * deferred);
  shape.options.deferred_microbatches = 0;
  EXPECT_EQ(last() - usual, 4 * deferred) << "all, and the last one has not come yet";
}

/// The gradient of the embedding has all its rows, and comes when the layers have given back what they kept.
TEST(ActivationMemory, TheFirstStageHoldsTheGradientOfTheEmbedding) {
  ActivationShape shape{.model = narrow_model(4), .padded_vocab_size = 1 << 20, .tokens = 4, .tp = 2};
  const auto moments = [&](std::int64_t pp) {
    const sim::LayerPlacement placement =
        sim::place_layers({.num_layers = 4, .pipeline_model_parallel_size = pp});
    return largest_moments(shape, placement, sim::one_forward_one_backward,
                           {.pipeline_model_parallel_size = pp, .num_microbatches = 4});
  };
  const LargestMoment first = moments(4).front();
  EXPECT_EQ(first.step, "backward of microbatch 0, in the embedding");
  EXPECT_EQ(first.temporary, 2 * ((1 << 19) * 8 + 8 * 4));
  EXPECT_EQ(first.activations, 3 * (layer_activation_bytes(shape) + 8 * 4));  // of the other microbatches
  EXPECT_LT(moments(4).at(1).temporary, first.temporary);
  EXPECT_NE(moments(4).back().step, "backward of microbatch 0, in the embedding");
  shape.model.mtp_num_layers = 1;
  shape.padded_vocab_size = 2;
  EXPECT_NE(moments(4).front().step, "backward of microbatch 0, in the embedding");
}

/// Korthikanti et al. 2022, section 5: each layer keeps its input of 2 H n bytes, and one layer at a
/// time keeps everything.
RC_GTEST_PROP(ActivationMemory, RecomputedLayersKeepTheirInput, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  const int layers = *rc::gen::inRange(1, 9);
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = layers});
  const auto moment = [&] {
    return largest_moments(shape, placement, sim::no_pipelining, {.num_microbatches = 2}).front();
  };
  const auto activations = [&](const LargestMoment& of) { return activations_in_all(shape, of); };
  const LargestMoment kept = moment();
  const std::int64_t layer = layer_activation_bytes(shape);
  shape.options.recompute = RecomputeMethod::uniform;
  const std::int64_t input = 2 * shape.model.hidden_size * shape.tokens;
  RC_ASSERT(activations(kept) - activations(moment()) == layers * (layer - input));
  // A single layer has its output a second time while it is computed again, which saves nothing.
  const std::int64_t output = layers == 1 ? input : 0;
  RC_ASSERT(moment().all() <= kept.all() + output);
  const int of_group = *rc::gen::inRange(1, 5);
  shape.options.recompute_layers = of_group;
  RC_ASSERT(activations(kept) - activations(moment()) ==
            layers * layer - (layers + of_group - 1) / of_group * input);
  shape.options.recompute = RecomputeMethod::block;
  RC_ASSERT(activations(kept) - activations(moment()) == std::min(layers, of_group) * (layer - input));
  RC_ASSERT(moment().all() <= kept.all() + output);
}

// Of a chunk with layers of experts and dense ones by turns, the first layers are computed again, whatever
// they are, and never the layers that predict further tokens.
RC_GTEST_PROP(ActivationMemory, TheFirstLayersOfAChunkAreComputedAgain, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.model.num_layers = 4;
  shape.model.mtp_num_layers = *rc::gen::inRange(0, 2);
  shape.model.experts = {.num_experts = 1, .moe_ffn_hidden_size = 6, .routing = {.topk = 1}};
  shape.model.experts.moe_layer_freq = {.every = 2};
  const auto activations = [&] {
    const sim::LayerPlacement placement = sim::place_layers({.num_layers = 4});
    return activations_in_all(shape, largest_moments(shape, placement, sim::no_pipelining, {}).front());
  };
  const std::int64_t whole = activations();
  shape.options.recompute = RecomputeMethod::block;
  shape.options.recompute_layers = 1;
  const std::int64_t input = 2 * shape.model.hidden_size * shape.tokens;
  RC_ASSERT(whole - activations() == layer_activation_bytes(shape, true) - input);
  shape.options.recompute_layers = *rc::gen::inRange(4, 7);
  RC_ASSERT(whole - activations() ==
            2 * layer_activation_bytes(shape, true) + 2 * layer_activation_bytes(shape) - 4 * input);
}

RC_GTEST_PROP(ActivationMemory, AModuleThatIsComputedAgainIsNotKept, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.options.local_layers = shape.options.keeps_scores = true;
  shape.model.seq_length = 4;
  const std::int64_t whole = layer_activation_bytes(shape);
  shape.options.recompute = RecomputeMethod::modules;
  RC_ASSERT(layer_activation_bytes(shape) == whole);
  const std::int64_t hn = shape.model.hidden_size * shape.tokens;
  shape.options.modules = {"layernorm"};
  RC_ASSERT(recomputed_bytes(shape) == 4 * hn + 2 * 8 * shape.tokens);
  shape.options.modules = {"mlp", "core_attn"};
  RC_ASSERT(recomputed_bytes(shape) == 16 * hn / shape.tp + score_bytes(shape) / 2 * 5);
  RC_ASSERT(layer_activation_bytes(shape) + recomputed_bytes(shape) == whole);
}

// Megatron's layers of Transformer Engine have norms of their own before latent attention and experts alone.
RC_GTEST_PROP(ActivationMemory, AFusedNormIsNotComputedAgain, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.options.recompute = RecomputeMethod::modules;
  shape.options.modules = {"layernorm"};
  const std::int64_t norm = 2 * shape.model.hidden_size * shape.tokens + 8 * shape.tokens;
  RC_ASSERT(recomputed_bytes(shape) == 0);
  RC_ASSERT(recomputed_bytes(shape, true) == norm);
  shape.options.modules = {"mlp"};
  RC_ASSERT(recomputed_bytes(shape) == norm + 2 * 2 * shape.model.ffn_hidden_size * shape.tokens / shape.tp);
  RC_ASSERT(recomputed_bytes(shape, true) == 0);
  shape.options.modules = {"layernorm"};
  shape.model.latent = sim::LatentSizes{};
  RC_ASSERT(recomputed_bytes(shape) == norm);
  RC_ASSERT(recomputed_bytes(shape, true) == 2 * norm);
}

TEST(ActivationMemory, WhatNoRankHoldsIsNotCounted) {
  ActivationShape shape{.model = {.num_layers = 96, .hidden_size = 12288, .ffn_hidden_size = 49152},
                        .padded_vocab_size = 51200,
                        .tokens = 2048};
  EXPECT_TRUE(can_be_counted(shape, {.pipeline_model_parallel_size = 8, .num_microbatches = 64}));
  shape.tokens = std::int64_t{1} << 48;
  EXPECT_FALSE(can_be_counted(shape, {}));
}

/// Grouped queries and a gate, calculated by hand: H is 8, four heads in groups of two, F is 6.
TEST(ActivationMemory, AGatedLayerOfGroupedQueriesIsThatByHand) {
  ActivationShape shape{.model = {.num_layers = 1,
                                  .hidden_size = 8,
                                  .ffn_hidden_size = 6,
                                  .num_attention_heads = 4,
                                  .num_query_groups = 2,
                                  .gated = true},
                        .tokens = 1,
                        .tp = 1};
  const auto layer_activation_bytes = of_the_paper;
  const std::int64_t norms_and_inputs = 4 * 2 * 8, masks = 2 * 8, queries = 2 * 8,
                     keys_and_values = 2 * 2 * 4, attended = 2 * 8, gate_and_up = 2 * 12, down = 2 * 6;
  EXPECT_EQ(layer_activation_bytes(shape),
            norms_and_inputs + masks + queries + keys_and_values + attended + gate_and_up + down);
  shape.model.kv_channels = 5;  // heads of 5 channels, where 8 / 4 are 2
  const std::int64_t of_heads = 2 * 4 * 5 + 2 * 2 * 2 * 5 + 2 * 4 * 5;
  EXPECT_EQ(layer_activation_bytes(shape), norms_and_inputs + masks + of_heads + gate_and_up + down);
  shape.element_bytes = 4;
  EXPECT_EQ(layer_activation_bytes(shape), masks + 2 * (norms_and_inputs + of_heads + gate_and_up + down));
}

// A norm of queries and keys keeps what it normalizes, and its mean and scale of each head.
RC_GTEST_PROP(ActivationMemory, NormsOfQueriesAndKeysKeepTheirInputs, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.model.kv_channels = *rc::gen::inRange(1, 9);
  shape.model.num_query_groups = shape.tp;
  const std::int64_t without = layer_activation_bytes(shape);
  shape.model.qk_layernorm = true;
  const std::int64_t heads = shape.model.num_attention_heads / shape.tp + 1;
  RC_ASSERT(layer_activation_bytes(shape) - without ==
            heads * shape.tokens * (2 * shape.model.kv_channels + 2 * 4));
  RC_ASSERT(recomputed_bytes(shape) == 0);
}

// Latent states have norms with --qk-layernorm alone. Those that Transformer Engine fuses into the
// up-projections are computed again with them; others are before the up-projections, and are kept.
RC_GTEST_PROP(ActivationMemory, NormsOfLatentStatesAreComputedAgainWithTheirProjections, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.model.latent = sim::LatentSizes{.q_lora_rank = *rc::gen::inRange(0, 9), .kv_lora_rank = 5};
  const sim::LatentSizes& latent = *shape.model.latent;
  const auto bytes = [&](bool has_norms, std::vector<std::string> modules) {
    shape.model.qk_layernorm = has_norms;
    shape.options.recompute = RecomputeMethod::modules;
    shape.options.modules = std::move(modules);
    return std::pair(layer_activation_bytes(shape), recomputed_bytes(shape));
  };
  const std::int64_t norms =
      shape.tokens * (2 * (latent.q_lora_rank + 5) + 8 * (latent.q_lora_rank > 0 ? 2 : 1));
  const auto without = bytes(false, {}), with = bytes(true, {});
  RC_ASSERT(with.first == without.first + norms);
  RC_ASSERT(bytes(true, {"layernorm"}).second == bytes(false, {"layernorm"}).second);
  RC_ASSERT(bytes(true, {"mla_up_proj"}).first == bytes(false, {"mla_up_proj"}).first);
  shape.options.local_layers = true;
  RC_ASSERT(bytes(true, {"mla_up_proj"}).first == bytes(false, {"mla_up_proj"}).first + norms);
  RC_ASSERT(bytes(true, {"layernorm"}).second == bytes(false, {"layernorm"}).second);
}

// Without a kernel of its own a gate keeps both factors of its product, and an expert the product itself,
// which the probabilities multiply.
RC_GTEST_PROP(ActivationMemory, AnUnfusedGateKeepsItsFactors, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.model.experts = {.num_experts = 1, .moe_ffn_hidden_size = 6, .routing = {.topk = 1}};
  const auto difference = [&](bool has_experts) {
    shape.options.fused_gate = true;
    const std::int64_t fused = layer_activation_bytes(shape, has_experts);
    shape.options.fused_gate = false;
    return layer_activation_bytes(shape, has_experts) - fused;
  };
  RC_ASSERT(difference(false) == 0);
  RC_ASSERT(difference(true) == 0);
  shape.model.gated = true;
  RC_ASSERT(difference(false) == 2 * 2 * shape.model.ffn_hidden_size * shape.tokens / shape.tp);
  RC_ASSERT(difference(true) == 3 * 2 * 6 * shape.tokens);
}

// With one expert that every token chooses, a rank computes the rows of an MLP. It keeps a second copy of
// their inputs and, without a gate, what the probabilities multiply. For each token it keeps its probability
// and whether it is chosen (3 bytes), an index and a score (12), whether it is here (1), and, in the order of
// rows, an index and the probability (10).
RC_GTEST_PROP(ActivationMemory, OneExpertIsAnMlpWithARouter, ()) {
  ActivationShape shape = shape_of_the_paper(1);
  shape.model.gated = *rc::gen::arbitrary<bool>();
  shape.model.experts = {
      .num_experts = 1, .moe_ffn_hidden_size = shape.model.ffn_hidden_size, .routing = {.topk = 1}};
  const std::int64_t hn = shape.model.hidden_size * shape.tokens;
  const std::int64_t multiplied = shape.model.gated ? 0 : 2 * shape.model.ffn_hidden_size * shape.tokens;
  RC_ASSERT(layer_activation_bytes(shape, true) ==
            layer_activation_bytes(shape) + 2 * hn + 26 * shape.tokens + multiplied);
}

// Shared experts that overlap with the others gather their input of sequence parallelism before their first
// product, which keeps it whole.
TEST(ActivationMemory, SharedExpertsThatOverlapKeepTheirGatheredInput) {
  ActivationShape shape{.model = narrow_model(1), .padded_vocab_size = 1, .tokens = 6, .tp = 2};
  shape.model.experts = {.num_experts = 2,
                         .moe_ffn_hidden_size = 1,
                         .routing = {.topk = 1},
                         .dispatcher = sim::TokenDispatcherType::alltoall,
                         .shared_expert_intermediate_size = 2};
  const auto more = [&] {
    shape.options.overlaps_shared_experts = false;
    const std::int64_t kept = layer_activation_bytes(shape, true);
    shape.options.overlaps_shared_experts = true;
    return layer_activation_bytes(shape, true) - kept;
  };
  EXPECT_EQ(more(), 0) << "all tokens are there";
  shape.sequence_parallel = true;
  EXPECT_EQ(more(), 2 * 8 * 6);
}

RC_GTEST_PROP(ActivationMemory, AllExpertsAreComputedAgainWithTheirLayer, ()) {
  ActivationShape shape = shape_of_the_paper(*rc::gen::inRange(1, 5));
  shape.model.experts = {.num_experts = 1, .moe_ffn_hidden_size = 6, .routing = {.topk = 1}};
  shape.etp = shape.tp;
  shape.options.recompute = RecomputeMethod::modules;
  shape.options.modules = {"moe"};
  const std::int64_t routed = recomputed_bytes(shape, true), kept = layer_activation_bytes(shape, true);
  shape.model.experts.shared_expert_intermediate_size = 5 * shape.tp;
  const std::int64_t shared = 2 * 2 * 5 * shape.tokens;
  RC_ASSERT(recomputed_bytes(shape, true) == routed + shared);
  RC_ASSERT(layer_activation_bytes(shape, true) == kept);
  shape.options.modules = {"shared_experts"};
  RC_ASSERT(recomputed_bytes(shape, true) == shared);
}

/// The bytes that a router and the order of its rows keep of each of 8 tokens.
TEST(ActivationMemory, ARouterKeepsItsScoresAndTheOrderOfRows) {
  ActivationShape shape = shape_of_heads(4);
  sim::GptExperts& experts = shape.model.experts;
  const auto of_a_token = [&](const sim::GptExperts& options) {
    experts = options;
    std::int64_t bytes = 0;
    for (const SavedTensor& tensor : saved_tensors(shape, true)) {
      const std::string_view name = tensor.name;
      const bool is_of_rows = name == "order of rows";
      if (is_of_rows || name == "probabilities and map" || name == "choice of experts" ||
          name == "scores for a loss of balance" || name == "logits for the z-loss")
        bytes += tensor.bytes;
    }
    return bytes / 8;
  };
  const sim::GptExperts usual{.num_experts = 64,
                              .moe_ffn_hidden_size = 2,
                              .routing = {.topk = 8},
                              .dispatcher = sim::TokenDispatcherType::alltoall};
  const auto with = [&](auto change) {
    sim::GptExperts options = usual;
    change(options);
    return of_a_token(options);
  };
  const std::int64_t plain = of_a_token(usual);
  EXPECT_EQ(plain, 3 * 64 + 12 * 8 + 8 * 64 + 10 * 8);
  EXPECT_EQ(with([](auto& o) { o.routing.pre_softmax = true; }) - plain, 4 * (64 - 8));
  EXPECT_EQ(with([](auto& o) { o.routing.score_function = sim::ScoreFunction::sigmoid; }) - plain,
            4 * (64 + 1));
  EXPECT_EQ(with([](auto& o) {
              o.aux_losses = {{sim::AuxLossKind::seq_aux_loss, {1, 100}}};
            }) - plain,
            4 * 64);
  EXPECT_EQ(with([](auto& o) { o.z_loss_coefficient = {1, 1000}; }) - plain, 2 * 64);
  const auto gathered = [](auto& o) { o.dispatcher = sim::TokenDispatcherType::allgather; };
  EXPECT_EQ(with(gathered) - plain, 64 - 8 * 64);
  shape.ep = 2;
  EXPECT_EQ(with(gathered) - plain, 64 - 8 * 64) << "a map of twice the tokens, and half the experts";
  shape.ep = 1;
  shape.options.router_bytes = 4;
  EXPECT_EQ(of_a_token(usual) - plain, 2 * (64 + 8));
  shape.options.router_bytes = 0;
  shape.options.fused_permutation = true;
  EXPECT_EQ(of_a_token(usual) - plain, 4 * (2 * 64 + 1) + 8 * 8 - 8 * (64 + 8));
  shape.options.fused_router = true;
  EXPECT_EQ(of_a_token(usual) - plain, 4 * (2 * 64 + 1) + 8 * 8 - 8 * (64 + 8) + 4 * 64 - 12 * 8);
}

RC_GTEST_PROP(ActivationMemory, TheRowsOfExpertsAreThoseOfAnEvenRouter, ()) {
  ActivationShape shape = shape_of_the_paper(1);
  sim::GptExperts& experts = shape.model.experts;
  experts = {.num_experts = 8,
             .moe_ffn_hidden_size = 6,
             .routing = {.topk = 2},
             .dispatcher = sim::TokenDispatcherType::alltoall};
  shape.tokens = 8 * *rc::gen::inRange(1, 50);
  // A row has an index and a probability; padded rows have two indices, and no pairs are sorted then.
  const std::int64_t order = 10, padded_order = 18, sorted = 8 * 8 * shape.tokens, choice = 12;
  const std::int64_t row = 2 * (shape.model.hidden_size + 3 * 6);
  const std::int64_t whole = layer_activation_bytes(shape, true);
  const auto beyond = [&] { return layer_activation_bytes(shape, true) - whole; };
  experts.routing.topk = 3;
  RC_ASSERT(beyond() == shape.tokens * (row + order + choice));
  experts.routing.topk = 2;
  experts.token_dropping = {.capacity_factor = 2};
  RC_ASSERT(beyond() == 0);  // nothing is dropped, and nothing is padded
  experts.token_dropping->pad_to_capacity = true;
  RC_ASSERT(beyond() == 2 * shape.tokens * row + (4 * padded_order - 2 * order) * shape.tokens - sorted);
  experts.token_dropping->capacity_factor = 0.5;
  RC_ASSERT(beyond() == -shape.tokens * row + (padded_order - 2 * order) * shape.tokens - sorted);
  experts = {.num_experts = 8,
             .moe_ffn_hidden_size = 6,
             .routing = {.topk = 2},
             .dispatcher = sim::TokenDispatcherType::alltoall,
             .shared_expert_intermediate_size = 5};
  RC_ASSERT(beyond() == 2 * 2 * 5 * shape.tokens);
}

// Megatron's dispatchers keep the probabilities of their last microbatch, and with them the input of what was
// computed again, and its gradient.
TEST(ActivationMemory, ExpertsThatAreComputedAgainLeaveTheirInputsAndGradients) {
  ActivationShape shape{.model = narrow_model(4), .padded_vocab_size = 1 << 10, .tokens = 1};
  shape.model.untie_embeddings_and_output_weights = true;
  shape.model.experts = {.num_experts = 1, .moe_ffn_hidden_size = 6, .routing = {.topk = 1}};
  const auto moment = [&] {
    return largest_moments(shape, sim::place_layers({.num_layers = 4}), sim::no_pipelining, {}).front();
  };
  const std::int64_t width = 2 * 8;
  const auto left = [&](RecomputeMethod method, std::int64_t layers) {
    shape.options.recompute = method;
    shape.options.recompute_layers = layers;
    EXPECT_EQ(moment().step, "backward of microbatch 0, in the embedding");
    return moment().activations / width;
  };
  EXPECT_EQ(left(RecomputeMethod::none, 1), 0);
  EXPECT_EQ(left(RecomputeMethod::uniform, 1), 2 * 4);
  EXPECT_EQ(left(RecomputeMethod::uniform, 3), 2 * 2);
  EXPECT_EQ(left(RecomputeMethod::block, 3), 2 * 3);
  shape.options.modules = {"moe"};
  EXPECT_EQ(left(RecomputeMethod::modules, 1), 2 * 4);
  shape.options.modules = {"moe_act"};
  EXPECT_EQ(left(RecomputeMethod::modules, 1), 0);
  shape.model.experts.moe_layer_freq = {.every = 2};
  EXPECT_EQ(left(RecomputeMethod::uniform, 1), 2 * 2);
  EXPECT_EQ(left(RecomputeMethod::uniform, 2), 2 * 2);
  EXPECT_EQ(left(RecomputeMethod::uniform, 4), 2);
  // The first layer finds the gradients of the others: that of the second one is its own output's.
  shape.padded_vocab_size = 1;
  shape.model.experts.moe_layer_freq = {.every = 1};
  shape.options.recompute_layers = 1;
  EXPECT_EQ(moment().step, "backward of microbatch 0, in a layer");
  EXPECT_EQ(moment().temporary, backward_bytes_again(shape, true, 1) - width + 2 * width);
}

// What the steps of one layer hold for themselves: which parts of it are there at the same time.
constexpr std::int64_t kTokens = 4, kWidth = 2 * 8 * kTokens;  // e H n

/// A layer that is 8 wide, with 2 heads of 4 and 32 in its MLP, and no dropout.
ActivationShape narrow_layer(std::vector<std::string> modules) {
  ActivationShape shape{.model = {.num_layers = 1,
                                  .hidden_size = 8,
                                  .ffn_hidden_size = 32,
                                  .num_attention_heads = 2,
                                  .num_query_groups = 2},
                        .tokens = kTokens};
  shape.options.hidden_dropout = false;
  shape.options.recompute = RecomputeMethod::modules;
  shape.options.modules = std::move(modules);
  return shape;
}

std::int64_t recomputed(const ActivationShape& shape, LayerPart part, bool has_experts = false) {
  return part_bytes(shape, has_experts, part).recomputed;
}

TEST(LayerSteps, AnMlpThatIsComputedAgainHasItsOutputASecondTime) {
  const std::int64_t inside = 2 * 32 * kTokens, plain = kWidth + inside;
  EXPECT_EQ(backward_bytes(narrow_layer({}), false), plain);
  const ActivationShape again = narrow_layer({"mlp"});
  const std::int64_t mlp = recomputed(again, LayerPart::mlp) + recomputed(again, LayerPart::mlp_norm);
  EXPECT_EQ(backward_bytes(again, false), plain + mlp + kWidth);
}

// Attention is computed again when the MLP has given back what it kept, so that their needs do not add up.
TEST(LayerSteps, AttentionComesWhenTheMlpIsGone) {
  ActivationShape shape = narrow_layer({"core_attn"});
  shape.options.keeps_scores = true;
  shape.model.seq_length = 64;
  const std::int64_t in_mlp = kWidth + 2 * 32 * kTokens, core = recomputed(shape, LayerPart::attention);
  const std::int64_t behind =
      part_bytes(shape, false, LayerPart::mlp).kept + part_bytes(shape, false, LayerPart::mlp_norm).kept;
  // The gradients of queries, keys, values and of the output, and the output a second time.
  EXPECT_EQ(backward_bytes(shape, false), kWidth + core + 5 * kWidth - behind);
  EXPECT_GT(backward_bytes(shape, false), in_mlp);
  shape.model.seq_length = 2;
  EXPECT_EQ(backward_bytes(shape, false), in_mlp) << "few scores are less than the MLP has given back";
}

TEST(LayerSteps, LatentProjectionsHoldWhatTheyComputeAgain) {
  ActivationShape shape = narrow_layer({"mla_up_proj", "mlp"});
  shape.model.ffn_hidden_size = 1;
  shape.model.latent =
      sim::LatentSizes{.kv_lora_rank = 3, .qk_head_dim = 16, .qk_pos_emb_head_dim = 8, .v_head_dim = 16};
  const std::int64_t of_head = 2 * kTokens, inputs = 2 * (2 * 24 + 16) * of_head, output = 2 * 16 * of_head,
                     projected = 2 * (16 + 16) * of_head;
  const std::int64_t again = recomputed(shape, LayerPart::attention);
  const std::int64_t behind =
      part_bytes(shape, false, LayerPart::mlp).kept + part_bytes(shape, false, LayerPart::mlp_norm).kept;
  const std::int64_t fused = kWidth + again - behind + inputs + projected - output;
  EXPECT_EQ(backward_bytes(shape, false), kWidth + again - behind + inputs + output) << "in the core";
  EXPECT_EQ(fused, backward_bytes(shape, false) + projected - 2 * output);
  shape.options.fused_rope = false;
  EXPECT_EQ(backward_bytes(shape, false), fused + 2 * 24 * of_head) << "rotations make new gradients";
  shape.options.fused_weight_gradient = false;
  EXPECT_EQ(backward_bytes(shape, false), fused + 2 * 24 * of_head + 2 * 2 * (16 + 16) * 3);
}

TEST(LayerSteps, SharedExpertsComeWhenTheOthersAreGone) {
  ActivationShape shape = narrow_layer({"shared_experts"});
  shape.model.experts = {.num_experts = 2,
                         .moe_ffn_hidden_size = 32,
                         .routing = {.topk = 2},
                         .dispatcher = sim::TokenDispatcherType::alltoall,
                         .shared_expert_intermediate_size = 16};
  const std::int64_t in_routed = backward_bytes(shape, true), rows = 2 * kTokens;
  EXPECT_EQ(in_routed, kWidth + 2 * 8 * rows + 2 * 32 * rows) << "nothing of shared experts";
  shape.model.experts.shared_expert_intermediate_size = 512;
  const std::int64_t shared = recomputed(shape, LayerPart::mlp, true), inside = 2 * 512 * kTokens;
  EXPECT_EQ(shared, 2 * inside);
  EXPECT_EQ(backward_bytes(shape, true),
            3 * kWidth + shared + inside - part_bytes(shape, true, LayerPart::experts).kept)
      << "the gradients of the output and of the input, and the output a second time";
}

TEST(LayerSteps, APredictionThatIsComputedAgainJoinsTwoStates) {
  ActivationShape shape = narrow_layer({});
  const std::int64_t layer = layer_activation_bytes(shape), output = kWidth;
  EXPECT_EQ(backward_bytes_again(shape, false, 1), layer + output + backward_bytes(shape, false));
  EXPECT_EQ(backward_bytes_again(shape, false, 3), 3 * layer + output + backward_bytes(shape, false));
  EXPECT_EQ(backward_bytes_of_prediction(shape, false), backward_bytes_again(shape, false, 1) + 2 * kWidth);
}

}  // namespace
