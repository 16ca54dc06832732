#pragma once

/// The CUDA device: the interface sim::Device on a GPU. Many ranks of a virtual world may share the GPU;
/// ranks on different lanes of the memory pool have different streams.
///
///   std::shared_ptr<sim::Device> device = gpu::make_gpu_device({.ordinal = 0});
///   simulate(world_of(8), *device, program);
///
/// The class itself does not depend on the runtime. It reaches memory, streams and kernels only through
/// runtime.h and kernels.h. In the program these are defined for CUDA (gpu/cuda). In tests they are defined
/// for this machine's processor (gpu/on_host), and the same class then runs its kernels there.
///
/// Shapes  f64, f32, bf16 and i32. Memory comes from a pool of blocks, which CUDA allocates once. A rank
///         belongs to a lane of the pool and uses that lane's stream, so that a freed block is reused in the
///         order of the stream.
/// Calls   Kernels are put on the rank's stream; the host waits only in to_host. If tensors of other ranks
///         take part (a collective's copy or fold), their streams and this rank's stream are ordered in both
///         directions.
///         A function that an author writes (sim/tensor/element_function.h) is computed on the host, which
///         waits for its input.
/// Errors  cuda_unavailable, cuda_failed, cuda_dtype (a tensor of the field).
/// Exact   Mode exact uses the project's own kernels, each in the order that sim/tensor/device.h states, and
///         gives the bits of the CPU device, except for those of a NaN. Mode vendor takes matmul from cuBLAS,
///         in cuBLAS's order (f32 and f64 without reduced precision, bf16 summed in f32), and everything else
///         as in mode exact.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "sim/tensor/device.h"
#include "sim/tensor/memory_pool.h"

namespace gpu {

enum class GpuMode : std::uint8_t { exact, vendor };

struct GpuOptions {
  int ordinal = 0;
  GpuMode mode = GpuMode::exact;
};

/// Makes the device. Refuses if there is no such GPU, or if the program was built without CUDA (gpu/stub).
std::shared_ptr<sim::Device> make_gpu_device(GpuOptions options = {});

class LaneStreams;
class Stream;

class GpuDevice : public sim::Device, public std::enable_shared_from_this<GpuDevice> {
  using Tensor = sim::Tensor;

 public:
  explicit GpuDevice(GpuOptions options);

  std::shared_ptr<sim::Device> for_rank(int rank) override;
  const char* name() const override { return "cuda"; }
  /// The stream of this rank. Work put on it runs after the kernels of this rank that were called before.
  Stream* stream();
  Tensor empty(sim::DType dtype, const sim::Shape& shape) override;
  void from_host(std::span<const std::byte> values, Tensor& to) override;
  void to_host(const Tensor& from, std::span<std::byte> values) override;
  void run(const sim::KernelCall& call) override;

 private:
  GpuDevice(const GpuDevice& whole, int rank);

  friend class GpuKernels;

  /// Calls put(stream) with this rank's stream. The work that it puts there runs after all work that is on
  /// the streams of the tensors now, and before all work that is put on them later.
  template <typename Put>
  void on_stream(std::initializer_list<sim::TensorList> tensors, const Put& put);

  GpuMode mode_;
  std::shared_ptr<LaneStreams> streams_;
  std::shared_ptr<sim::MemoryPool> pool_;
  std::size_t lane_ = 0;
};

}  // namespace gpu
