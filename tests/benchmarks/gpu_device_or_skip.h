#pragma once

/// The GPU of benchmarks that need one.

#include <benchmark/benchmark.h>
#include <memory>

#include "gpu/device/gpu_device.h"
#include "sim/base/error.h"

namespace benchmarks {

/// Returns the device of one mode. Without a GPU it returns null, and the benchmark is skipped.
inline std::shared_ptr<sim::Device> device_or_skip(benchmark::State& state, gpu::GpuMode mode) {
  try {
    return gpu::make_gpu_device({.mode = mode});
  } catch (const sim::Error& error) {
    state.SkipWithError(error.refusal().numbers.c_str());
    return nullptr;
  }
}

}  // namespace benchmarks
