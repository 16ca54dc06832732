// Measures square matrix products on one thread, and Eigen's in the same run. Items are terms: a product
// and an addition. The target is that a product in the field costs at most 1.5 times as much as one
// product of doubles for each of its levels.

#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/field_tower.h"
#include "sim/base/keyed_random.h"
#include "sim/cpu/matrix_product.h"
#include "tests/benchmarks/eigen_product.h"

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
void square(benchmark::State& state, Multiply multiply) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<Scalar> a = drawn<Scalar>("a", size * size);
  const std::vector<Scalar> b = drawn<Scalar>("b", size * size);
  std::vector<SumOf<Scalar>> out(size * size);
  for (auto _ : state) {
    multiply(size, a.data(), b.data(), out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(0) * state.range(0));
}

template <typename Scalar>
void own_product(benchmark::State& state) {
  square<Scalar>(state, [](std::size_t size, const Scalar* a, const Scalar* b, SumOf<Scalar>* out) {
    sim::add_matrix_product({size, size, size}, {a, size, 1}, {b, size, 1}, out);
  });
}

template <typename Scalar>
void eigen_product(benchmark::State& state) {
  square<Scalar>(state, [](std::size_t size, const Scalar* a, const Scalar* b, Scalar* out) {
    benchmarks::eigen_product(static_cast<int>(size), a, b, out);
  });
}

BENCHMARK(own_product<double>)->Arg(8)->Arg(64)->Arg(1024);
BENCHMARK(eigen_product<double>)->Arg(8)->Arg(64)->Arg(1024);
BENCHMARK(own_product<float>)->Arg(8)->Arg(64)->Arg(1024);
BENCHMARK(eigen_product<float>)->Arg(8)->Arg(64)->Arg(1024);
BENCHMARK(own_product<bfloat16>)->Arg(8)->Arg(64)->Arg(1024);
BENCHMARK(own_product<Field>)->Arg(8)->Arg(64)->Arg(1024);

}  // namespace
