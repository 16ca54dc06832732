// Measures matrix products on one thread, and Eigen's in the same run: square ones, and those of an MLP of
// 768 and 3,072 features and 256 tokens, forward and backward. Items are terms: a product and an addition.
// The targets are 0.95 of Eigen's speed in f32, and that a product in the field costs at most 1.5 times as
// much as one product of doubles for each of its levels.

#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/field_tower.h"
#include "sim/base/keyed_random.h"
#include "sim/cpu/matrix_product.h"
#include "tests/benchmarks/eigen_product.h"
#include "tests/benchmarks/repeated.h"

namespace {

using sim::bfloat16;
using sim::Field;

template <typename Scalar>
std::vector<Scalar> drawn(const char* name, std::size_t count) {
  std::vector<Scalar> values(count);
  const sim::KeyedRandom random = sim::KeyedRandom(1).named(name);
  const sim::FieldTower tower(1);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Scalar, Field>) {
      values[i] = tower.draw(name, i);
    } else if constexpr (std::is_same_v<Scalar, bfloat16>) {
      values[i] = sim::to_bfloat16(random.uniform(i));
    } else {
      values[i] = static_cast<Scalar>(random.uniform(i));
    }
  }
  return values;
}

template <typename Scalar>
using SumOf = std::conditional_t<std::is_same_v<Scalar, bfloat16>, float, Scalar>;

template <typename Scalar, typename Multiply>
void product(benchmark::State& state, const benchmarks::EigenSizes& sizes, Multiply multiply) {
  const auto rows = static_cast<std::size_t>(sizes.rows), columns = static_cast<std::size_t>(sizes.columns),
             terms = static_cast<std::size_t>(sizes.terms);
  const std::vector<Scalar> a = drawn<Scalar>("a", rows * terms);
  const std::vector<Scalar> b = drawn<Scalar>("b", terms * columns);
  std::vector<SumOf<Scalar>> out(rows * columns);
  for (auto _ : state) {
    multiply(sizes, a.data(), b.data(), out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns * terms));
  benchmarks::count_each(state, static_cast<double>(rows * columns * terms) / 1000);
}

template <typename Scalar>
void own(benchmark::State& state, const benchmarks::EigenSizes& of) {
  product<Scalar>(
      state, of,
      [](const benchmarks::EigenSizes& sizes, const Scalar* a, const Scalar* b, SumOf<Scalar>* out) {
        const auto rows = static_cast<std::size_t>(sizes.rows),
                   columns = static_cast<std::size_t>(sizes.columns),
                   terms = static_cast<std::size_t>(sizes.terms);
        const std::size_t one = 1;
        sim::add_matrix_product(
            {rows, columns, terms}, {a, sizes.a_transposed ? one : terms, sizes.a_transposed ? rows : one},
            {b, sizes.b_transposed ? one : columns, sizes.b_transposed ? terms : one}, out);
      });
}

template <typename Scalar>
void eigen(benchmark::State& state, const benchmarks::EigenSizes& of) {
  product<Scalar>(state, of,
                  [](const benchmarks::EigenSizes& sizes, const Scalar* a, const Scalar* b, Scalar* out) {
                    benchmarks::eigen_product(sizes, a, b, out);
                  });
}

benchmarks::EigenSizes square(const benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  return {size, size, size};
}

template <typename Scalar>
void own_product(benchmark::State& state) {
  own<Scalar>(state, square(state));
}

template <typename Scalar>
void eigen_product(benchmark::State& state) {
  eigen<Scalar>(state, square(state));
}

BENCHMARK(own_product<double>)->Arg(8)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(eigen_product<double>)->Arg(8)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(own_product<float>)->Arg(8)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(eigen_product<float>)->Arg(8)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(own_product<bfloat16>)->Arg(8)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(own_product<Field>)->Arg(8)->Arg(64)->Arg(1024);

BENCHMARK(own_product<float>)
    ->Name("growth/product/ours")
    ->RangeMultiplier(2)
    ->Range(16, 2048)
    ->Apply(benchmarks::as_growth);
BENCHMARK(eigen_product<float>)
    ->Name("growth/product/Eigen")
    ->RangeMultiplier(2)
    ->Range(16, 2048)
    ->Apply(benchmarks::as_growth);

/// The products of a linear layer, from one size of features to another: the output, the gradient of the
/// input, and that of the weight, which is stored as (to, from).
enum class Pass { forward, input, weight };

benchmarks::EigenSizes linear(int from, int to, Pass pass) {
  constexpr int kBatch = 256;
  if (pass == Pass::forward) return {kBatch, to, from, false, true};
  if (pass == Pass::input) return {kBatch, from, to};
  return {to, from, kBatch, true};
}

void own_linear(benchmark::State& state, int from, int to, Pass pass) {
  own<float>(state, linear(from, to, pass));
}

void eigen_linear(benchmark::State& state, int from, int to, Pass pass) {
  eigen<float>(state, linear(from, to, pass));
}

#define SIM_LINEAR(name, ...)                       \
  BENCHMARK_CAPTURE(own_linear, name, __VA_ARGS__); \
  BENCHMARK_CAPTURE(eigen_linear, name, __VA_ARGS__)
SIM_LINEAR(up_forward, 768, 3072, Pass::forward);
SIM_LINEAR(up_input, 768, 3072, Pass::input);
SIM_LINEAR(up_weight, 768, 3072, Pass::weight);
SIM_LINEAR(down_forward, 3072, 768, Pass::forward);
SIM_LINEAR(down_input, 3072, 768, Pass::input);
SIM_LINEAR(down_weight, 3072, 768, Pass::weight);

}  // namespace
