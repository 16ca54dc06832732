// Proves in the field that each layer on a tensor-parallel group equals itself on one rank, with and
// without sequence parallelism. verify/ holds the layers against references that share no code with them.

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/cpu/cpu_device.h"
#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/parallel_norm.h"
#include "sim/parallel/region.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/parallel/sequence_parallel_grads.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"
#include "sim/parallel/vocab_parallel_embedding.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/rows.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using Values = std::map<std::string, std::vector<Field>>;

WorldSpec tensor_parallel_world(int tp) {
  return {.layout = make_layout({.world_size = tp, .tensor_model_parallel_size = tp}, RuleBook::megatron)};
}

/// Returns what the ranks publish. Each program gathers its own shards, so the tensors are whole.
Values published_by(int tp, std::uint64_t seed, const RankProgram& program) {
  CpuDevice device(seed);
  WorldSpec spec = tensor_parallel_world(tp);
  spec.seed = seed;
  const RunReport report = simulate(spec, device, program);
  if (!report.ok()) RC_FAIL(report.failure());
  Values first;
  for (const RankReport& rank : report.ranks) {
    Values values;
    for (const Published& tensor : rank.published) values[tensor.name] = test::values<Field>(&tensor);
    if (rank.rank == 0) first = values;
    RC_ASSERT(values == first);  // whole tensors must be equal on all ranks
  }
  return first;
}

void expect_sharded_equals_serial(const RankProgram& program) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int tp = *rc::gen::inRange(2, 5);
  const Values serial = published_by(1, seed, program);
  RC_ASSERT(!serial.empty());
  RC_ASSERT(published_by(tp, seed, program) == serial);
}

Tensor drawn(Rank& rank, const char* name, const Shape& shape) {
  return keyed(rank.device, DType::field, shape, rank.random.named(name));
}
Communicator& tp_of(Rank& rank) { return rank.groups.get("tp"); }
constexpr std::int64_t kTokens = 24, kHidden = 12, kFfn = 48;  // divisible by 2, 3 and 4

RC_GTEST_PROP(ColumnParallelLinear, ShardedEqualsSerial, (bool sequence_parallel, bool gathers, bool skips)) {
  expect_sharded_equals_serial([=](Rank& rank) {
    Communicator& tp = tp_of(rank);
    ColumnParallelLinear layer(rank, {.name = "fc1",
                                      .dtype = DType::field,
                                      .input_size = kHidden,
                                      .output_size = kFfn,
                                      .gather_output = gathers && !sequence_parallel,
                                      .skip_bias_add = skips,
                                      .sequence_parallel = sequence_parallel});
    const Tensor x = drawn(rank, "x", {kTokens, kHidden});
    const Tensor grad = drawn(rank, "grad", {kTokens, kFfn});
    const bool whole_output = gathers && !sequence_parallel;
    const auto forward = layer.forward(sequence_parallel ? own_rows(x, tp) : x);
    const Tensor grad_x = layer.backward(forward.saved, whole_output ? grad : own_columns(grad, tp));
    rank.publish("output",
                 whole_output ? forward.output : gathered_columns(forward.output, tp, "test.output"));
    rank.publish("grad_x", sequence_parallel ? gathered_rows(grad_x, tp, "test.grad_x") : grad_x);
    rank.publish("weight", gathered_rows(layer.weight().main_grad, tp, "test.weight"));
    rank.publish("bias", gathered_rows(layer.bias().main_grad, tp, "test.bias"));
  });
}

RC_GTEST_PROP(RowParallelLinear, ShardedEqualsSerial, (bool sequence_parallel, bool is_parallel)) {
  expect_sharded_equals_serial([=](Rank& rank) {
    Communicator& tp = tp_of(rank);
    const bool input_is_parallel = is_parallel || sequence_parallel;
    RowParallelLinear layer(rank, {.name = "fc2",
                                   .dtype = DType::field,
                                   .input_size = kFfn,
                                   .output_size = kHidden,
                                   .input_is_parallel = input_is_parallel,
                                   .sequence_parallel = sequence_parallel});
    const Tensor x = drawn(rank, "x", {kTokens, kFfn});
    const Tensor grad = drawn(rank, "grad", {kTokens, kHidden});
    const auto forward = layer.forward(input_is_parallel ? own_columns(x, tp) : x);
    const Tensor grad_x = layer.backward(forward.saved, sequence_parallel ? own_rows(grad, tp) : grad);
    all_reduce_sequence_parallel_grads(rank, layer.parameters());
    rank.publish("output",
                 sequence_parallel ? gathered_rows(forward.output, tp, "test.output") : forward.output);
    rank.publish("grad_x", input_is_parallel ? gathered_columns(grad_x, tp, "test.grad_x") : grad_x);
    rank.publish("weight", gathered_columns(layer.weight().main_grad, tp, "test.weight"));
    rank.publish("bias", layer.bias().main_grad);
  });
}

RC_GTEST_PROP(VocabParallelEmbedding, ShardedEqualsSerial, (bool sequence_parallel)) {
  const std::int64_t vocabulary = 12 * *rc::gen::inRange(1, 4);
  expect_sharded_equals_serial([=](Rank& rank) {
    Communicator& tp = tp_of(rank);
    VocabParallelEmbedding layer(rank, {.name = "embedding",
                                        .dtype = DType::field,
                                        .vocabulary = vocabulary,
                                        .hidden_size = kHidden,
                                        .sequence_parallel = sequence_parallel});
    std::vector<std::int32_t> ids(kTokens);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<std::int32_t>(
          rank.random.named("ids").below(t, static_cast<std::uint32_t>(vocabulary)));
    }
    const auto forward = layer.forward(test::tensor_of(rank.device, DType::i32, {kTokens}, ids));
    const Tensor grad = drawn(rank, "grad", {kTokens, kHidden});
    layer.backward(forward.saved, sequence_parallel ? own_rows(grad, tp) : grad);
    rank.publish("output",
                 sequence_parallel ? gathered_rows(forward.output, tp, "test.output") : forward.output);
    rank.publish("weight", gathered_rows(layer.weight().main_grad, tp, "test.weight"));
  });
}

RC_GTEST_PROP(VocabParallelCrossEntropy, ShardedEqualsSerial, (bool smooths)) {
  const std::int64_t padded = 12 * *rc::gen::inRange(1, 4);
  const std::int64_t vocabulary = *rc::gen::inRange<std::int64_t>(1, padded + 1);
  expect_sharded_equals_serial([=](Rank& rank) {
    Communicator& tp = tp_of(rank);
    VocabParallelCrossEntropy layer(
        rank, {.vocabulary = vocabulary, .ignored_id = -100, .label_smoothing = {smooths ? 1 : 0, 10}});
    std::vector<std::int32_t> target(kTokens);
    for (std::size_t t = 0; t < target.size(); ++t) {
      target[t] = static_cast<std::int32_t>(
          rank.random.named("target").below(t, static_cast<std::uint32_t>(vocabulary)));
      if (t % 7 == 3) target[t] = -100;
    }
    const Tensor logits = drawn(rank, "logits", {kTokens, padded});
    const auto forward =
        layer.forward(own_columns(logits, tp), test::tensor_of(rank.device, DType::i32, {kTokens}, target));
    const Tensor grad_logits = layer.backward(forward.saved, drawn(rank, "grad", {kTokens}));
    rank.publish("loss", forward.loss);
    rank.publish("grad_logits", gathered_columns(grad_logits, tp, "test.grad_logits"));
  });
}

RC_GTEST_PROP(ParallelNorm, ShardedEqualsSerial, (bool sequence_parallel, bool is_layer_norm)) {
  expect_sharded_equals_serial([=](Rank& rank) {
    Communicator& tp = tp_of(rank);
    ParallelNorm layer(rank, {.name = "norm",
                              .dtype = DType::field,
                              .hidden_size = kHidden,
                              .norm = is_layer_norm ? Norm::layer_norm : Norm::rms_norm,
                              .sequence_parallel = sequence_parallel});
    const Tensor x = drawn(rank, "x", {kTokens, kHidden});
    const Tensor grad = drawn(rank, "grad", {kTokens, kHidden});
    const auto forward = layer.forward(sequence_parallel ? own_rows(x, tp) : x);
    const Tensor grad_x = layer.backward(forward.saved, sequence_parallel ? own_rows(grad, tp) : grad);
    all_reduce_sequence_parallel_grads(rank, layer.parameters());
    rank.publish("output",
                 sequence_parallel ? gathered_rows(forward.output, tp, "test.output") : forward.output);
    rank.publish("grad_x", sequence_parallel ? gathered_rows(grad_x, tp, "test.grad_x") : grad_x);
    for (const Parameter* parameter : layer.parameters()) rank.publish(parameter->name, parameter->main_grad);
  });
}

/// Returns the code with which a program on two ranks is refused, or "none".
std::string refused(const RankProgram& program) {
  CpuDevice device;
  const RunReport report = simulate(tensor_parallel_world(2), device, program);
  return report.ok() ? "none" : report.findings.front().code;
}

TEST(Parallel, WhatDoesNotFitIsRefused) {
  const auto x = [](Rank& rank) { return drawn(rank, "x", {3, 5}); };
  EXPECT_EQ(
      refused([](Rank& r) { ColumnParallelLinear(r, {.name = "l", .input_size = 2, .output_size = 3}); }),
      "partition");
  EXPECT_EQ(refused([](Rank& r) { RowParallelLinear(r, {.name = "l", .input_size = 3, .output_size = 2}); }),
            "partition");
  EXPECT_EQ(refused([&](Rank& r) { own_rows(x(r), tp_of(r)); }), "partition");
  EXPECT_EQ(refused([&](Rank& r) { reduce_scattered_columns(x(r), tp_of(r), "site"); }), "partition");
  EXPECT_EQ(refused([](Rank& r) {
              ColumnParallelLinear(r, {.name = "l",
                                       .input_size = 2,
                                       .output_size = 2,
                                       .gather_output = true,
                                       .sequence_parallel = true});
            }),
            "layer_config");
  EXPECT_EQ(refused([](Rank& r) {
              RowParallelLinear(r, {.name = "l",
                                    .input_size = 2,
                                    .output_size = 2,
                                    .input_is_parallel = false,
                                    .sequence_parallel = true});
            }),
            "layer_config");
  EXPECT_EQ(refused([](Rank& r) {
              VocabParallelEmbedding layer(r, {.name = "e", .vocabulary = 4, .hidden_size = 2});
              layer.forward(filled(r.device, DType::i32, {1}, 4));
            }),
            "token_id");
  EXPECT_EQ(refused([](Rank& r) {
              VocabParallelCrossEntropy layer(r, {.vocabulary = 4, .ignored_id = -100});
              layer.forward(drawn(r, "logits", {1, 2}), filled(r.device, DType::i32, {1}, -1));
            }),
            "token_id");
}

// A shard of a parameter is a slice of the whole parameter. With a stride, it is a slice of each block.
TEST(Parameter, AShardIsTheSliceOfTheWhole) {
  CpuDevice device;
  const RunReport report = simulate(tensor_parallel_world(2), device, [](Rank& rank) {
    const int r = rank.id;
    const Tensor whole = make_parameter(rank, "w", DType::f32, {8, 4}, {}, {}).value;
    const auto part = [&](int dim, int stride) {
      return test::values<float>(make_parameter(rank, "w", DType::f32, {8, 4},
                                                {.dim = dim, .stride = stride, .place = r, .size = 2}, {})
                                     .value);
    };
    EXPECT_EQ(part(0, 1), test::values<float>(whole.rows(4 * r, 4 * r + 4)));
    EXPECT_EQ(part(1, 1), test::values<float>(columns(whole, 2 * r, 2)));
    std::vector<float> blocks = test::values<float>(whole.rows(2 * r, 2 * r + 2));
    const std::vector<float> second = test::values<float>(whole.rows(4 + 2 * r, 6 + 2 * r));
    blocks.insert(blocks.end(), second.begin(), second.end());
    EXPECT_EQ(part(0, 2), blocks);
    Tensor strided_columns = filled(rank.device, DType::f32, {8, 2}, 0);
    put_columns(columns(whole, r, 1), strided_columns, 0);
    put_columns(columns(whole, 2 + r, 1), strided_columns, 1);
    EXPECT_EQ(part(1, 2), test::values<float>(strided_columns));
    EXPECT_EQ(test::values<float>(make_parameter(rank, "w", DType::f32, {8, 4}, {}, {{1, 2}}).value),
              test::values<float>(scale(whole, {1, 2})));
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

}  // namespace
