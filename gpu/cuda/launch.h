#pragma once

/// The launches of gpu/device/launch.h for CUDA. Only nvcc compiles this header.
///
/// Exact   Sixteen threads of a warp are the lanes of a row. Their sums are added in the order that
///         sim/tensor/device.h states.

#include <algorithm>
#include <cuda_runtime.h>

#include "gpu/cuda/check.h"
#include "gpu/device/launch.h"

namespace gpu {

namespace {

constexpr int kThreads = 256;
/// The most blocks of a launch, which is more than a GPU runs at once. If a kernel has more work, its
/// blocks loop.
constexpr std::int64_t kMostBlocks = 1 << 16;

inline cudaStream_t native(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

inline unsigned blocks_of(std::int64_t count, std::int64_t a_block) {
  return static_cast<unsigned>(std::min((count + a_block - 1) / a_block, kMostBlocks));
}

template <typename Function>
__global__ void __launch_bounds__(kThreads) each_element(std::int64_t count, Function function) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) function(i);
}

/// The lanes of a row, as seen by one of sixteen neighbouring threads.
class WarpLanes {
 public:
  __device__ WarpLanes()
      : lane_(static_cast<int>(threadIdx.x) % kLanes),
        mask_(0xffffU << (threadIdx.x % 32 / kLanes * kLanes)) {}

  template <typename Wide, typename Term>
  __device__ Wide sum(std::int64_t n, const Term& term) const {
    Wide sum{};
    for (std::int64_t i = lane_; i < n; i += kLanes) sum += term(i);
    for (int half = kLanes / 2; half > 0; half /= 2) sum += __shfl_down_sync(mask_, sum, half, kLanes);
    return __shfl_sync(mask_, sum, 0, kLanes);
  }

  /// Compares in the order of sim::lane_max, so that -0 and 0 give the same result: lane 0 takes the
  /// elements that do not fill a last round.
  template <typename Number, typename Term>
  __device__ typename Number::Wide max(const Number& number, std::int64_t n, const Term& term) const {
    using Wide = typename Number::Wide;
    const std::int64_t whole = n - n % kLanes;
    Wide largest = number.least();
    for (std::int64_t i = lane_; i < whole; i += kLanes) largest = number.larger(term(i), largest);
    if (lane_ == 0) {
      for (std::int64_t i = whole; i < n; ++i) largest = number.larger(term(i), largest);
    }
    Wide of_all = __shfl_sync(mask_, largest, 0, kLanes);
    for (int lane = 1; lane < kLanes; ++lane)
      of_all = number.larger(__shfl_sync(mask_, largest, lane, kLanes), of_all);
    return of_all;
  }

  template <typename Call>
  __device__ void each(std::int64_t n, const Call& call) const {
    for (std::int64_t i = lane_; i < n; i += kLanes) call(i);
  }

  /// Calls `call` on lane 0 when all lanes have arrived, and lets them go on when it is done.
  template <typename Call>
  __device__ void first(const Call& call) const {
    __syncwarp(mask_);
    if (lane_ == 0) call();
    __syncwarp(mask_);
  }

 private:
  int lane_;
  unsigned mask_;
};

template <typename Function>
__global__ void __launch_bounds__(kThreads) each_row(std::int64_t rows, Function function) {
  constexpr int kRows = kThreads / kLanes;
  const WarpLanes lanes;
  const std::int64_t step = std::int64_t{gridDim.x} * kRows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes; row < rows; row += step)
    function(row, lanes);
}

/// Launches a kernel, and checks the error of this launch. A launch with <<<>>> returns no error, and
/// cudaGetLastError may report that of an earlier call.
template <typename... Given>
void launch(const char* what, Stream* stream, unsigned blocks, int threads, void (*kernel)(Given...),
            Given... given) {
  void* arguments[] = {&given...};
  check(cudaLaunchKernel(kernel, dim3(blocks), dim3(static_cast<unsigned>(threads)), arguments, 0,
                         native(stream)),
        what);
}

/// The threads of a block, as seen by one of them. Each thread has its part in registers.
template <typename Part>
class ThreadBlock {
 public:
  template <typename Call>
  __device__ void each(const Call& call) {
    call(static_cast<int>(threadIdx.x), part_);
    __syncthreads();
  }

 private:
  Part part_;
};

template <typename Product>
__global__ void __launch_bounds__(Product::kThreads, 2) each_tile(Product product) {
  __shared__ typename Product::Shared shared;
  const std::int64_t row_tiles = product.row_tiles();
  const std::int64_t column_tiles = product.column_tiles();
  const std::int64_t tiles = product.sizes.batches * row_tiles * column_tiles;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    ThreadBlock<typename Product::Part> block;
    product.run(block, shared, tile / column_tiles / row_tiles,
                tile / column_tiles % row_tiles * Product::kTile, tile % column_tiles * Product::kTile);
  }
}

}  // namespace

template <typename Function>
void launch_elements(Stream* stream, std::int64_t count, const Function& function) {
  if (count <= 0) return;
  launch("launch of a kernel of elements", stream, blocks_of(count, kThreads), kThreads,
         each_element<Function>, count, function);
}

template <typename Function>
void launch_rows(Stream* stream, std::int64_t rows, const Function& function) {
  if (rows <= 0) return;
  launch("launch of a kernel of rows", stream, blocks_of(rows, kThreads / kLanes), kThreads,
         each_row<Function>, rows, function);
}

template <typename Product>
void launch_tiles(Stream* stream, const Product& product) {
  const std::int64_t tiles = product.sizes.batches * product.row_tiles() * product.column_tiles();
  if (tiles <= 0) return;
  launch("launch of a matrix product", stream, blocks_of(tiles, 1), Product::kThreads, each_tile<Product>,
         product);
}

}  // namespace gpu
