#pragma once

/// The device of this machine's CPU: its memory, and its kernels (cpu_kernels.h).
///
/// Shapes  memory comes from a pool that the handles of all ranks share, and that outlives the device if
///         a tensor still uses it. Each rank always allocates from the same lane, rank %
///         MemoryPool::kLanes.
/// Calls   the tower of the field is built from a seed and is the same on all ranks.
/// Exact   An element of the field is no number until it is written, so that a program
///         that reads memory which nothing has written computes the same in every run. An element of another
///         dtype is whatever the last user of the memory left there.

#include <cstdint>
#include <memory>

#include "sim/base/field_tower.h"
#include "sim/tensor/device.h"
#include "sim/tensor/memory_pool.h"

namespace sim {

class CpuKernels;

class CpuDevice : public Device, public std::enable_shared_from_this<CpuDevice> {
 public:
  /// The seed determines the generators and keys of the field's exp and keyed functions. Each trial uses
  /// another seed.
  explicit CpuDevice(std::uint64_t field_seed = 0);

  /// Sets another seed for the ranks that are made from now on. The memory pool stays.
  void set_field_seed(std::uint64_t field_seed, FieldFunctions functions = FieldFunctions::homomorphic);
  /// Returns the functions of the field, which are the same for all ranks.
  const FieldTower& tower() const;
  std::shared_ptr<Device> for_rank(int rank) override;
  const char* name() const override { return "cpu"; }
  Tensor empty(DType dtype, const Shape& shape) override;
  void from_host(std::span<const std::byte> values, Tensor& to) override;
  void to_host(const Tensor& from, std::span<std::byte> values) override;
  void run(const KernelCall& call) override;

 protected:
  /// The kernels as they are, for devices that override some of them.
  const CpuKernels& kernels() const { return *kernels_; }
  /// Makes the handle of a rank, for such devices.
  CpuDevice(const CpuDevice& whole, int rank)
      : Device(whole),
        std::enable_shared_from_this<CpuDevice>(),
        pool_(whole.pool_),
        kernels_(whole.kernels_),
        lane_(static_cast<std::size_t>(rank) % MemoryPool::kLanes) {}

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::shared_ptr<const CpuKernels> kernels_;  // of all ranks
  std::size_t lane_ = 0;
};

}  // namespace sim
