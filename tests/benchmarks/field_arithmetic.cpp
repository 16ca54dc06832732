// Measures what exact arithmetic costs: the innermost kernel of matrix products, and the operations on one
// element. Whole products are in matrix_products.cpp.
//
// Items are terms of a sum (a product and an addition) for the tile, and elements for the rest.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/field.h"
#include "sim/base/field_sum.h"
#include "sim/base/field_tower.h"
#include "sim/cpu/product_tile.h"

namespace {

using sim::Field;
using sim::FieldTower;

std::vector<Field> drawn_fields(const char* name, std::size_t count) {
  const FieldTower tower(1);
  std::vector<Field> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = tower.draw(name, i);
  return values;
}

/// The kernel alone, with its operands in the nearest cache. This is the most that the machine can do.
void tile_of_doubles(benchmark::State& state) {
  constexpr std::size_t kTerms = 128;
  constexpr std::size_t kColumns = sim::kTileColumns<double>;
  struct Operands {
    alignas(64) double left[kTerms * sim::kTileRows];
    alignas(64) double right[kTerms * kColumns];
    alignas(64) double sums[sim::kTileRows * kColumns];
  };
  Operands operands = {};
  const sim::TileTerms<double> terms = {operands.left, 1, sim::kTileRows, operands.right, kColumns, kTerms};
  const sim::TileSums<double> sums = {operands.sums, kColumns, sim::kTileRows, kColumns};
  const sim::TileKernel<double> kernel = sim::fastest_tile_kernel<double>();
  for (auto _ : state) {
    kernel(terms, sums);
    benchmark::ClobberMemory();
  }
  benchmark::DoNotOptimize(operands);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kTerms * sim::kTileRows * kColumns));
}
BENCHMARK(tile_of_doubles);

constexpr std::size_t kElements = 1024;

/// Measures out[i] = operation(a[i], b[i]).
template <typename Operation>
void each_element(benchmark::State& state, Operation operation) {
  const std::vector<Field> a = drawn_fields("a", kElements);
  const std::vector<Field> b = drawn_fields("b", kElements);
  std::vector<Field> out(kElements);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kElements; ++i) out[i] = operation(a[i], b[i]);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kElements));
}

void field_plus(benchmark::State& state) {
  each_element(state, [](const Field& a, const Field& b) { return a + b; });
}
BENCHMARK(field_plus);

void field_times(benchmark::State& state) {
  each_element(state, [](const Field& a, const Field& b) { return a * b; });
}
BENCHMARK(field_times);

void field_divided(benchmark::State& state) {
  benchmark::DoNotOptimize(Field::of(1) / Field::of(2));  // this builds the table of inverses
  each_element(state, [](const Field& a, const Field& b) { return a / b; });
}
BENCHMARK(field_divided);

void field_exp(benchmark::State& state) {
  const FieldTower tower(1);
  each_element(state, [&](const Field& a, const Field&) { return tower.exp(a); });
}
BENCHMARK(field_exp);

void field_sum_of_products(benchmark::State& state) {
  const std::vector<Field> a = drawn_fields("a", kElements);
  const std::vector<Field> b = drawn_fields("b", kElements);
  for (auto _ : state) {
    sim::FieldSum sum;
    for (std::size_t i = 0; i < kElements; ++i) sum.add_product(a[i], b[i]);
    benchmark::DoNotOptimize(sum.value());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kElements));
}
BENCHMARK(field_sum_of_products);

void field_tower(benchmark::State& state) {
  std::uint64_t seed = 0;
  for (auto _ : state) benchmark::DoNotOptimize(FieldTower(++seed));
}
BENCHMARK(field_tower);

}  // namespace
