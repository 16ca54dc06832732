#pragma once

/// A device that counts the work it is given and leaves the computing to another device. A timeline
/// (sim/world/run_timeline.h) uses it to know how much work lay between two calls. A world without a
/// timeline runs without it.
///
/// Shapes  a unit of work is a multiply-add of matmul, or an element that another kernel processes (for
///         fold, an element of any input). Copies between host and device, and poison, count as no work.
/// Calls   The handle of each rank counts separately, and only while the program of that rank runs. Work
///         that the world does on behalf of a rank (the sums of a collective, the copy of an eager
///         message) belongs to the call, not to the work of the rank.
/// Exact   the results are those of the inner device; the count depends on the program alone.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "sim/tensor/device.h"
#include "sim/tensor/work_part.h"

namespace sim {

class CountingDevice : public Device, public std::enable_shared_from_this<CountingDevice> {
 public:
  /// `device` must outlive this object.
  explicit CountingDevice(Device& device) : device_(std::shared_ptr<Device>(), &device) {}

  const std::int64_t* work() const override { return &work_; }
  bool has_elements(DType dtype) const override { return device_->has_elements(dtype); }
  std::shared_ptr<Device> for_rank(int rank) override;
  /// The rank of this handle begins another part of its work. `calls` is the number of calls that it has
  /// made.
  void begin_part(const WorkPart& part, std::size_t calls);
  /// Returns where the parts of each rank began, in the latest world that ran on this device.
  const std::map<int, std::shared_ptr<const std::vector<WorkMark>>>& marks() const { return marks_of_ranks_; }
  const char* name() const override { return device_->name(); }
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
  explicit CountingDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  void add(std::int64_t work);
  /// Adds the elements of a tensor, for a kernel that processes each of them once.
  void add(const Tensor& largest) { add(largest.count()); }

  std::shared_ptr<Device> device_;
  std::int64_t work_ = 0;
  std::shared_ptr<std::vector<WorkMark>> marks_;  // of the rank of this handle; null in the device of a world
  std::map<int, std::shared_ptr<const std::vector<WorkMark>>> marks_of_ranks_;
};

}  // namespace sim
