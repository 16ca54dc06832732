#include "verify/faults/faulty_device.h"

#include <utility>

#include "sim/tensor/checks.h"

namespace verify {

using sim::Tensor;

const std::vector<std::string>& kernel_names() {
  static const std::vector<std::string> names = {"device.matmul",          "device.add_bias",
                                                 "device.add_column_sums", "device.lookup",
                                                 "device.add_to_rows",     "device.permute",
                                                 "device.activate",        "device.activate_backward",
                                                 "device.dropout",         "device.rotate",
                                                 "device.softmax",         "device.softmax_backward",
                                                 "device.normalize",       "device.adam",
                                                 "device.clip_factor",     "device.scale_by",
                                                 "device.token_loss",      "device.token_loss_backward"};
  return names;
}

/// Whether this call of a kernel has the fault. It counts the calls.
bool FaultyDevice::has(std::size_t fault, const char* name) {
  const Fault& one = faults_[fault];
  if (!one.is_of_kernels() || !fits_pattern(one.site, name) || !one.is_at({.rank = rank_})) return false;
  const std::int64_t number = calls_[{fault, name}]++;
  const bool is_met = one.where.call.value_or(number) == number;
  if (is_met) ++*one.met;
  return is_met;
}

void change_result(const Fault& fault, Tensor& out) {
  sim::Device& device = out.device();
  if (fault.kind == FaultKind::zero) return device.fill(out, 0);
  if (fault.kind == FaultKind::scale) return device.scale(out, fault.factor.number, out);
  if (out.count() == 0) return;
  if (fault.kind == FaultKind::nan) {
    Tensor first = out.flat().rows(0, 1);
    return device.poison(first);
  }
  const bool is_permuted = fault.kind == FaultKind::offset || fault.kind == FaultKind::transpose;
  if (!is_permuted) return;
  const std::int64_t count = out.count();
  std::int64_t columns = sim::columns_of(out);
  std::int64_t rows = out.shape().dimensions() < 2 ? 1 : out.shape()[out.shape().dimensions() - 2];
  if (fault.is_undone) std::swap(rows, columns);
  const std::int64_t shift = fault.elements % count;
  Tensor kept = device.empty(out.dtype(), {count});
  device.copy(out.flat(), kept);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t in_matrix = i % (rows * columns);
    const std::int64_t from = fault.kind == FaultKind::offset
                                  ? (i + (fault.is_undone ? count - shift : shift)) % count
                                  : i - in_matrix + in_matrix % rows * columns + in_matrix / rows;
    Tensor element = out.flat().rows(i, i + 1);
    device.copy(kept.rows(from, from + 1), element);
  }
}

template <typename Kernel>
void FaultyDevice::run(const char* name, Tensor& out, bool adds, const Kernel& kernel) {
  std::vector<const Fault*> planted;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (has(i, name)) planted.push_back(&faults_[i]);
  }
  // Where the change is reversed, the kernel adds to what was there, whatever it does otherwise.
  bool is_dropped = false, is_kept = false;
  for (const Fault* fault : planted) {
    if (fault->kind != FaultKind::drop_accumulate || !adds) continue;
    is_dropped = true;
    is_kept = is_kept || fault->is_undone;
  }
  Tensor before;
  if (is_kept) {
    before = empty(out.dtype(), out.shape());
    copy(out, before);
  }
  if (is_dropped) fill(out, 0);
  kernel();
  for (const Fault* fault : planted) change_result(*fault, out);
  if (!before.is_none()) combine(sim::ReduceOp::sum, before, out, out);
}

void FaultyDevice::matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
                          bool accumulate) {
  run("device.matmul", out, accumulate,
      [&] { CpuDevice::matmul(a, a_transposed, b, b_transposed, out, accumulate); });
}
void FaultyDevice::add_bias(const Tensor& x, const Tensor& bias, Tensor& out) {
  run("device.add_bias", out, false, [&] { CpuDevice::add_bias(x, bias, out); });
}
void FaultyDevice::add_column_sums(const Tensor& x, Tensor& sums) {
  run("device.add_column_sums", sums, true, [&] { CpuDevice::add_column_sums(x, sums); });
}
void FaultyDevice::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) {
  run("device.lookup", out, false, [&] { CpuDevice::lookup(table, ids, first_id, out); });
}
void FaultyDevice::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) {
  run("device.add_to_rows", table, true, [&] { CpuDevice::add_to_rows(rows, ids, first_id, table); });
}
void FaultyDevice::permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
  run("device.permute", to, false, [&] { CpuDevice::permute(from, order, to); });
}
void FaultyDevice::activate(sim::Activation function, const Tensor& x, Tensor& out) {
  run("device.activate", out, false, [&] { CpuDevice::activate(function, x, out); });
}
void FaultyDevice::activate_backward(sim::Activation function, const Tensor& x, const Tensor& grad,
                                     Tensor& out) {
  run("device.activate_backward", out, false, [&] { CpuDevice::activate_backward(function, x, grad, out); });
}
void FaultyDevice::dropout(const Tensor& x, const sim::KeyedRandom& stream, sim::Ratio drop, Tensor& out) {
  run("device.dropout", out, false, [&] { CpuDevice::dropout(x, stream, drop, out); });
}
void FaultyDevice::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                          Tensor& out) {
  run("device.rotate", out, false, [&] { CpuDevice::rotate(x, cosines, sines, backward, out); });
}
void FaultyDevice::softmax(const Tensor& x, std::int64_t divisor, sim::SeenKeys keys, Tensor& out) {
  run("device.softmax", out, false, [&] { CpuDevice::softmax(x, divisor, keys, out); });
}
void FaultyDevice::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) {
  run("device.softmax_backward", out, false, [&] { CpuDevice::softmax_backward(p, grad, divisor, out); });
}
void FaultyDevice::normalize(sim::Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias,
                             sim::Ratio epsilon, Tensor& out, Tensor& stats) {
  run("device.normalize", out, false,
      [&] { CpuDevice::normalize(norm, x, weight, bias, epsilon, out, stats); });
}
void FaultyDevice::adam(const Tensor& grad, const sim::AdamStep& step, Tensor& param, Tensor& exp_avg,
                        Tensor& exp_avg_sq) {
  run("device.adam", param, false, [&] { CpuDevice::adam(grad, step, param, exp_avg, exp_avg_sq); });
}
void FaultyDevice::clip_factor(const Tensor& sum_of_squares, sim::Ratio most, Tensor& factor) {
  run("device.clip_factor", factor, false, [&] { CpuDevice::clip_factor(sum_of_squares, most, factor); });
}
void FaultyDevice::scale_by(Tensor& x, const Tensor& factor) {
  run("device.scale_by", x, false, [&] { CpuDevice::scale_by(x, factor); });
}
void FaultyDevice::token_loss(const Tensor& parts, const Tensor& targets, const sim::TokenLoss& loss,
                              Tensor& out) {
  run("device.token_loss", out, false, [&] { CpuDevice::token_loss(parts, targets, loss, out); });
}
void FaultyDevice::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                       const sim::TokenLoss& loss, const Tensor& grad, Tensor& out) {
  run("device.token_loss_backward", out, false,
      [&] { CpuDevice::token_loss_backward(exps, parts, targets, loss, grad, out); });
}

void plant_in_tensors(sim::RunReport& report, const std::vector<Fault>& faults, sim::Device& device) {
  for (const Fault& fault : faults) {
    if (!fault.is_of_tensors()) continue;
    for (sim::RankReport& rank : report.ranks) {
      for (sim::Published& published : rank.published) {
        if (!fits_pattern(fault.site, "tensor." + published.name)) continue;
        if (!fault.is_at({.rank = rank.rank})) continue;
        sim::Tensor tensor = device.empty(published.dtype, published.shape);
        device.from_host(published.values, tensor);
        change_result(fault, tensor);
        device.to_host(tensor, published.values);
        ++*fault.met;
      }
    }
  }
}

}  // namespace verify
