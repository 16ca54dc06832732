#pragma once

/// The interface of all arithmetic. Everything that a rank program computes, it computes with these
/// kernels. A device gets every kernel as one value (kernel_call.h), which it computes with the functions of
/// a class (kernel_functions.h) or passes on. Callers use ops.h, which checks the arguments once.
///
/// Shapes  as stated at each kernel; counts are in elements. An output may be one of the inputs, but may
///         not overlap an input partly.
/// Exact   each kernel states its order of operations. bf16 is computed in f32 and rounded once per
///         kernel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/tensor/kernel_call.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"
#include "sim/tensor/tensor.h"

namespace sim {

inline std::vector<const Tensor*> pointers_to(std::span<const Tensor> tensors) {
  std::vector<const Tensor*> pointers;
  pointers.reserve(tensors.size());
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

class Device {
 public:
  virtual ~Device() = default;
  /// Returns the device as rank `rank` of a virtual world sees it: with memory (and later a stream) of
  /// its own. Tensors know which handle made them, and keep it alive.
  virtual std::shared_ptr<Device> for_rank(int rank) = 0;
  virtual const char* name() const = 0;
  /// The work that the program of this rank has given to the device so far, if it is counted
  /// (counting_device.h); else null.
  virtual const std::int64_t* work() const { return nullptr; }
  /// Whether tensors of this dtype have elements. On a device of shapes (sim/shapes) those of floats have
  /// none, so that nobody draws or moves their values.
  virtual bool has_elements(DType) const { return true; }

  virtual Tensor empty(DType dtype, const Shape& shape) = 0;
  virtual void from_host(std::span<const std::byte> values, Tensor& to) = 0;
  /// Copies values to the host. There is no other way to look at values.
  virtual void to_host(const Tensor& from, std::span<std::byte> values) = 0;

  /// Computes what the call's kernel does. The functions below make such calls.
  virtual void run(const KernelCall& call) = 0;

  /// Sets every element to `value`, rounded to the dtype. field and i32 accept whole numbers only.
  void fill(Tensor& out, double value) { call(Kernel::fill, {}, {&out}, value); }
  /// Sets every byte to 0xff: a NaN in every float, and a field element that is retired on all levels.
  void poison(Tensor& out) { call(Kernel::poison, {}, {&out}); }
  void copy(const Tensor& from, Tensor& to) { call(Kernel::copy, {&from}, {&to}); }
  /// out(i) = a(i) op b(i), rounded once.
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) {
    call(Kernel::combine, {&a, &b}, {&out}, op);
  }
  /// out(i) = a(i) * (numerator / denominator), where the quotient is rounded first (bf16: to f32). In
  /// the field the result is exact. For i32, the product is divided and truncated towards zero.
  void scale(const Tensor& a, Ratio ratio, Tensor& out) { call(Kernel::scale, {&a}, {&out}, ratio); }
  /// mask(i) = 1 if a(i) is less than b(i), equal to it, or greater; else 0, and with a NaN always 0. In the
  /// field the order is that of max(), which is arbitrary.
  void compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) {
    call(Kernel::compare, {&a, &b}, {&mask}, comparison);
  }
  /// out(i) = a(i) if mask(i) is not 0, else b(i).
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) {
    call(Kernel::select, {&mask, &a, &b}, {&out});
  }
  /// Converts between floats, and from i32 to any dtype, rounding once.
  void cast(const Tensor& from, Tensor& to) { call(Kernel::cast, {&from}, {&to}); }
  /// Sets every output to the fold of the inputs: s = x[first]; s = s op x[first + 1]; ... rounded to the
  /// dtype at every step, segment by segment. Each input is multiplied by the factor first, as scale() does
  /// it, and stays as it is. An average is scaled at the end. Inputs may be among the outputs.
  void fold(Reduction reduction, TensorList inputs, std::span<const FoldSegment> segments,
            TensorList outputs) {
    run({Kernel::fold, inputs, outputs, FoldParameters{reduction, segments}});
  }

  // The kernels below compute in f64, f32 and field, and in f32 for bf16. In a tensor [..., F] the last
  // dimension is a row of F columns. A sum over a row has sixteen lanes: lane l adds columns l, l + 16,
  // ..., and then lanes l and l + 8 are added, l and l + 4, l and l + 2, l and l + 1. A "sum tensor" has
  // dtype f32 where the other tensors have bf16, and otherwise the same dtype as they.

  /// out(i, j) starts from 0, or from its old value if accumulating, and adds a(i, k) b(k, j) for k = 0,
  /// 1, 2, ... with one fma each. The last two dimensions are a matrix, and those before them are
  /// batches. out may be a sum tensor, in which case it is not rounded.
  void matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
              bool accumulate) {
    call(Kernel::matmul, {&a, &b}, {&out}, MatmulParameters{a_transposed, b_transposed, accumulate});
  }

  /// out(t, f) = x(t, f) + bias(f)
  void add_bias(const Tensor& x, const Tensor& bias, Tensor& out) {
    call(Kernel::add_bias, {&x, &bias}, {&out});
  }
  /// sums(f) += x(0, f), x(1, f), ..., in this order. sums is a sum tensor.
  void add_column_sums(const Tensor& x, Tensor& sums) { call(Kernel::add_column_sums, {&x}, {&sums}); }
  /// to(t, to_column + c) = from(t, from_column + c) for c below columns.
  void copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to, std::int64_t to_column,
                    std::int64_t columns) {
    call(Kernel::copy_columns, {&from}, {&to}, ColumnParameters{from_column, to_column, columns});
  }
  /// out(t) = table(ids(t) - first_id), and 0 for an id outside of the table.
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) {
    call(Kernel::lookup, {&table, &ids}, {&out}, first_id);
  }
  /// table(ids(t) - first_id) += rows(t) for t = 0, 1, 2, ... Ids outside of the table are skipped. table
  /// is a sum tensor.
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) {
    call(Kernel::add_to_rows, {&rows, &ids}, {&table}, first_id);
  }
  /// Dimension i of `to` is dimension order[i] of `from`. Both have four dimensions.
  void permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
    call(Kernel::permute, {&from}, {&to}, order);
  }

  void activate(Activation function, const Tensor& x, Tensor& out) {
    call(Kernel::activate, {&x}, {&out}, function);
  }
  /// out = grad f'(x)
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, Tensor& out) {
    call(Kernel::activate_backward, {&x, &grad}, {&out}, function);
  }
  /// out = f(x), with a function of an author (element_function.h)
  void apply(const ElementFunction& function, const Tensor& x, Tensor& out) {
    call(Kernel::apply, {&x}, {&out}, &function);
  }
  /// out = grad f'(x)
  void apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad, Tensor& out) {
    call(Kernel::apply_backward, {&x, &grad}, {&out}, &function);
  }
  /// Multiplies element i by 0 where uniform(i) of the stream is below `drop`, and by 1 / (1 - drop)
  /// elsewhere. A NaN stays NaN.
  void dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop, Tensor& out) {
    call(Kernel::dropout, {&x}, {&out}, DropoutParameters{stream, drop});
  }
  /// Each pair a = x(i), b = x(i + F/2) of a row becomes (a c - b s, a s + b c); `backward` turns the
  /// other way. x is [S, B, n, F], and cosines and sines are [S, F/2].
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward, Tensor& out) {
    call(Kernel::rotate, {&x, &cosines, &sines}, {&out}, backward);
  }

  /// Softmax of x / sqrt(divisor) over the columns of a row that are seen; the last dimensions are queries
  /// and keys. From the scores of a row their shift is subtracted: the largest of them, and in the field 0,
  /// which is the shift of every part of a row. A column that is not seen counts as 0 in a sum.
  void softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& out) {
    call(Kernel::softmax, {&x}, {&out}, SoftmaxParameters{divisor, keys});
  }
  /// The gradient of the scores x, from the output p of softmax: p (g - sum(g p)) / sqrt(divisor).
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) {
    call(Kernel::softmax_backward, {&p, &grad}, {&out}, divisor);
  }
  /// exps = exp(score - shift), as softmax computes it before it divides by the sum of a row, and 0 where a
  /// column is left out. stats [2, rows] is a sum tensor that holds the shift and the sum of each row.
  void partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& exps, Tensor& stats) {
    call(Kernel::partial_softmax, {&x}, {&exps, &stats}, SoftmaxParameters{divisor, keys});
  }
  /// Merges a sum over some keys, part [.., d] with its stats, into a sum over other keys, out. The shift
  /// becomes the larger one of the two. With w = exp(shift of the part - that shift) and v = exp(shift of out
  /// - that shift), where an exponential of 0 is not computed but 1, out = part w + out v, with one fma, and
  /// the sums likewise. All are sum tensors.
  void merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) {
    call(Kernel::merge_softmax, {&part, &part_stats}, {&out, &stats});
  }
  /// out = sums (1 / sum), where the sum of each row is in the stats. sums and stats are sum tensors.
  void finish_softmax(const Tensor& sums, const Tensor& stats, Tensor& out) {
    call(Kernel::finish_softmax, {&sums, &stats}, {&out});
  }
  /// p = exp(x / sqrt(divisor) - shift) / sum, from the stats of rows of which x is a part, and
  /// grad_x = p (grad - mean) / sqrt(divisor). stats and means [rows] are sum tensors.
  void partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, Tensor& p, Tensor& grad_x) {
    call(Kernel::partial_softmax_backward, {&x, &stats, &grad, &means}, {&p, &grad_x},
         SoftmaxParameters{divisor, keys});
  }
  /// out = (x - mean) rstd weight + bias, with rstd = 1 / sqrt(variance + epsilon). rms_norm has no mean
  /// and no bias. stats [2, T] is a sum tensor that holds mean and rstd.
  void normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon,
                 Tensor& out, Tensor& stats) {
    call(Kernel::normalize, {&x, &weight, &bias}, {&out, &stats}, NormParameters{norm, epsilon});
  }
  /// Adds to grad_weight and grad_bias for t = 0, 1, 2, ... Both are sum tensors. For rms_norm there is
  /// no grad_bias.
  void normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias) {
    call(Kernel::normalize_backward, {&x, &weight, &stats, &grad}, {&grad_x, &grad_weight, &grad_bias},
         NormParameters{norm, {}});
  }

  /// For each element, m = beta1 m + (1 - beta1) g and v = beta2 v + ((1 - beta2) g) g, each with one
  /// fma. With the corrections c1 = 1 - beta1^step and c2 = 1 - beta2^step, u = (m / c1) / (sqrt(v / c2)
  /// + epsilon), and param = param - rate u with one fma. Weight decay is added with one fma: to u if
  /// decoupled, otherwise to g before everything else. All are sum tensors.
  void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg, Tensor& exp_avg_sq) {
    call(Kernel::adam, {&grad}, {&param, &exp_avg, &exp_avg_sq}, step);
  }
  /// factor = c if c = most / (sqrt(sum of squares) + 1/1000000) is below 1, else 1. In the field a keyed
  /// function of c chooses between c and 1.
  void clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) {
    call(Kernel::clip_factor, {&sum_of_squares}, {&factor}, most);
  }
  /// x(i) = x(i) * factor
  void scale_by(Tensor& x, const Tensor& factor) { call(Kernel::scale_by, {&factor}, {&x}); }
  /// flag = 1 if any element is infinite or NaN, else 0. In the field the flag is always 0.
  void find_nonfinite(const Tensor& x, Tensor& flag) { call(Kernel::find_nonfinite, {&x}, {&flag}); }

  /// maxima(t) is the largest logit of row t among the columns that are not padding, ignoring NaN. Where
  /// there is none it is -infinity, in the field 0. maxima is a sum tensor.
  void row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) {
    call(Kernel::row_max, {&logits}, {&maxima}, columns);
  }
  /// columns(t) is the lowest column of row t that holds its largest element, ignoring NaN; -1 where the row
  /// has no number. columns is i32.
  void argmax(const Tensor& x, Tensor& columns) { call(Kernel::argmax, {&x}, {&columns}); }
  /// exps(t, v) = exp(logits(t, v) - maxima(t)), and 0 for padding. parts [2, T] holds the target's logit
  /// minus the maximum, if that logit lies on this rank, and the sum of exps. With smoothing, parts is
  /// [3, T] and also holds the sum of logits minus the maximum. All outputs are sum tensors.
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   Tensor& exps, Tensor& parts) {
    call(Kernel::token_parts, {&logits, &maxima, &targets}, {&exps, &parts}, loss);
  }
  /// The loss from parts that are summed over the group: (1 - s) (log(sum) - predicted) + s (log(sum) -
  /// shifted sum / vocabulary).
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, Tensor& out) {
    call(Kernel::token_loss, {&parts, &targets}, {&out}, loss);
  }
  /// out(t, v) = grad(t) (exps(t, v) / sum(t) - (1 - s) [v is the target] - s / vocabulary), and 0 for
  /// padding.
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, Tensor& out) {
    call(Kernel::token_loss_backward, {&exps, &parts, &targets, &grad}, {&out}, loss);
  }

 private:
  void call(Kernel kernel, std::initializer_list<const Tensor*> inputs,
            std::initializer_list<const Tensor*> outputs, const KernelParameters& parameters = {}) {
    run({kernel, {inputs.begin(), inputs.size()}, {outputs.begin(), outputs.size()}, parameters});
  }
};

}  // namespace sim
