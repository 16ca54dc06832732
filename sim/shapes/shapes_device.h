#pragma once

/// The device of shapes. A tensor of floats or field elements has a shape and a size, but no memory and no
/// elements: kernels only count their work. Whole numbers (i32) have elements, because programs decide with
/// them how much they send: token ids, the numbers of tokens of experts, the tokens that have a loss.
///
/// Shapes  as in device.h. Operations (ops.h and its kin) check shapes and dtypes as on every device.
/// Calls   Each rank has an account of its own: the multiply-adds of matmul, the elements that the other
///         kernels process, and the bytes of the tensors that exist at once, by what they are for. Only the
///         program of the rank adds work to it, not the world that moves data between ranks.
/// Errors  no_elements: a program reads floats, or whole numbers that nobody has written or that depend on
///         floats, such as the result of a comparison.
/// Exact   Whole numbers are computed by the CPU device. A whole number that depends on a float is unknown.
///         Values that decide what a program calls follow these rules: no gradient is infinite
///         (sim/optimizer/distributed_optimizer.cpp), and experts are chosen in turn
///         (TopKRoutingConfig::force_load_balancing).

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/device.h"
#include "sim/tensor/memory_use.h"

namespace sim {

/// What one rank has computed and held.
struct ShapesAccount {
  std::int64_t multiply_adds = 0;  // of matmul, without that of work on rows (row_work.h)
  std::int64_t elements = 0;       // that other kernels processed
  std::int64_t held_bytes = 0;     // of the tensors that exist
  std::int64_t peak_bytes = 0;     // of the tensors that existed at once
  std::array<std::int64_t, kMemoryUseNames.size()> held_for{}, peak_for{};  // the same, by MemoryUse
  std::int64_t held(MemoryUse use) const { return held_for[static_cast<std::size_t>(use)]; }
  std::int64_t peak(MemoryUse use) const { return peak_for[static_cast<std::size_t>(use)]; }
};

class ShapesDevice : public Device, public std::enable_shared_from_this<ShapesDevice> {
 public:
  ShapesDevice();

  std::shared_ptr<Device> for_rank(int rank) override;
  /// Returns the accounts of the ranks of the latest world that ran on this device.
  const std::map<int, std::shared_ptr<const ShapesAccount>>& accounts() const { return accounts_; }
  const char* name() const override { return "shapes"; }
  bool has_elements(DType dtype) const override { return dtype == DType::i32; }
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
  void apply(const ElementFunction& function, const Tensor& x, Tensor& out) override;
  void apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad,
                      Tensor& out) override;
  void dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop, Tensor& out) override;
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
  void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg,
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
  explicit ShapesDevice(const ShapesDevice& whole, int rank);
  void add_elements(std::int64_t count);
  void add_elements(const Tensor& processed) { add_elements(processed.count()); }
  template <typename Compute>
  void on_numbers(std::initializer_list<const Tensor*> inputs, std::span<Tensor> outputs,
                  const Compute& compute);
  template <typename Compute>
  void on_numbers(std::initializer_list<const Tensor*> inputs, Tensor& output, const Compute& compute) {
    on_numbers(inputs, std::span(&output, 1), compute);
  }

  std::shared_ptr<MemoryPool> pool_;  // of whole numbers
  std::size_t lane_ = 0;
  std::shared_ptr<CpuDevice> numbers_;  // computes with whole numbers
  std::shared_ptr<ShapesAccount> account_;
  std::map<int, std::shared_ptr<const ShapesAccount>> accounts_;
};

}  // namespace sim
