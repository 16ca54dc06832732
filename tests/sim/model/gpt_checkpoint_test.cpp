// Proves in the field that the training of a GPT with experts, saved on one layout and loaded on another,
// goes on as if it had never stopped: losses, norms and expert biases are the same. In floats, a checkpoint
// that went through another layout has the bits that it began with.

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/model/gpt_training.h"
#include "sim/optimizer/checkpoint_index.h"
#include "sim/optimizer/safetensors.h"
#include "sim/pipeline/schedules.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

constexpr int kSamples = 4;  // of a step

struct Grid {
  int tp = 1, pp = 1, dp = 1, ep = 1, etp = 1;
  bool distributed = true;
};

Grid drawn_grid() {
  Grid grid;
  grid.tp = *rc::gen::element(1, 2);
  grid.pp = *rc::gen::element(1, 2);
  grid.dp = *rc::gen::element(1, 2, 4);
  grid.etp = *rc::gen::element(1, 2);
  grid.ep = *rc::gen::element(1, 2, 4);
  RC_PRE(grid.tp * grid.dp % (grid.etp * grid.ep) == 0);
  grid.distributed = *rc::gen::arbitrary<bool>();
  return grid;
}

struct Model {
  DType dtype = DType::field;
  bool gated = true, tied = true, shared = false, biased = false;
};

Model drawn_model() {
  Model model;
  model.gated = *rc::gen::arbitrary<bool>();
  model.tied = *rc::gen::arbitrary<bool>();
  model.shared = *rc::gen::arbitrary<bool>();
  model.biased = *rc::gen::arbitrary<bool>();
  return model;
}

GptTrainingConfig config_of(const Grid& grid, const Model& model) {
  return {.model = {.dtype = model.dtype,
                    .num_layers = 2,
                    .hidden_size = 4,
                    .ffn_hidden_size = 4,
                    .num_attention_heads = 2,
                    .num_query_groups = 2,
                    .kv_channels = 2,
                    .seq_length = 4,
                    .vocab_size = 5,
                    .padded_vocab_size = 6,
                    .gated = model.gated,
                    .bias = false,
                    .untie_embeddings_and_output_weights = !model.tied,
                    .sequence_parallel = grid.tp > 1,
                    .experts = {.num_experts = 4,
                                .moe_layer_freq = {.entries = {0, 1}},
                                .moe_ffn_hidden_size = 4,
                                .routing = {.topk = 2,
                                            .score_function = model.biased ? ScoreFunction::sigmoid
                                                                           : ScoreFunction::softmax},
                                .expert_bias = model.biased,
                                .shared_expert_intermediate_size = model.shared ? 2 : 0,
                                .shared_expert_gate = true}},
          .placement = place_layers({.num_layers = 2, .pipeline_model_parallel_size = grid.pp}),
          .pipeline = {.pipeline_model_parallel_size = grid.pp, .num_microbatches = kSamples / grid.dp},
          .schedule = grid.pp > 1 ? one_forward_one_backward : no_pipelining,
          .data_parallel = {.bucket_size = 40, .distributed_optimizer = grid.distributed},
          .optimizer = {.weight_decay = {1, 4}, .clip_grad = {1, 2}, .log_grad_norm = true}};
}

Sample sample_of(std::int64_t number) {
  const auto id = [&](std::int64_t i) { return static_cast<std::int32_t>((number * 7 + i * i) % 5); };
  return {{id(0), id(1), id(2), id(3)}, {id(1), id(2), id(3), id(4)}};
}

/// A part of a training: the steps from `from`, loaded from the store if it is not 0, to `to`.
struct Stretch {
  std::int64_t from = 0, to = 0;
  bool saves = true;
};

using Values = std::map<std::string, std::vector<std::byte>>;

/// Returns the losses, norms and expert biases of a stretch. They are the same on all ranks that have them.
Values trained(const Grid& grid, const Model& model, const Stretch& stretch, std::uint64_t seed,
               CheckpointStore& store) {
  CpuDevice device(seed);
  device.set_field_seed(seed, FieldFunctions::keyed);
  const WorldSpec spec{.layout = make_layout({.world_size = grid.tp * grid.pp * grid.dp,
                                              .tensor_model_parallel_size = grid.tp,
                                              .pipeline_model_parallel_size = grid.pp,
                                              .expert_model_parallel_size = grid.ep,
                                              .expert_tensor_parallel_size = grid.etp},
                                             RuleBook::megatron),
                       .seed = seed};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    GptTraining training(rank, config_of(grid, model), sample_of);
    std::int64_t step = stretch.from == 0 ? 0 : training.load(store);
    for (; step < stretch.to; ++step) {
      const GptTraining::Result result = training.step(step, {1, 8});
      if (!result.loss.is_none()) rank.publish("loss " + std::to_string(step), result.loss);
      rank.publish("norm " + std::to_string(step), training.optimizer().grad_norm_squared());
    }
    if (stretch.saves) training.save(store, step);
    training.optimizer().finish_param_gather();
    for (GptModel& chunk : training.chunks()) {
      for (TopKRouter* router : chunk.routers()) {
        if (model.biased) rank.publish(router->config().name + ".bias", router->expert_bias());
      }
    }
  });
  if (!report.ok()) RC_FAIL(report.failure());
  Values all;
  for (const RankReport& rank : report.ranks) {
    for (const Published& tensor : rank.published) {
      const auto [known, is_new] = all.emplace(tensor.name, tensor.values);
      RC_ASSERT(known->second == tensor.values);
    }
  }
  return all;
}

/// Whether a stretch of training has what the whole training has.
bool is_in(const Values& stretch, const Values& whole) {
  return std::all_of(stretch.begin(), stretch.end(), [&](const auto& entry) {
    const auto found = whole.find(entry.first);
    return found != whole.end() && found->second == entry.second;
  });
}

/// Returns the values of all tensors of a checkpoint, whatever file they lie in.
Values tensors_in(CheckpointStore& store) {
  const CheckpointIndex index = index_of(*store.read("index.json"));
  std::map<std::string, Safetensors> shards;
  for (const auto& [name, file] : index.files) shards[name] = decoded(*store.read(name), name);
  Values all;
  for (const auto& [name, tensor] : index.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      const auto& shard = shards.at(piece.file).tensors;
      const auto& part = shard.at(name + "@" + std::to_string(piece.range.begin)).values;
      all[name].insert(all[name].end(), part.begin(), part.end());
    }
  }
  return all;
}

RC_GTEST_PROP(GptCheckpoint, GoesOnUnderAnyLayout, ()) {
  const Grid first = drawn_grid(), second = drawn_grid(), third = drawn_grid();
  const Model model = drawn_model();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  MemoryStore store;
  Grid one;
  one.distributed = false;
  const Values whole = trained(one, model, {.to = 3, .saves = false}, seed, store);
  trained(first, model, {.to = 1}, seed, store);
  trained(second, model, {.from = 1, .to = 2}, seed, store);
  const Values last = trained(third, model, {.from = 2, .to = 3, .saves = false}, seed, store);
  RC_ASSERT(last.contains("loss 2") && last.contains("norm 2"));
  RC_ASSERT(is_in(last, whole));
}

RC_GTEST_PROP(GptCheckpoint, KeepsItsBitsThroughAnotherLayout, ()) {
  const Grid first = drawn_grid(), second = drawn_grid();
  Model model = drawn_model();
  model.dtype = *rc::gen::element(DType::f32, DType::bf16, DType::f64);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  MemoryStore store;
  trained(first, model, {.to = 2}, seed, store);
  const Values before = tensors_in(store);
  trained(second, model, {.from = 2, .to = 2}, seed, store);
  trained(first, model, {.from = 2, .to = 2}, seed, store);
  RC_ASSERT(tensors_in(store) == before);
}

/// Returns what training on one rank has from step 1 on, resumed from a checkpoint of another layout.
Values resumed(CheckpointStore& store) {
  return trained({.distributed = false}, {}, {.from = 1, .to = 3, .saves = false}, 3, store);
}

// A planted mistake: the elements of a tensor are read as if the tensor had not been cut.
TEST(GptCheckpoint, TheOrderOfAnotherLayoutShows) {
  MemoryStore store;
  const Values whole = trained({.distributed = false}, {}, {.to = 3, .saves = false}, 3, store);
  trained({.tp = 2, .dp = 2, .ep = 2, .etp = 2}, {}, {.to = 1}, 3, store);
  const CheckpointIndex saved = index_of(*store.read("index.json"));
  EXPECT_TRUE(is_in(resumed(store), whole));
  for (const char* name : {"decoder.layers.1.mlp.experts.local_experts.2.linear_fc1.weight/main",
                           "decoder.layers.1.mlp.experts.local_experts.1.linear_fc2.weight/exp_avg",
                           "decoder.layers.0.self_attention.linear_proj.weight/exp_avg_sq"}) {
    CheckpointIndex index = saved;
    ASSERT_EQ(index.tensors.at(name).parts, 2);
    index.tensors.at(name).parts = 1;
    store.replace("index.json", text_of(index));
    EXPECT_FALSE(is_in(resumed(store), whole)) << name;
  }
}

}  // namespace
