#pragma once

/// The device of this machine's processor: seam one in plain loops, the same bits on every machine.
///
/// Shapes  memory comes from a pool that all ranks' handles share and that outlives the device for as long as a tensor
///         does; a rank allocates from a lane of its own.
/// Exact   each output element is a chain of its own in the stated order, whatever the vector width.

#include <memory>

#include "sim/tensor/device.h"
#include "sim/tensor/memory_pool.h"

namespace sim {

class CpuDevice : public Device, public std::enable_shared_from_this<CpuDevice> {
 public:
  CpuDevice() : pool_(std::make_shared<MemoryPool>()) {}

  std::shared_ptr<Device> for_rank(int rank) override;
  const char* name() const override { return "cpu"; }
  Tensor empty(DType dtype, const Shape& shape) override;
  void from_host(std::span<const std::byte> values, Tensor& to) override;
  void to_host(const Tensor& from, std::span<std::byte> values) override;
  void fill(Tensor& out, double value) override;
  void copy(const Tensor& from, Tensor& to) override;
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) override;
  void scale(const Tensor& a, Ratio ratio, Tensor& out) override;
  void cast(const Tensor& from, Tensor& to) override;
  void fold(ReduceOp op, std::span<const Tensor> inputs, std::span<const FoldSegment> segments,
            std::span<const Tensor> outputs) override;

 private:
  CpuDevice(std::shared_ptr<MemoryPool> pool, std::size_t lane) : pool_(std::move(pool)), lane_(lane) {}

  std::shared_ptr<MemoryPool> pool_;
  std::size_t lane_ = 0;
};

}  // namespace sim
