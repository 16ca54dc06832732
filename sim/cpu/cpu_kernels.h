#pragma once

/// The kernels of this machine's CPU, in plain loops that give the same bits on every machine. Each computes
/// what the kernel of its name in sim/tensor/device.h does; kernel_functions.h calls them.
///
/// Exact   each output element is computed by its own chain of operations in the stated order, whatever
///         the vector width.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "sim/base/field_tower.h"
#include "sim/cpu/kernel_arithmetic.h"
#include "sim/tensor/kernel_call.h"

namespace sim {

class CpuKernels {
 public:
  /// The seed determines the generators and keys of the field's exp and keyed functions.
  explicit CpuKernels(std::uint64_t field_seed, FieldFunctions functions = FieldFunctions::homomorphic)
      : seed_(field_seed), functions_(functions) {}

  bool has_field(std::uint64_t seed, FieldFunctions functions) const {
    return seed_ == seed && functions_ == functions;
  }
  /// Returns the functions of the field. They are built when the field is first used, because that costs more
  /// than a small case.
  const FieldTower& tower() const;

  // cpu_device.cpp
  void fill(const Tensor& out, double value) const;
  void poison(const Tensor& out) const;
  void copy(const Tensor& from, const Tensor& to) const;
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, const Tensor& out) const;
  void scale(const Tensor& a, Ratio ratio, const Tensor& out) const;
  void compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& mask) const;
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& out) const;
  void cast(const Tensor& from, const Tensor& to) const;
  void fold(const KernelCall& call) const;
  // cpu_products.cpp
  void matmul(const Tensor& a, const Tensor& b, MatmulParameters form, const Tensor& out) const;
  // cpu_rows.cpp
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const;
  void add_column_sums(const Tensor& x, const Tensor& sums) const;
  void copy_columns(const Tensor& from, const ColumnParameters& part, const Tensor& to) const;
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, const Tensor& out) const;
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, const Tensor& table) const;
  void permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const;
  // cpu_functions.cpp
  void activate(Activation function, const Tensor& x, const Tensor& out) const;
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, const Tensor& out) const;
  void apply(const ElementFunction* function, const Tensor& x, const Tensor& out) const;
  void apply_backward(const ElementFunction* function, const Tensor& x, const Tensor& grad,
                      const Tensor& out) const;
  void dropout(const Tensor& x, const DropoutParameters& random, const Tensor& out) const;
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
              const Tensor& out) const;
  void normalize(const NormParameters& form, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& out, const Tensor& stats) const;
  void normalize_backward(const NormParameters& form, const Tensor& x, const Tensor& weight,
                          const Tensor& stats, const Tensor& grad, const Tensor& grad_x,
                          const Tensor& grad_weight, const Tensor& grad_bias) const;
  void argmax(const Tensor& x, const Tensor& columns) const;
  // cpu_softmax.cpp
  void softmax(const Tensor& x, const SoftmaxParameters& scores, const Tensor& out) const;
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, const Tensor& out) const;
  void partial_softmax(const Tensor& x, const SoftmaxParameters& scores, const Tensor& exps,
                       const Tensor& stats) const;
  void finish_softmax(const Tensor& sums, const Tensor& stats, const Tensor& out) const;
  void merge_softmax(const Tensor& part, const Tensor& part_stats, const Tensor& out,
                     const Tensor& stats) const;
  void partial_softmax_backward(const Tensor& x, const SoftmaxParameters& scores, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, const Tensor& p,
                                const Tensor& grad_x) const;
  // cpu_optimizer.cpp
  void adam(const Tensor& grad, const AdamStep& step, const Tensor& param, const Tensor& exp_avg,
            const Tensor& exp_avg_sq) const;
  void clip_factor(const Tensor& sum_of_squares, Ratio most, const Tensor& factor) const;
  void scale_by(const Tensor& factor, const Tensor& x) const;
  void find_nonfinite(const Tensor& x, const Tensor& flag) const;
  // cpu_token_loss.cpp
  void row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const;
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   const Tensor& exps, const Tensor& parts) const;
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, const Tensor& out) const;
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, const Tensor& out) const;

 private:
  template <typename Scalar>
  Arithmetic<Scalar> arithmetic() const {
    if constexpr (std::is_same_v<Scalar, Field>) {
      return Arithmetic<Field>(tower());
    } else {
      return Arithmetic<Scalar>();
    }
  }

  /// Calls visit with the arithmetic of a dtype that layers compute in.
  template <typename Visit>
  void with_number(DType dtype, const Visit& visit) const {
    with_computing_scalar(dtype, [&]<typename Scalar>(Scalar) { visit(arithmetic<Scalar>()); });
  }

  std::uint64_t seed_;
  FieldFunctions functions_;
  mutable std::once_flag built_;
  mutable std::unique_ptr<const FieldTower> tower_;
};

}  // namespace sim
