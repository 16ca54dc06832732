#pragma once

/// The device of this machine's CPU. It implements Device (sim/tensor/device.h) in plain loops that give
/// the same bits on every machine.
///
/// Shapes  memory comes from a pool that the handles of all ranks share, and that outlives the device if
///         a tensor still uses it. Each rank always allocates from the same lane, rank %
///         MemoryPool::kLanes.
/// Calls   the tower of the field is built from a seed and is the same on all ranks.
/// Exact   each output element is computed by its own chain of operations in the stated order, whatever
///         the vector width. An element of the field is no number until it is written, so that a program
///         that reads memory which nothing has written computes the same in every run. An element of another
///         dtype is whatever the last user of the memory left there.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "sim/base/field_tower.h"
#include "sim/cpu/kernel_arithmetic.h"
#include "sim/tensor/device.h"
#include "sim/tensor/memory_pool.h"

namespace sim {

class CpuDevice : public Device, public std::enable_shared_from_this<CpuDevice> {
 public:
  /// The seed determines the generators and keys of the field's exp and keyed functions. Each trial uses
  /// another seed.
  explicit CpuDevice(std::uint64_t field_seed = 0)
      : pool_(std::make_shared<MemoryPool>()), tower_(std::make_shared<Tower>(field_seed)) {}

  /// Sets another seed for the ranks that are made from now on. The memory pool stays.
  void set_field_seed(std::uint64_t field_seed, FieldFunctions functions = FieldFunctions::homomorphic) {
    if (tower_->seed != field_seed || tower_->functions != functions)
      tower_ = std::make_shared<Tower>(field_seed, functions);
  }
  /// Returns the functions of the field, which are the same for all ranks.
  const FieldTower& tower() const;
  std::shared_ptr<Device> for_rank(int rank) override;
  const char* name() const override { return "cpu"; }
  Tensor empty(DType dtype, const Shape& shape) override;
  void from_host(std::span<const std::byte> values, Tensor& to) override;
  void to_host(const Tensor& from, std::span<std::byte> values) override;
  void fill(Tensor& out, double value) override;
  void poison(Tensor& out) override;
  void copy(const Tensor& from, Tensor& to) override;
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) override;
  void scale(const Tensor& a, Ratio ratio, Tensor& out) override;
  void compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) override;
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) override;
  void cast(const Tensor& from, Tensor& to) override;
  void fold(Reduction reduction, TensorList inputs, std::span<const FoldSegment> segments,
            TensorList outputs) override;

  // The next kernel is in cpu_products.cpp.
  void matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
              bool accumulate) override;
  // The next kernels are in cpu_rows.cpp.
  void add_bias(const Tensor& x, const Tensor& bias, Tensor& out) override;
  void add_column_sums(const Tensor& x, Tensor& sums) override;
  void copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to, std::int64_t to_column,
                    std::int64_t columns) override;
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) override;
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) override;
  void permute(const Tensor& from, std::array<int, 4> order, Tensor& to) override;
  // The next kernels are in cpu_functions.cpp.
  void activate(Activation function, const Tensor& x, Tensor& out) override;
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, Tensor& out) override;
  void apply(const ElementFunction& function, const Tensor& x, Tensor& out) override;
  void apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad,
                      Tensor& out) override;
  void dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop, Tensor& out) override;
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
              Tensor& out) override;
  void normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon,
                 Tensor& out, Tensor& stats) override;
  void normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& grad_x, Tensor& grad_weight,
                          Tensor& grad_bias) override;
  void argmax(const Tensor& x, Tensor& columns) override;
  // The next kernels are in cpu_softmax.cpp.
  void softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& out) override;
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) override;
  void partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& exps,
                       Tensor& stats) override;
  void finish_softmax(const Tensor& sums, const Tensor& stats, Tensor& out) override;
  void merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) override;
  void partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, Tensor& p, Tensor& grad_x) override;
  // The next kernels are in cpu_optimizer.cpp.
  void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg,
            Tensor& exp_avg_sq) override;
  void clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) override;
  void scale_by(Tensor& x, const Tensor& factor) override;
  void find_nonfinite(const Tensor& x, Tensor& flag) override;
  // The next kernels are in cpu_token_loss.cpp.
  void row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) override;
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   Tensor& exps, Tensor& parts) override;
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, Tensor& out) override;
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, Tensor& out) override;

 protected:
  /// Makes the handle of a rank, for devices that override some of the kernels.
  CpuDevice(const CpuDevice& whole, int rank)
      : Device(whole),
        std::enable_shared_from_this<CpuDevice>(),
        pool_(whole.pool_),
        tower_(whole.tower_),
        lane_(static_cast<std::size_t>(rank) % MemoryPool::kLanes) {}

 private:
  /// A tower that is built when the field is first used, because building it costs more than a small
  /// case.
  struct Tower {
    explicit Tower(std::uint64_t field_seed, FieldFunctions of_functions = FieldFunctions::homomorphic)
        : seed(field_seed), functions(of_functions) {}
    std::uint64_t seed;
    FieldFunctions functions;
    std::once_flag built;
    std::unique_ptr<const FieldTower> tower;
  };

  template <typename Scalar>
  Arithmetic<Scalar> arithmetic() const {
    if constexpr (std::is_same_v<Scalar, Field>) {
      return Arithmetic<Field>(tower());
    } else {
      return Arithmetic<Scalar>();
    }
  }

  std::shared_ptr<MemoryPool> pool_;
  std::shared_ptr<Tower> tower_;
  std::size_t lane_ = 0;
};

}  // namespace sim
