// Proves that every operation on the device of shapes returns the shapes and dtypes that it returns on the
// CPU, that whole numbers are computed, that no element is read that does not exist, and what an account
// counts.

#include "sim/shapes/shapes_device.h"

#include <cstring>
#include <gtest/gtest.h>

#include "sim/tensor/activation.h"
#include "sim/tensor/adam.h"
#include "sim/tensor/comparison.h"
#include "sim/tensor/dropout.h"
#include "sim/tensor/element_function.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/normalization.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/permutation.h"
#include "sim/tensor/rotary.h"
#include "sim/tensor/rows.h"
#include "sim/tensor/softmax.h"
#include "sim/tensor/token_loss.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

/// Makes the inputs of an operation on one device.
struct Inputs {
  Device& device;
  DType dtype;
  std::int64_t m, n, k;  // drawn sizes; n is even

  Tensor x(const Shape& shape) const { return keyed(device, dtype, shape, KeyedRandom(1)); }
  Tensor sums(const Shape& shape) const { return filled(device, sum_dtype(dtype), shape, 1); }
  Tensor ids(const Shape& shape) const { return filled(device, DType::i32, shape, 0); }
  DType sum_dtype(DType of) const { return of == DType::bf16 ? DType::f32 : of; }
  TokenLoss loss() const { return {.columns = n, .vocabulary = n}; }
};

using Results = std::vector<Tensor>;
struct Operation {
  const char* name;
  Results (*run)(const Inputs& in);
};

const Operation kOperations[] = {
    {"combine",
     [](const Inputs& in) {
       return Results{add(in.x({in.m, in.n}), in.x({in.m, in.n}))};
     }},
    {"scale",
     [](const Inputs& in) {
       return Results{scale(in.x({in.m}), {1, 3})};
     }},
    {"cast",
     [](const Inputs& in) {
       return Results{cast(in.x({in.m, in.k}), in.dtype)};
     }},
    {"rows",
     [](const Inputs& in) {
       return Results{in.x({in.m + 2, in.n}).rows(1, in.m)};
     }},
    {"compare",
     [](const Inputs& in) { return Results{compare(Comparison::less, in.x({in.m}), in.x({in.m}))}; }},
    {"select", [](const Inputs& in) { return Results{select(in.ids({in.m}), in.x({in.m}), in.x({in.m}))}; }},
    {"argmax",
     [](const Inputs& in) {
       return Results{argmax(in.x({in.m, in.n}))};
     }},
    {"row_max",
     [](const Inputs& in) {
       return Results{row_max(in.x({in.m, in.n}))};
     }},
    {"matmul",
     [](const Inputs& in) {
       const Tensor a = in.x({2, in.m, in.k}), b = in.x({2, in.n, in.k});
       Tensor sums = in.sums({2, in.m, in.n});
       add_matmul(a, transposed(b), sums);
       return Results{matmul(a, transposed(b)), sums};
     }},
    {"add_bias",
     [](const Inputs& in) {
       Tensor sums = in.sums({in.n});
       add_column_sums(in.x({in.m, in.n}), sums);
       return Results{add_bias(in.x({in.m, in.n}), in.x({in.n})), sums};
     }},
    {"columns",
     [](const Inputs& in) {
       Tensor whole = in.x({in.m, in.n + in.k});
       put_columns(in.x({in.m, in.k}), whole, in.n);
       return Results{columns(whole, in.n, in.k), whole};
     }},
    {"lookup",
     [](const Inputs& in) {
       Tensor sums = in.sums({in.n, in.k});
       add_to_rows(in.x({in.m, in.k}), in.ids({in.m}), 0, sums);
       return Results{lookup(in.x({in.n, in.k}), in.ids({in.m}), 0), sums};
     }},
    {"permuted",
     [](const Inputs& in) {
       return Results{permuted(in.x({in.m, in.n, in.k, 2}), {2, 0, 3, 1})};
     }},
    {"activate",
     [](const Inputs& in) {
       const Tensor x = in.x({in.m, in.n});
       return Results{activate(Activation::silu, x), activate_backward(Activation::silu, x, x)};
     }},
    {"apply",
     [](const Inputs& in) {
       const ElementFunction square = element_function(
           "square", [](auto x) { return x * x; }, [](auto x) { return x + x; });
       const Tensor x = in.x({in.m});
       return Results{apply(square, x), apply_backward(square, x, x)};
     }},
    {"dropout",
     [](const Inputs& in) {
       return Results{dropout(in.x({in.m}), KeyedRandom(1), {1, 2})};
     }},
    {"rotate",
     [](const Inputs& in) {
       const RotaryTables tables = rotary_tables(in.device, in.dtype, 0, in.m, in.n, 100);
       return Results{tables.cosines,
                      rotate(in.x({in.m, 1, in.k, in.n}), tables.cosines, tables.sines, true)};
     }},
    {"softmax",
     [](const Inputs& in) {
       const Tensor p = softmax(in.x({in.k, in.m, in.n}), 4, {.causal = true});
       return Results{p, softmax_backward(p, p, 4)};
     }},
    {"partial_softmax",
     [](const Inputs& in) {
       const Tensor x = in.x({in.k, in.m, in.n});
       Tensor stats = in.sums({2, in.k * in.m}), sums = in.sums({in.k, in.m, in.n});
       const Tensor p = partial_softmax(x, 4, {}, stats);
       merge_softmax(in.sums({in.k, in.m, in.n}), in.sums({2, in.k * in.m}), sums, stats);
       const auto grads = partial_softmax_backward(x, 4, {}, stats, x, in.sums({in.k * in.m}));
       return Results{p, stats, finish_softmax(sums, stats, in.dtype), grads.probabilities, grads.scores};
     }},
    {"normalize",
     [](const Inputs& in) {
       const Tensor x = in.x({in.m, in.n}), weight = in.x({in.n});
       const Normalized normal = normalize(Norm::layer_norm, x, weight, weight, {1, 8});
       Tensor grads = in.sums({in.n}), biases = in.sums({in.n});
       return Results{normal.output, normal.stats,
                      normalize_backward(Norm::layer_norm, x, weight, normal.stats, x, grads, biases)};
     }},
    {"adam",
     [](const Inputs& in) {
       Tensor grad = in.sums({in.m}), param = in.sums({in.m}), m = in.sums({in.m}), v = in.sums({in.m});
       Tensor sum = in.sums({1});
       add_sum_of_squares(in.x({in.m}), sum);
       const Tensor factor = clip_factor(sum, {1, 2});
       scale_by(grad, factor);
       adam(grad, {}, param, m, v);
       const Tensor flag = nonfinite_flag(grad);
       poison(grad);
       return Results{factor, flag, param};
     }},
    {"token_loss",
     [](const Inputs& in) {
       const Tensor logits = in.x({in.m, in.n}), targets = in.ids({in.m});
       const TokenParts parts = token_parts(logits, row_max(logits, in.loss()), targets, in.loss());
       const Tensor loss = token_loss(parts.parts, targets, in.loss());
       return Results{parts.exps, parts.parts, loss,
                      token_loss_backward(in.dtype, parts.exps, parts.parts, targets, in.loss(), loss)};
     }},
};

TEST(ShapesDevice, EveryOperationReturnsTheShapesOfTheCpu) {
  CpuDevice cpu;
  ShapesDevice shapes;
  const KeyedRandom random(1);
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::field}) {
      const auto size = [&](std::uint64_t i) { return std::int64_t{random.below(draw * 3 + i, 6)} + 1; };
      for (const Operation& operation : kOperations) {
        if (dtype == DType::field && std::strcmp(operation.name, "apply") == 0) continue;
        const Results a = operation.run({cpu, dtype, size(0), 2 * size(1), size(2)});
        const Results b = operation.run({shapes, dtype, size(0), 2 * size(1), size(2)});
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
          EXPECT_EQ(text_of(a[i].shape()), text_of(b[i].shape())) << operation.name;
          EXPECT_EQ(a[i].dtype(), b[i].dtype()) << operation.name;
        }
      }
    }
  }
}

// ---- elements ---------------------------------------------------------------------------------------------

std::vector<std::int32_t> numbers_of(const Tensor& tensor) {
  const std::vector<std::byte> bytes = host_bytes(tensor);
  std::vector<std::int32_t> numbers(bytes.size() / sizeof(std::int32_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

Tensor numbers(Device& device, const std::vector<std::int32_t>& values) {
  return from_host(device, DType::i32, {std::ssize(values)}, std::as_bytes(std::span(values)));
}

TEST(ShapesDevice, AFloatIsNeverRead) {
  ShapesDevice device;
  const Tensor x = filled(device, DType::f32, {4}, 1);
  EXPECT_EQ(test::refusal_code([&] { host_bytes(x); }), "no_elements");
  EXPECT_EQ(test::refusal_code([&] { x.data(); }), "no_elements");
  EXPECT_EQ(host_bytes(filled(device, DType::f32, {0, 3}, 1)).size(), 0);
}

TEST(ShapesDevice, WholeNumbersAreComputed) {
  ShapesDevice device;
  const Tensor a = numbers(device, {1, 2, 3}), b = numbers(device, {10, 20, 30});
  EXPECT_EQ(numbers_of(add(a, b)), (std::vector<std::int32_t>{11, 22, 33}));
  EXPECT_EQ(numbers_of(scale(b, {1, 5})), (std::vector<std::int32_t>{2, 4, 6}));
  EXPECT_EQ(numbers_of(columns(b.reshaped({1, 3}), 1, 2)), (std::vector<std::int32_t>{20, 30}));
  EXPECT_EQ(numbers_of(permuted(numbers(device, {1, 2, 3, 4}).reshaped({1, 1, 2, 2}), {0, 1, 3, 2})),
            (std::vector<std::int32_t>{1, 3, 2, 4}));
}

TEST(ShapesDevice, AWholeNumberThatDependsOnAFloatIsUnknown) {
  ShapesDevice device;
  const Tensor x = filled(device, DType::f32, {3}, 1), known = numbers(device, {1, 2, 3});
  const Tensor mask = compare(Comparison::less, x, x);
  EXPECT_EQ(test::refusal_code([&] { numbers_of(mask); }), "no_elements");
  EXPECT_EQ(test::refusal_code([&] { numbers_of(add(known, mask)); }), "no_elements");
  EXPECT_EQ(test::refusal_code([&] { numbers_of(device.empty(DType::i32, {3})); }), "no_elements");
  Tensor overwritten = numbers(device, {1, 2, 3});
  copy(mask, overwritten);
  EXPECT_EQ(test::refusal_code([&] { numbers_of(overwritten); }), "no_elements");
  copy(known, overwritten);
  EXPECT_EQ(numbers_of(overwritten), (std::vector<std::int32_t>{1, 2, 3}));
}

// ---- worlds -----------------------------------------------------------------------------------------------

/// Every kind of call moves whole numbers and matches shapes.
TEST(ShapesDevice, CollectivesMoveWholeNumbersAndMatchShapes) {
  ShapesDevice device;
  std::vector<std::vector<std::int32_t>> sums(4);
  const RunReport run = simulate(world_of(4), device, [&](Rank& rank) {
    Communicator& world = rank.groups.world();
    const Tensor large = rank.device.empty(DType::f32, {1 << 20, 1 << 20});  // 4 TiB
    world.all_reduce(large, ReduceOp::sum, "large");
    const Tensor number = numbers(rank.device, {rank.id, 1});
    world.all_reduce(number, ReduceOp::sum, "sum");
    const Tensor all = rank.device.empty(DType::i32, {8});
    world.all_gather(number, all, "gather");
    sums[static_cast<std::size_t>(rank.id)] = numbers_of(all);
  });
  ASSERT_TRUE(run.ok()) << run.failure();
  for (const auto& sum : sums) EXPECT_EQ(sum, (std::vector<std::int32_t>{6, 4, 6, 4, 6, 4, 6, 4}));
}

TEST(ShapesDevice, CallsOfDifferentShapesAreFound) {
  ShapesDevice device;
  const RunReport run = simulate(world_of(2), device, [](Rank& rank) {
    const std::int64_t rows = rank.id == 0 ? 1 << 20 : 1 << 19;
    rank.groups.world().all_reduce(rank.device.empty(DType::bf16, {rows, 1 << 14}), ReduceOp::sum, "sum");
  });
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.findings.front().code, "size_or_syntax_mismatch");
}

TEST(ShapesDevice, AccountsCountWorkAndBytes) {
  ShapesDevice device;
  Tensor kept;
  const RunReport run = simulate(world_of(2), device, [&](Rank& rank) {
    if (rank.id == 1) return;
    kept = filled(rank.device, DType::f32, {3, 5}, 1);
    const Tensor product = matmul(kept, filled(rank.device, DType::f32, {5, 7}, 1));
    rank.groups.world();
  });
  ASSERT_TRUE(run.ok()) << run.failure();
  const ShapesAccount& account = *device.accounts().at(0);
  EXPECT_EQ(account.multiply_adds, 3 * 5 * 7);
  EXPECT_EQ(account.elements, 3 * 5 + 5 * 7);
  EXPECT_EQ(account.peak_bytes, 4 * (3 * 5 + 5 * 7 + 3 * 7));
  EXPECT_EQ(account.held_bytes, 4 * 3 * 5);
  EXPECT_EQ(device.accounts().at(1)->peak_bytes, 0);
  kept = {};
  EXPECT_EQ(account.held_bytes, 0);
}

WorldSpec first_and_last_of_four() {
  WorldSpec spec = world_of(4);
  spec.ranks = {0, 3};
  return spec;
}

/// Members that do not run are taken to call what the others call, in groups of their whole size.
TEST(ShapesDevice, MembersThatDoTheSameNeedNotRun) {
  ShapesDevice device;
  std::vector<std::int32_t> sum;
  const auto program = [&](Rank& rank) {
    Communicator& dp = rank.groups.get("dp");
    const Tensor all = rank.device.empty(DType::f32, {4096}), own = rank.device.empty(DType::f32, {1024});
    dp.reduce_scatter(all, own, ReduceOp::sum, "gradients");
    dp.all_gather(own, all, "parameters");
    const Tensor number = numbers(rank.device, {rank.id + 1});
    dp.all_reduce(number, ReduceOp::sum, "tokens");
    if (rank.id == 0) sum = numbers_of(number);
  };
  const RunReport some = simulate(first_and_last_of_four(), device, program);
  ASSERT_TRUE(some.ok()) << some.failure();
  EXPECT_EQ(sum, (std::vector<std::int32_t>{1 + 4}));
  const RunReport all = simulate(world_of(4), device, program);
  for (std::size_t call = 0; call < 3; ++call) {
    EXPECT_EQ(some.ranks[1].calls[call].count, all.ranks[3].calls[call].count);
    EXPECT_EQ(some.ranks[1].calls[call].bytes_inside, all.ranks[3].calls[call].bytes_inside);
  }
}

TEST(ShapesDevice, ACallOfMembersThatDifferNeedsThemAll) {
  ShapesDevice device;
  const RunReport message = simulate(first_and_last_of_four(), device, [](Rank& rank) {
    if (rank.id == 0) rank.groups.get("dp").send(rank.device.empty(DType::f32, {4}), 1, "message");
  });
  EXPECT_EQ(message.findings.at(0).code, "group_not_present") << message.failure();
  CpuDevice cpu;
  const RunReport values = simulate(first_and_last_of_four(), cpu, [](Rank& rank) {
    rank.groups.get("dp").all_reduce(filled(rank.device, DType::f32, {4}, 1), ReduceOp::sum, "sum");
  });
  EXPECT_EQ(values.findings.at(0).code, "group_not_present") << values.failure();
}

TEST(ShapesDevice, AMissingMemberIsFoundAmongThoseThatRun) {
  ShapesDevice device;
  const RunReport run = simulate(first_and_last_of_four(), device, [](Rank& rank) {
    if (rank.id == 0)
      rank.groups.get("dp").all_reduce(rank.device.empty(DType::f32, {4}), ReduceOp::sum, "sum");
  });
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.findings.front().code, "missing_ranks") << run.failure();
}

/// A world that keeps the latest calls alone has the ledger of a world that keeps all.
TEST(ShapesDevice, FoldedCallsAreInTheLedger) {
  const auto run_with = [](std::int64_t kept_calls) {
    ShapesDevice device;
    WorldSpec spec = world_of(3);
    spec.kept_calls = kept_calls;
    return simulate(spec, device, [](Rank& rank) {
      Communicator& world = rank.groups.world();
      const Tensor x = rank.device.empty(DType::f32, {7});
      Work pending = world.start_all_reduce(rank.device.empty(DType::f32, {9}), ReduceOp::sum, "pending");
      for (int i = 0; i < 20; ++i) world.all_reduce(x, ReduceOp::sum, "often");
      pending.wait();
      for (int i = 0; i < 20; ++i) world.broadcast(x, i % 3, "later");
    });
  };
  const RunReport all = run_with(0), latest = run_with(2);
  ASSERT_TRUE(latest.ok()) << latest.failure();
  EXPECT_EQ(all.ledger, latest.ledger);
  EXPECT_EQ(all.ranks.front().calls.size(), 41);
  EXPECT_LE(latest.ranks.front().calls.size(), 4);
  EXPECT_EQ(latest.ranks.front().folded.count + std::ssize(latest.ranks.front().calls), 41);
  EXPECT_EQ(run_with(2).run_hash, latest.run_hash);
}

}  // namespace
