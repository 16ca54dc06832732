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
  void run(const KernelCall& call) override;

 private:
  explicit ShapesDevice(const ShapesDevice& whole, int rank);
  void count(const KernelCall& call);

  std::shared_ptr<MemoryPool> pool_;  // of whole numbers
  std::size_t lane_ = 0;
  std::shared_ptr<CpuDevice> numbers_;  // computes with whole numbers
  std::shared_ptr<ShapesAccount> account_;
  std::map<int, std::shared_ptr<const ShapesAccount>> accounts_;
};

}  // namespace sim
