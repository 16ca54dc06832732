#pragma once

/// Seam one: arithmetic. What a rank program computes, it computes by these kernels; another device is another class with
/// the same kernels, and one that misses a kernel does not compile. Callers go through ops.h, which checks once.
///
/// Shapes  as each kernel says; counts in elements. Outputs may be one of the inputs, but not overlap one partly.
/// Exact   each kernel states its order. bf16 is computed in f32 and rounded once per kernel.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace sim {

/// A factor that every arithmetic can hold exactly, the field included: 1/3. The numerator is at most 2^31 either way,
/// the denominator from 1 to 2^31; in the field no multiple of one of its primes.
struct Ratio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
};

/// Elements begin to end - 1 are folded starting with input `first`, then first + 1, ..., around to first - 1.
struct FoldSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;
  std::int64_t shift = 0;  // element i of an output comes from element i + shift of the inputs
};

class Device {
 public:
  virtual ~Device() = default;
  /// The same device as rank `rank` of a virtual world has it: memory (and later a stream) of its own. Tensors know
  /// which of them made them, and keep it alive.
  virtual std::shared_ptr<Device> for_rank(int rank) = 0;
  virtual const char* name() const = 0;

  virtual Tensor empty(DType dtype, const Shape& shape) = 0;
  virtual void from_host(std::span<const std::byte> values, Tensor& to) = 0;
  /// The only way to look at values.
  virtual void to_host(const Tensor& from, std::span<std::byte> values) = 0;

  /// Every element becomes the value, rounded to the dtype; field and i32 take whole numbers only.
  virtual void fill(Tensor& out, double value) = 0;
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  /// out(i) = a(i) op b(i), rounded once.
  virtual void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) = 0;
  /// out(i) = a(i) * (numerator / denominator), the quotient rounded first (bf16: to f32); in the field exact, for
  /// i32 the product divided, cut towards zero.
  virtual void scale(const Tensor& a, Ratio ratio, Tensor& out) = 0;
  /// Between floats, and from i32 to any: rounded once.
  virtual void cast(const Tensor& from, Tensor& to) = 0;
  /// Every output becomes the fold of the inputs: s = x[first]; s = s op x[first + 1]; ... rounded to
  /// the dtype at every step, segment by segment; an average is scaled at the end. Inputs may be among the outputs.
  virtual void fold(ReduceOp op, std::span<const Tensor> inputs, std::span<const FoldSegment> segments,
                    std::span<const Tensor> outputs) = 0;
};

}  // namespace sim
