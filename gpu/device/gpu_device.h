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

#include "gpu/device/kernels.h"
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
  void fill(Tensor& out, double value) override;
  void poison(Tensor& out) override;
  void copy(const Tensor& from, Tensor& to) override;
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) override;
  void scale(const Tensor& a, Ratio ratio, Tensor& out) override;
  void compare(sim::Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) override;
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) override;
  void cast(const Tensor& from, Tensor& to) override;
  void fold(sim::Reduction reduction, sim::TensorList inputs, std::span<const sim::FoldSegment> segments,
            sim::TensorList outputs) override;
  void matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
              bool accumulate) override;
  void add_bias(const Tensor& x, const Tensor& bias, Tensor& out) override;
  void add_column_sums(const Tensor& x, Tensor& sums) override;
  void copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to, std::int64_t to_column,
                    std::int64_t columns) override;
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) override;
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) override;
  void permute(const Tensor& from, std::array<int, 4> order, Tensor& to) override;
  void activate(Activation function, const Tensor& x, Tensor& out) override;
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, Tensor& out) override;
  void apply(const sim::ElementFunction& function, const Tensor& x, Tensor& out) override;
  void apply_backward(const sim::ElementFunction& function, const Tensor& x, const Tensor& grad,
                      Tensor& out) override;
  void dropout(const Tensor& x, const sim::KeyedRandom& stream, Ratio drop, Tensor& out) override;
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
              Tensor& out) override;
  void softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& out) override;
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) override;
  void partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& exps,
                       Tensor& stats) override;
  void finish_softmax(const Tensor& sums, const Tensor& stats, Tensor& out) override;
  void merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) override;
  void partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, Tensor& p, Tensor& grad_x) override;
  void normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon,
                 Tensor& out, Tensor& stats) override;
  void normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& grad_x, Tensor& grad_weight,
                          Tensor& grad_bias) override;
  void adam(const Tensor& grad, const sim::AdamStep& step, Tensor& param, Tensor& exp_avg,
            Tensor& exp_avg_sq) override;
  void clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) override;
  void scale_by(Tensor& x, const Tensor& factor) override;
  void find_nonfinite(const Tensor& x, Tensor& flag) override;
  void row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) override;
  void argmax(const Tensor& x, Tensor& columns) override;
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   Tensor& exps, Tensor& parts) override;
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, Tensor& out) override;
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, Tensor& out) override;

 private:
  GpuDevice(const GpuDevice& whole, int rank);

  /// Calls put(stream) with this rank's stream. The work that it puts there runs after all work that is on
  /// the streams of `tensors` now, and before all work that is put on them later.
  template <typename Put>
  void on_stream(std::span<const Tensor* const> tensors, const Put& put);
  template <typename Put>
  void on_stream(std::initializer_list<const Tensor*> tensors, const Put& put) {
    on_stream(std::span<const Tensor* const>(tensors.begin(), tensors.size()), put);
  }

  GpuMode mode_;
  std::shared_ptr<LaneStreams> streams_;
  std::shared_ptr<sim::MemoryPool> pool_;
  std::size_t lane_ = 0;
};

}  // namespace gpu
