// Measures what an elementary function costs per element: ours in vectors, and the C library's. Items
// are elements.

#include "sim/base/elementary.h"

#include <array>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sim/base/keyed_random.h"

namespace {

constexpr std::size_t kElements = 1024;
template <typename T>
using Elements = std::array<T, kElements>;

#if defined(__x86_64__)
bool has_vectors() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define SIM_VECTORS [[gnu::target("avx2,fma")]]
#else
bool has_vectors() { return true; }
#define SIM_VECTORS
#endif

/// Draws elements from a range in which no function reaches its limits, but which covers both sides of
/// what each function is made of.
template <typename T>
Elements<T> drawn() {
  const sim::KeyedRandom random = sim::KeyedRandom(1).named("elements");
  Elements<T> elements = {};
  for (std::size_t i = 0; i < kElements; ++i) elements[i] = static_cast<T>(random.uniform(i) * 4);
  return elements;
}

template <typename T>
void apply(benchmark::State& state, void (*to_each)(const Elements<T>&, Elements<T>&)) {
  if (!has_vectors()) return state.SkipWithError("this processor has no avx2 and fma");
  const Elements<T> x = drawn<T>();
  Elements<T> results = {};
  for (auto _ : state) {
    to_each(x, results);
    benchmark::ClobberMemory();
  }
  benchmark::DoNotOptimize(results);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kElements));
}

#define SIM_BENCHMARK(name, in_library)                                                   \
  template <typename T>                                                                   \
  SIM_VECTORS void each_##name(const Elements<T>& x, Elements<T>& results) {              \
    for (std::size_t i = 0; i < kElements; ++i) results[i] = sim::elementary::name(x[i]); \
  }                                                                                       \
  template <typename T>                                                                   \
  void each_std_##name(const Elements<T>& elements, Elements<T>& results) {               \
    for (std::size_t i = 0; i < kElements; ++i) {                                         \
      const T x = elements[i];                                                            \
      results[i] = in_library;                                                            \
    }                                                                                     \
  }                                                                                       \
  BENCHMARK_CAPTURE(apply, name<float>, each_##name<float>);                              \
  BENCHMARK_CAPTURE(apply, std_##name<float>, each_std_##name<float>);                    \
  BENCHMARK_CAPTURE(apply, name<double>, each_##name<double>);                            \
  BENCHMARK_CAPTURE(apply, std_##name<double>, each_std_##name<double>)

SIM_BENCHMARK(exp, std::exp(x));
SIM_BENCHMARK(log, std::log(x));
SIM_BENCHMARK(tanh, std::tanh(x));
SIM_BENCHMARK(erf, std::erf(x));
SIM_BENCHMARK(rsqrt, 1 / std::sqrt(x));

}  // namespace
