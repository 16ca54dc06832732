#include "sim/tensor/counting_device.h"

#include <utility>

#include "sim/tensor/running_device.h"

namespace sim {

void CountingDevice::add(std::int64_t work) {
  if (running_device() == this) work_ += work;
}

std::shared_ptr<Device> CountingDevice::for_rank(int rank) {
  std::shared_ptr<CountingDevice> handle(new CountingDevice(device_->for_rank(rank)));
  handle->marks_ = std::make_shared<std::vector<WorkMark>>();
  marks_of_ranks_[rank] = handle->marks_;
  return handle;
}

void CountingDevice::begin_part(const WorkPart& part, std::size_t calls) {
  if (marks_ != nullptr) marks_->push_back({part, work_, calls});
}

/// The tensor uses memory of the inner device, but belongs to this device and keeps it alive.
Tensor CountingDevice::empty(DType dtype, const Shape& shape) {
  struct Kept {
    Tensor within;
    std::shared_ptr<const void> device;
  };
  auto kept = std::make_shared<Kept>(Kept{device_->empty(dtype, shape), weak_from_this().lock()});
  Storage* storage = &kept->within.storage();
  return {*this, dtype, shape, std::shared_ptr<Storage>(std::move(kept), storage)};
}

void CountingDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  device_->from_host(values, to);
}

void CountingDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  device_->to_host(from, values);
}

void CountingDevice::fill(Tensor& out, double value) {
  add(out);
  device_->fill(out, value);
}

void CountingDevice::poison(Tensor& out) { device_->poison(out); }

void CountingDevice::copy(const Tensor& from, Tensor& to) {
  add(to);
  device_->copy(from, to);
}

void CountingDevice::combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  add(out);
  device_->combine(op, a, b, out);
}

void CountingDevice::scale(const Tensor& a, Ratio ratio, Tensor& out) {
  add(out);
  device_->scale(a, ratio, out);
}

void CountingDevice::compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) {
  add(mask);
  device_->compare(comparison, a, b, mask);
}

void CountingDevice::select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) {
  add(out);
  device_->select(mask, a, b, out);
}

void CountingDevice::cast(const Tensor& from, Tensor& to) {
  add(to);
  device_->cast(from, to);
}

void CountingDevice::fold(Reduction reduction, TensorList inputs, std::span<const FoldSegment> segments,
                          TensorList outputs) {
  for (const Tensor* input : inputs) add(*input);
  device_->fold(reduction, inputs, segments, outputs);
}

void CountingDevice::matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed,
                            Tensor& out, bool accumulate) {
  const std::size_t columns = a.shape().dimensions() - 1;
  add(out.count() * a.shape()[a_transposed ? columns - 1 : columns]);
  device_->matmul(a, a_transposed, b, b_transposed, out, accumulate);
}

void CountingDevice::add_bias(const Tensor& x, const Tensor& bias, Tensor& out) {
  add(x);
  device_->add_bias(x, bias, out);
}

void CountingDevice::add_column_sums(const Tensor& x, Tensor& sums) {
  add(x);
  device_->add_column_sums(x, sums);
}

void CountingDevice::copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to,
                                  std::int64_t to_column, std::int64_t columns) {
  const std::size_t dimensions = from.shape().dimensions();
  const std::int64_t width = dimensions == 0 ? 1 : from.shape()[dimensions - 1];
  add(width == 0 ? 0 : from.count() / width * columns);
  device_->copy_columns(from, from_column, to, to_column, columns);
}

void CountingDevice::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) {
  add(out);
  device_->lookup(table, ids, first_id, out);
}

void CountingDevice::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id,
                                 Tensor& table) {
  add(rows);
  device_->add_to_rows(rows, ids, first_id, table);
}

void CountingDevice::permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
  add(to);
  device_->permute(from, order, to);
}

void CountingDevice::activate(Activation function, const Tensor& x, Tensor& out) {
  add(x);
  device_->activate(function, x, out);
}

void CountingDevice::activate_backward(Activation function, const Tensor& x, const Tensor& grad,
                                       Tensor& out) {
  add(x);
  device_->activate_backward(function, x, grad, out);
}

void CountingDevice::apply(const ElementFunction& function, const Tensor& x, Tensor& out) {
  add(x);
  device_->apply(function, x, out);
}

void CountingDevice::apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad,
                                    Tensor& out) {
  add(x);
  device_->apply_backward(function, x, grad, out);
}

void CountingDevice::dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop, Tensor& out) {
  add(x);
  device_->dropout(x, stream, drop, out);
}

void CountingDevice::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                            Tensor& out) {
  add(x);
  device_->rotate(x, cosines, sines, backward, out);
}

void CountingDevice::softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& out) {
  add(x);
  device_->softmax(x, divisor, keys, out);
}

void CountingDevice::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor,
                                      Tensor& out) {
  add(p);
  device_->softmax_backward(p, grad, divisor, out);
}

void CountingDevice::partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& exps,
                                     Tensor& stats) {
  add(x);
  device_->partial_softmax(x, divisor, keys, exps, stats);
}

void CountingDevice::finish_softmax(const Tensor& sums, const Tensor& stats, Tensor& out) {
  add(sums);
  device_->finish_softmax(sums, stats, out);
}

void CountingDevice::merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) {
  add(out);
  device_->merge_softmax(part, part_stats, out, stats);
}

void CountingDevice::partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys,
                                              const Tensor& stats, const Tensor& grad, const Tensor& means,
                                              Tensor& p, Tensor& grad_x) {
  add(x);
  device_->partial_softmax_backward(x, divisor, keys, stats, grad, means, p, grad_x);
}

void CountingDevice::normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias,
                               Ratio epsilon, Tensor& out, Tensor& stats) {
  add(x);
  device_->normalize(norm, x, weight, bias, epsilon, out, stats);
}

void CountingDevice::normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                                        const Tensor& grad, Tensor& grad_x, Tensor& grad_weight,
                                        Tensor& grad_bias) {
  add(x);
  device_->normalize_backward(norm, x, weight, stats, grad, grad_x, grad_weight, grad_bias);
}

void CountingDevice::adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg,
                          Tensor& exp_avg_sq) {
  add(param);
  device_->adam(grad, step, param, exp_avg, exp_avg_sq);
}

void CountingDevice::clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) {
  add(factor);
  device_->clip_factor(sum_of_squares, most, factor);
}

void CountingDevice::scale_by(Tensor& x, const Tensor& factor) {
  add(x);
  device_->scale_by(x, factor);
}

void CountingDevice::find_nonfinite(const Tensor& x, Tensor& flag) {
  add(x);
  device_->find_nonfinite(x, flag);
}

void CountingDevice::row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) {
  add(logits);
  device_->row_max(logits, columns, maxima);
}

void CountingDevice::argmax(const Tensor& x, Tensor& columns) {
  add(x);
  device_->argmax(x, columns);
}

void CountingDevice::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                                 const TokenLoss& loss, Tensor& exps, Tensor& parts) {
  add(logits);
  device_->token_parts(logits, maxima, targets, loss, exps, parts);
}

void CountingDevice::token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss,
                                Tensor& out) {
  add(parts);
  device_->token_loss(parts, targets, loss, out);
}

void CountingDevice::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                         const TokenLoss& loss, const Tensor& grad, Tensor& out) {
  add(exps);
  device_->token_loss_backward(exps, parts, targets, loss, grad, out);
}

}  // namespace sim
