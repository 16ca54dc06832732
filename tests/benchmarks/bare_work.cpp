// Measures the bare work of what virtual_world.cpp and cases.cpp measure: as many fibers, switched as often,
// the same bytes folded and the same kernels called, without checks, records and names. Tensors and stacks
// are made once. The ratio of the two is what a world costs beside its arithmetic.

#include <algorithm>
#include <array>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/keyed_random.h"
#include "sim/cpu/cpu_device.h"
#include "sim/fibers/fiber_context.h"
#include "sim/tensor/ops.h"
#include "sim/world/world_spec.h"
#include "tests/benchmarks/repeated.h"
#include "verify/cases/spread.h"
#include "verify/reference/cross_entropy.h"

namespace {

using namespace sim;

/// Fibers whose bodies only yield.
class Fibers {
 public:
  Fibers(StackPool& stacks, std::size_t count, int yields) {
    for (std::size_t i = 0; i < count; ++i) {
      fibers_.push_back(std::make_unique<FiberContext>(stacks, [this, i, yields] {
        for (int n = 0; n < yields; ++n) fibers_[i]->yield();
      }));
    }
  }
  void resume() {
    for (const auto& fiber : fibers_) fiber->resume();
  }

 private:
  std::vector<std::unique_ptr<FiberContext>> fibers_;
};

/// The bare work of so many calls of an all_reduce: each call switches to every fiber and back once, and
/// folds the buffers of all into all.
void bare_all_reduce(benchmark::State& state, std::size_t ranks, std::int64_t bytes, int calls) {
  CpuDevice device;
  StackPool stacks(kDefaultStackBytes, ranks <= kMostGuardedRanks, ranks);
  std::vector<Tensor> buffers;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    buffers.push_back(filled(device, DType::f32, {bytes / 4}, 0));
  const std::vector<const Tensor*> all = pointers_to(buffers);
  const std::array<FoldSegment, 1> whole = {{{0, bytes / 4, 0, 0}}};
  for (auto _ : state) {
    Fibers fibers(stacks, ranks, calls);
    for (int call = 0; call < calls; ++call) {
      fibers.resume();
      device.fold(ReduceOp::sum, all, whole, all);
    }
    fibers.resume();
  }
  state.counters["a_call"] = benchmark::Counter(static_cast<double>(state.iterations()) * calls,
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  benchmarks::count_each(
      state, static_cast<double>(calls) * static_cast<double>(ranks) * static_cast<double>(bytes) / 1024);
}
void bare_all_reduce_1_kib(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  bare_all_reduce(state, static_cast<std::size_t>(ranks), 1024, benchmarks::calls_in_world(ranks));
}
BENCHMARK(bare_all_reduce_1_kib)->Arg(8)->Arg(64)->Arg(1024)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_all_reduce_1_kib)
    ->Name("growth/all_reduce_ranks/bare work")
    ->RangeMultiplier(4)
    ->Range(2, 131072)
    ->Apply(benchmarks::as_growth);

void bare_all_reduce_bytes(benchmark::State& state) { bare_all_reduce(state, 8, state.range(0), 1); }
BENCHMARK(bare_all_reduce_bytes)
    ->Name("growth/all_reduce_bytes/bare work")
    ->RangeMultiplier(4)
    ->Range(1024, 64 << 20)
    ->Apply(benchmarks::as_growth);

/// The bare work of small_world: as many fibers made, switched and ended, and the same three folds.
void bare_small_world(benchmark::State& state) {
  bare_all_reduce(state, static_cast<std::size_t>(state.range(0)), 256, 3);
}
BENCHMARK(bare_small_world)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

/// The bare work of cold_world: maps as many stacks, and starts, interrupts and ends a fiber on each.
void bare_fibers(benchmark::State& state) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    StackPool stacks(kDefaultStackBytes, ranks <= kMostGuardedRanks, ranks);
    Fibers fibers(stacks, ranks, 1);
    fibers.resume();
    fibers.resume();
  }
  benchmarks::count_each(state, static_cast<double>(ranks));
}
BENCHMARK(bare_fibers)->Arg(1024)->Arg(16384)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_fibers)
    ->Name("growth/cold_world/bare fibers")
    ->RangeMultiplier(4)
    ->Range(2, 131072)
    ->Apply(benchmarks::as_growth);

/// The bare work of a small cross-entropy case in f32: drawn logits, targets and gradients, the kernels of
/// the layer on each of tp shards, its folds, three switches of each fiber, the reference and the comparison.
class BareCrossEntropy {
 public:
  explicit BareCrossEntropy(std::int64_t tp) : tp_(tp), width_(kVocabulary / tp) {
    for (std::int64_t rank = 0; rank < tp; ++rank) {
      logits_.push_back(device_.empty(DType::f32, {kTokens, width_}));
      exps_.push_back(device_.empty(DType::f32, {kTokens, width_}));
      grads_.push_back(device_.empty(DType::f32, {kTokens, width_}));
      maxima_.push_back(device_.empty(DType::f32, {kTokens}));
      parts_.push_back(device_.empty(DType::f32, {3, kTokens}));
    }
    for (Tensor* tensor : {&loss_, &grad_loss_}) *tensor = device_.empty(DType::f32, {kTokens});
    targets_ = device_.empty(DType::i32, {kTokens});
  }

  /// Returns whether all elements of the losses and gradients lie within their bounds.
  bool holds(StackPool& stacks, std::uint64_t seed) {
    draw(KeyedRandom(seed));
    Fibers fibers(stacks, static_cast<std::size_t>(tp_), 2);
    fibers.resume();
    for (std::size_t rank = 0; rank < logits_.size(); ++rank)
      device_.row_max(logits_[rank], width_, maxima_[rank]);
    fold(ReduceOp::max, maxima_);
    fibers.resume();
    for (std::size_t rank = 0; rank < logits_.size(); ++rank)
      device_.token_parts(logits_[rank], maxima_[rank], targets_, loss_of(rank), exps_[rank], parts_[rank]);
    fold(ReduceOp::sum, parts_);
    fibers.resume();
    for (std::size_t rank = 0; rank < logits_.size(); ++rank) {
      device_.token_loss(parts_[rank], targets_, loss_of(rank), loss_);
      device_.token_loss_backward(exps_[rank], parts_[rank], targets_, loss_of(rank), grad_loss_,
                                  grads_[rank]);
    }
    return equals_reference();
  }

 private:
  using Bounded = verify::reference::Bounded;
  using Matrix = verify::reference::Matrix<Bounded>;
  static constexpr std::int64_t kTokens = 8, kVocabulary = 64;
  static constexpr Ratio kSmoothing = {1, 10};

  TokenLoss loss_of(std::size_t rank) const {
    return {.first_id = static_cast<std::int64_t>(rank) * width_,
            .columns = width_,
            .vocabulary = kVocabulary,
            .ignored_id = -100,
            .smoothing = kSmoothing};
  }
  static float* floats_of(const Tensor& tensor) { return reinterpret_cast<float*>(tensor.data()); }

  void draw(const KeyedRandom& random) {
    std::iota(blocks_.begin(), blocks_.end(), std::uint64_t{0});
    random.words(blocks_, words_);
    const auto drawn = [&](std::int64_t i) {
      return static_cast<float>(2 * KeyedRandom::uniform_of(words_[static_cast<std::size_t>(i)]) - 1);
    };
    for (std::int64_t rank = 0; rank < tp_; ++rank) {
      float* to = floats_of(logits_[static_cast<std::size_t>(rank)]);
      for (std::int64_t t = 0; t < kTokens; ++t)
        for (std::int64_t v = 0; v < width_; ++v) *to++ = drawn(t * kVocabulary + rank * width_ + v);
    }
    for (std::int64_t t = 0; t < kTokens; ++t) {
      floats_of(grad_loss_)[t] = drawn(kTokens * kVocabulary + t);
      const std::int64_t id = KeyedRandom::below_of(words_[static_cast<std::size_t>(t)], kVocabulary);
      ids_[static_cast<std::size_t>(t)] = t % 3 == 1 ? -100 : id;
      reinterpret_cast<std::int32_t*>(targets_.data())[t] =
          static_cast<std::int32_t>(ids_[static_cast<std::size_t>(t)]);
    }
  }
  void fold(ReduceOp op, const std::vector<Tensor>& tensors) {
    const std::array<FoldSegment, 1> whole = {{{0, tensors.front().count(), 0, 0}}};
    const std::vector<const Tensor*> all = pointers_to(tensors);
    if (tp_ > 1) device_.fold(op, all, whole, all);
  }

  bool equals_reference() {
    const verify::reference::Rounding rounding = verify::rounding_of(DType::f32, static_cast<int>(tp_));
    const verify::reference::Number<Bounded> number(rounding);
    Matrix logits(kTokens, kVocabulary), grad(1, kTokens);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      grad(0, t) = number.exact(floats_of(grad_loss_)[t]);
      for (std::int64_t v = 0; v < kVocabulary; ++v) logits(t, v) = number.exact(at(logits_, t, v));
    }
    const verify::reference::CrossEntropy<Bounded> layer(number, std::move(logits), ids_,
                                                         {.vocabulary = kVocabulary,
                                                          .ignored_id = -100,
                                                          .smoothing_numerator = kSmoothing.numerator,
                                                          .smoothing_denominator = kSmoothing.denominator});
    const Matrix loss = layer.loss(), gradient = layer.gradient(grad);
    bool holds = true;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      holds = holds && is_within(floats_of(loss_)[t], loss(0, t));
      for (std::int64_t v = 0; v < kVocabulary; ++v)
        holds = holds && is_within(at(grads_, t, v), gradient(t, v));
    }
    return holds;
  }
  double at(const std::vector<Tensor>& shards, std::int64_t t, std::int64_t v) const {
    return floats_of(shards[static_cast<std::size_t>(v / width_)])[t * width_ + v % width_];
  }
  static bool is_within(double value, const Bounded& reference) {
    return std::fabs(value - reference.value()) <= reference.error();
  }

  std::int64_t tp_, width_;
  CpuDevice device_;
  std::vector<Tensor> logits_, exps_, grads_, maxima_, parts_;
  Tensor loss_, grad_loss_, targets_;
  std::array<std::uint64_t, (kTokens * kVocabulary + kTokens) / 2> blocks_{};
  std::array<std::uint64_t, kTokens * kVocabulary + kTokens> words_{};
  verify::reference::Ids ids_ = verify::reference::Ids(kTokens);
};

void bare_small_cases(benchmark::State& state) {
  StackPool stacks(kDefaultStackBytes, true, 16);
  std::vector<std::unique_ptr<BareCrossEntropy>> by_ranks;
  for (const std::int64_t tp : {1, 2, 4, 8}) by_ranks.push_back(std::make_unique<BareCrossEntropy>(tp));
  std::uint64_t seed = 0;
  for (auto _ : state) {
    SIM_CHECK(by_ranks[seed % 4]->holds(stacks, seed));
    ++seed;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bare_small_cases)->Unit(benchmark::kMicrosecond);

void bare_case_of_ranks(benchmark::State& state) {
  StackPool stacks(kDefaultStackBytes, true, 64);
  BareCrossEntropy the_case(state.range(0));
  std::uint64_t seed = 0;
  for (auto _ : state) SIM_CHECK(the_case.holds(stacks, seed++));
  benchmarks::count_each(state, 1);
}
BENCHMARK(bare_case_of_ranks)
    ->Name("growth/small_case/bare work")
    ->RangeMultiplier(2)
    ->Range(1, 64)
    ->Apply(benchmarks::as_growth);

}  // namespace
