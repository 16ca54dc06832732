#include "sim/tensor/counting_device.h"

#include <utility>

#include "sim/tensor/running_device.h"

namespace sim {

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

void CountingDevice::run(const KernelCall& call) {
  if (running_device() == this) work_ += work_of(call);
  device_->run(call);
}

}  // namespace sim
