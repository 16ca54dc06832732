#pragma once

/// Seam one: arithmetic. What a rank program computes, it computes by these kernels; another device is
/// another class with the same kernels, and one that misses a kernel does not compile. Callers go through
/// ops.h, which checks once.
///
/// Shapes  as each kernel says; counts in elements. Outputs may be one of the inputs, but not overlap one
///         partly.
/// Exact   each kernel states its order. bf16 is computed in f32 and rounded once per kernel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sim/base/keyed_random.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace sim {

class Device {
 public:
  virtual ~Device() = default;
  /// The same device as rank `rank` of a virtual world has it: memory (and later a stream) of its own.
  /// Tensors know which of them made them, and keep it alive.
  virtual std::shared_ptr<Device> for_rank(int rank) = 0;
  virtual const char* name() const = 0;
  /// The work that this rank's program has given it so far, where that is counted (counting_device.h); else
  /// null.
  virtual const std::int64_t* work() const { return nullptr; }

  virtual Tensor empty(DType dtype, const Shape& shape) = 0;
  virtual void from_host(std::span<const std::byte> values, Tensor& to) = 0;
  /// The only way to look at values.
  virtual void to_host(const Tensor& from, std::span<std::byte> values) = 0;

  /// Every element becomes the value, rounded to the dtype; field and i32 take whole numbers only.
  virtual void fill(Tensor& out, double value) = 0;
  /// Every byte becomes 0xff: NaN in every float, retired in all levels of the field.
  virtual void poison(Tensor& out) = 0;
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  /// out(i) = a(i) op b(i), rounded once.
  virtual void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) = 0;
  /// out(i) = a(i) * (numerator / denominator), the quotient rounded first (bf16: to f32); in the field
  /// exact, for i32 the product divided, cut towards zero.
  virtual void scale(const Tensor& a, Ratio ratio, Tensor& out) = 0;
  /// Between floats, and from i32 to any: rounded once.
  virtual void cast(const Tensor& from, Tensor& to) = 0;
  /// Every output becomes the fold of the inputs: s = x[first]; s = s op x[first + 1]; ... rounded to
  /// the dtype at every step, segment by segment; an average is scaled at the end. Inputs may be among the
  /// outputs.
  virtual void fold(ReduceOp op, std::span<const Tensor> inputs, std::span<const FoldSegment> segments,
                    std::span<const Tensor> outputs) = 0;

  // What follows computes in f64, f32, field, and in f32 for bf16. Of a tensor [..., F], the last dimension
  // is a row of F columns. A sum over a row has sixteen lanes: lane l adds columns l, l + 16, ..., and then
  // lanes l and l + 8 are added, l + 4, l + 2, l + 1. A tensor "of sums" is f32 where the others are bf16,
  // else of their dtype.

  /// out(i, j) starts from 0, or from its old value when accumulating, and adds a(i, k) b(k, j) for k = 0, 1,
  /// 2, ... with one fma each. The last two dimensions are a matrix, those before are batches. out may be of
  /// sums: it is not rounded then.
  virtual void matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
                      bool accumulate) = 0;

  /// out(t, f) = x(t, f) + bias(f)
  virtual void add_bias(const Tensor& x, const Tensor& bias, Tensor& out) = 0;
  /// sums(f) adds x(0, f), x(1, f), ... in this order; sums of sums.
  virtual void add_column_sums(const Tensor& x, Tensor& sums) = 0;
  /// to(t, to_column + c) = from(t, from_column + c) for c below columns.
  virtual void copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to, std::int64_t to_column,
                            std::int64_t columns) = 0;
  /// out(t) = table(ids(t) - first_id), and 0 for an id beyond the table.
  virtual void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) = 0;
  /// table(ids(t) - first_id) adds rows(t), t = 0, 1, 2, ...; ids beyond the table are left out. table is of
  /// sums.
  virtual void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) = 0;
  /// Dimension i of `to` is dimension order[i] of `from`, both of four.
  virtual void permute(const Tensor& from, std::array<int, 4> order, Tensor& to) = 0;

  virtual void activate(Activation function, const Tensor& x, Tensor& out) = 0;
  /// out = grad f'(x)
  virtual void activate_backward(Activation function, const Tensor& x, const Tensor& grad, Tensor& out) = 0;
  /// Element i times 0 where uniform(i) of the stream is below drop, and else times 1 / (1 - drop): a NaN
  /// stays one.
  virtual void dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop, Tensor& out) = 0;
  /// Of each pair a = x(i), b = x(i + F/2) of a row: (a c - b s, a s + b c); backward turns the other way. x
  /// is [S, B, n, F], cosines and sines [S, F/2].
  virtual void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                      Tensor& out) = 0;

  /// Of x / sqrt(divisor), row by row; where causal, column j of row i of the last two dimensions [q, k] is
  /// left out for j > i + k - q.
  virtual void softmax(const Tensor& x, std::int64_t divisor, bool causal, Tensor& out) = 0;
  /// Of the scores, from what softmax gave: p (g - sum(g p)) / sqrt(divisor).
  virtual void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) = 0;
  /// (x - mean) rstd weight + bias, rstd = 1 / sqrt(variance + epsilon); of rms_norm without mean and bias.
  /// stats [2, T] of sums: mean and rstd.
  virtual void normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon,
                         Tensor& out, Tensor& stats) = 0;
  /// Adds to grad_weight and grad_bias, t = 0, 1, 2, ...; both are of sums, grad_bias none for rms_norm.
  virtual void normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                                  const Tensor& grad, Tensor& grad_x, Tensor& grad_weight,
                                  Tensor& grad_bias) = 0;

  /// Of each element, m = beta1 m + (1 - beta1) g, v = beta2 v + ((1 - beta2) g) g, each with one fma, and
  /// with the corrections c1 = 1 - beta1^step and c2: u = (m / c1) / (sqrt(v / c2) + epsilon), param = param
  /// - rate u with one fma. Weight decay is added to u (decoupled) or to g before all, with one fma. The
  /// tensors are of sums.
  virtual void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg,
                    Tensor& exp_avg_sq) = 0;
  /// factor = c where c = most / (sqrt(sum of squares) + 1/1000000) is below 1, else 1. In the field a keyed
  /// function of c says which.
  virtual void clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) = 0;
  /// x(i) = x(i) factor
  virtual void scale_by(Tensor& x, const Tensor& factor) = 0;
  /// flag = 1 where an element is infinite or NaN, else 0; 0 in the field.
  virtual void find_nonfinite(const Tensor& x, Tensor& flag) = 0;

  /// maxima(t) of the columns that are no padding, of sums, past any NaN; -infinity of none, 0 in the field.
  virtual void row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) = 0;
  /// exps(t, v) = exp(logits(t, v) - maxima(t)), 0 for padding. parts [2, T]: the target's logit less the
  /// maximum, if it lies here, and the sum of exps; with smoothing [3, T]: the sum of logits less the
  /// maximum, too. All outputs are of sums.
  virtual void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                           const TokenLoss& loss, Tensor& exps, Tensor& parts) = 0;
  /// From parts that are summed over the group: (1 - s) (log(sum) - predicted) + s (log(sum) - shifted sum /
  /// vocabulary).
  virtual void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, Tensor& out) = 0;
  /// grad(t) (exps(t, v) / sum(t) - (1 - s) [v is the target] - s / vocabulary), 0 for padding.
  virtual void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                   const TokenLoss& loss, const Tensor& grad, Tensor& out) = 0;
};

}  // namespace sim
