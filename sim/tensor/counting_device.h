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
  void run(const KernelCall& call) override;

 private:
  explicit CountingDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  std::shared_ptr<Device> device_;
  std::int64_t work_ = 0;
  std::shared_ptr<std::vector<WorkMark>> marks_;  // of the rank of this handle; null in the device of a world
  std::map<int, std::shared_ptr<const std::vector<WorkMark>>> marks_of_ranks_;
};

}  // namespace sim
