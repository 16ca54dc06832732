#pragma once

/// The kernels of a CUDA device. Each computes what the kernel of its name in sim/tensor/device.h does, in the
/// order stated there; sim/tensor/kernel_functions.h calls them. There are no checks here.
///
/// Shapes  the tensors lie in the GPU's memory.
/// Calls   Each function puts its work on the stream and returns. The functions are defined once for CUDA
///         (gpu/cuda) and once for a GPU played by this machine's processor (gpu/on_host).
/// Exact   the bits of the CPU device, except for those of a NaN: a GPU returns the same NaN from every
///         computation.

#include <array>
#include <cstdint>

#include "sim/tensor/dtype.h"
#include "sim/tensor/kernel_call.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace gpu {

class GpuDevice;
class Stream;

using sim::Activation;
using sim::Comparison;
using sim::Norm;
using sim::Ratio;
using sim::ReduceOp;
using sim::SeenKeys;
using sim::Tensor;
using sim::TokenLoss;

class GpuKernels {
 public:
  GpuKernels(GpuDevice& device, Stream* stream) : device_(device), stream_(stream) {}

  // element_kernels.h
  void fill(const Tensor& out, double value) const;
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, const Tensor& out) const;
  void scale(const Tensor& a, Ratio ratio, const Tensor& out) const;
  void compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& mask) const;
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& out) const;
  void cast(const Tensor& from, const Tensor& to) const;
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const;
  void add_column_sums(const Tensor& x, const Tensor& sums) const;
  void copy_columns(const Tensor& from, const sim::ColumnParameters& part, const Tensor& to) const;
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, const Tensor& out) const;
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, const Tensor& table) const;
  void permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const;
  void activate(Activation function, const Tensor& x, const Tensor& out) const;
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, const Tensor& out) const;
  void dropout(const Tensor& x, const sim::DropoutParameters& random, const Tensor& out) const;
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
              const Tensor& out) const;
  void adam(const Tensor& grad, const sim::AdamStep& step, const Tensor& param, const Tensor& exp_avg,
            const Tensor& exp_avg_sq) const;
  void clip_factor(const Tensor& sum_of_squares, Ratio most, const Tensor& factor) const;
  void scale_by(const Tensor& factor, const Tensor& x) const;
  void find_nonfinite(const Tensor& x, const Tensor& flag) const;
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, const Tensor& out) const;

  // row_kernels.h
  void softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& out) const;
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, const Tensor& out) const;
  void partial_softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& exps,
                       const Tensor& stats) const;
  void merge_softmax(const Tensor& part, const Tensor& part_stats, const Tensor& out,
                     const Tensor& stats) const;
  void finish_softmax(const Tensor& sums, const Tensor& stats, const Tensor& out) const;
  void partial_softmax_backward(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, const Tensor& p,
                                const Tensor& grad_x) const;
  void normalize(const sim::NormParameters& form, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& out, const Tensor& stats) const;
  void normalize_backward(const sim::NormParameters& form, const Tensor& x, const Tensor& weight,
                          const Tensor& stats, const Tensor& grad, const Tensor& grad_x,
                          const Tensor& grad_weight, const Tensor& grad_bias) const;
  void row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const;
  void argmax(const Tensor& x, const Tensor& columns) const;
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   const Tensor& exps, const Tensor& parts) const;
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, const Tensor& out) const;

  // gpu_device.cpp, with the device's memory, its vendor's library or the host
  void poison(const Tensor& out) const;
  void copy(const Tensor& from, const Tensor& to) const;
  void fold(const sim::KernelCall& call) const;
  void matmul(const Tensor& a, const Tensor& b, sim::MatmulParameters form, const Tensor& out) const;
  void apply(const sim::ElementFunction* function, const Tensor& x, const Tensor& out) const;
  void apply_backward(const sim::ElementFunction* function, const Tensor& x, const Tensor& grad,
                      const Tensor& out) const;

 private:
  GpuDevice& device_;
  Stream* stream_;
};

/// Folds one segment. `inputs` and `outputs` are tables of pointers, and lie in the GPU's memory.
void fold(Stream* stream, sim::DType type, sim::Reduction reduction, const void* const* inputs,
          std::int64_t members, void* const* outputs, std::int64_t output_count, sim::FoldSegment segment);

/// The sizes of a product: out (rows, columns) of a (rows, terms) and b (terms, columns), batch after
/// batch. Each operand may be transposed in memory.
struct ProductSizes {
  std::int64_t batches;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t terms;
};
ProductSizes sizes_of(const Tensor& a, sim::MatmulParameters form, const Tensor& out);
/// The product of bf16 operands is f32 or bf16; that of other operands has their type.
void matmul(Stream* stream, const Tensor& a, const Tensor& b, sim::MatmulParameters form, const Tensor& out);

/// Loads the vendor's library. Refuses if it cannot be loaded.
void load_vendor();
/// A handle on the vendor's library for one stream (gpu/cuda/vendor.cpp).
class Vendor;
Vendor* make_vendor(Stream* stream);
void end_vendor(Vendor* vendor);
/// The same product, with its terms added in the library's own order. It multiplies in no less than the
/// operands' precision, and sums bf16 in f32.
void vendor_matmul(Vendor* vendor, const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                   const Tensor& out);

}  // namespace gpu
