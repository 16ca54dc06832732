// What exact arithmetic costs: matrix products in doubles and in the field tower, and the operations of one
// element.
//
// Items are terms of a sum (a product and an addition) for the products, elements for the rest. A field
// product is meant to cost at most 1.5 times its levels in double products: compare items_per_second of the
// same sizes.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/field.h"
#include "sim/base/field_sum.h"
#include "sim/base/field_tower.h"
#include "sim/base/keyed_random.h"
#include "sim/tensor/matrix_product.h"
#include "sim/tensor/product_tile.h"

namespace {

using sim::Field;
using sim::FieldTower;

std::vector<double> drawn_doubles(const char* name, std::size_t count) {
  const sim::KeyedRandom random = sim::KeyedRandom(1).named(name);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = random.uniform(i);
  return values;
}

std::vector<Field> drawn_fields(const char* name, std::size_t count) {
  const FieldTower tower(1);
  std::vector<Field> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = tower.draw(name, i);
  return values;
}

std::vector<double> drawn(const char* name, std::size_t count, double) { return drawn_doubles(name, count); }
std::vector<Field> drawn(const char* name, std::size_t count, const Field&) {
  return drawn_fields(name, count);
}

template <typename Scalar>
void matrix_product(benchmark::State& state) {
  const sim::ProductSizes sizes = {static_cast<std::size_t>(state.range(0)),
                                   static_cast<std::size_t>(state.range(1)),
                                   static_cast<std::size_t>(state.range(2))};
  const std::vector<Scalar> a = drawn("a", sizes.rows * sizes.terms, Scalar());
  const std::vector<Scalar> b = drawn("b", sizes.terms * sizes.columns, Scalar());
  std::vector<Scalar> out(sizes.rows * sizes.columns);
  for (auto _ : state) {
    sim::add_matrix_product(sizes, {a.data(), sizes.terms, 1}, {b.data(), sizes.columns, 1}, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(1) * state.range(2));
}
// rows, columns, terms
BENCHMARK(matrix_product<double>)->Args({128, 128, 2048})->Args({64, 64, 512})->Args({512, 512, 512});
BENCHMARK(matrix_product<Field>)->Args({128, 128, 2048})->Args({64, 64, 512})->Args({512, 512, 512});

/// The kernel alone, its operands in the nearest cache: what the machine can do at most.
void tile_of_doubles(benchmark::State& state) {
  constexpr std::size_t kTerms = 128;
  struct Operands {
    alignas(64) double left[kTerms * sim::kTileRows];
    alignas(64) double right[kTerms * sim::kTileColumns<double>];
  };
  Operands operands = {};
  sim::ProductTile<double> tile = {};
  const sim::TileKernel<double> kernel = sim::fastest_tile_kernel<double>();
  for (auto _ : state) {
    kernel(operands.left, operands.right, kTerms, tile);
    benchmark::ClobberMemory();
  }
  benchmark::DoNotOptimize(tile);
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(kTerms * sim::kTileRows * sim::kTileColumns<double>));
}
BENCHMARK(tile_of_doubles);

constexpr std::size_t kElements = 1024;

/// out[i] = operation(a[i], b[i]).
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
  benchmark::DoNotOptimize(Field::of(1) / Field::of(2));  // builds the table of inverses
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
