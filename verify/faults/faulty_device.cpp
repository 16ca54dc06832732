#include "verify/faults/faulty_device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/tensor/checks.h"

namespace verify {

using sim::Tensor;

namespace {

using sim::Kernel;

struct KernelSite {
  Kernel kernel;
  const char* name;
};

/// The kernels that can have a fault.
constexpr auto kKernelSites = std::to_array<KernelSite>({
    {Kernel::matmul, "device.matmul"},
    {Kernel::add_bias, "device.add_bias"},
    {Kernel::add_column_sums, "device.add_column_sums"},
    {Kernel::lookup, "device.lookup"},
    {Kernel::add_to_rows, "device.add_to_rows"},
    {Kernel::permute, "device.permute"},
    {Kernel::activate, "device.activate"},
    {Kernel::activate_backward, "device.activate_backward"},
    {Kernel::dropout, "device.dropout"},
    {Kernel::rotate, "device.rotate"},
    {Kernel::softmax, "device.softmax"},
    {Kernel::softmax_backward, "device.softmax_backward"},
    {Kernel::normalize, "device.normalize"},
    {Kernel::adam, "device.adam"},
    {Kernel::clip_factor, "device.clip_factor"},
    {Kernel::scale_by, "device.scale_by"},
    {Kernel::token_loss, "device.token_loss"},
    {Kernel::token_loss_backward, "device.token_loss_backward"},
});

}  // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelSite& site : kKernelSites) names.push_back(site.name);
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

void FaultyDevice::run(const sim::KernelCall& call) {
  const auto site = std::ranges::find(kKernelSites, call.kernel, &KernelSite::kernel);
  if (site == kKernelSites.end()) return CpuDevice::run(call);
  std::vector<const Fault*> planted;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (has(i, site->name)) planted.push_back(&faults_[i]);
  }
  // Where the change is reversed, the kernel adds to what was there, whatever it does otherwise.
  bool is_dropped = false, is_kept = false;
  for (const Fault* fault : planted) {
    if (fault->kind != FaultKind::drop_accumulate || !sim::accumulates(call)) continue;
    is_dropped = true;
    is_kept = is_kept || fault->is_undone;
  }
  Tensor result = *call.outputs.front(), before;
  if (is_kept) {
    before = empty(result.dtype(), result.shape());
    copy(result, before);
  }
  if (is_dropped) fill(result, 0);
  CpuDevice::run(call);
  for (const Fault* fault : planted) change_result(*fault, result);
  if (!before.is_none()) combine(sim::ReduceOp::sum, before, result, result);
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
