#pragma once

/// A CPU device that counts the bytes of memory which a step of the optimizer reads and writes: those of its
/// own kernels, and those of the collectives that the world carries out for it.
///
/// Shapes  in bytes. A kernel that reads and writes an element counts it twice. A kernel that goes through
///         its operands in blocks that stay in a cache counts each of them once: a fold reads every input
///         once and writes every output once.
/// Calls   the handles of all ranks share one count, so a world that uses the device runs on one thread. Only
///         kernels that sim/optimizer and the world use are counted.

#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "sim/cpu/cpu_device.h"

namespace test {

struct Traffic {
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::int64_t moved() const { return read + written; }
  Traffic since(const Traffic& before) const { return {read - before.read, written - before.written}; }
};

class CountedTraffic : public sim::CpuDevice {
 public:
  CountedTraffic() = default;

  const Traffic& traffic() const { return *traffic_; }
  std::shared_ptr<sim::Device> for_rank(int rank) override {
    return std::shared_ptr<sim::Device>(new CountedTraffic(*this, rank));
  }
  void from_host(std::span<const std::byte> values, sim::Tensor& to) override {
    traffic_->written += to.bytes();
    CpuDevice::from_host(values, to);
  }
  void to_host(const sim::Tensor& from, std::span<std::byte> values) override {
    traffic_->read += from.bytes();
    CpuDevice::to_host(from, values);
  }
  void run(const sim::KernelCall& call) override {
    count(call);
    CpuDevice::run(call);
  }

 private:
  CountedTraffic(const CountedTraffic& whole, int rank) : CpuDevice(whole, rank), traffic_(whole.traffic_) {}

  void count(const sim::KernelCall& call) {
    using sim::Kernel;
    switch (call.kernel) {
      case Kernel::fold:
        return count_fold(call);
      case Kernel::copy:
        if (call.inputs.front()->data() == call.outputs.front()->data()) return;
        break;
      case Kernel::matmul:
      case Kernel::adam:
      case Kernel::scale_by:
        count(call.outputs, {});  // these read what they write
        break;
      case Kernel::fill:
      case Kernel::poison:
      case Kernel::combine:
      case Kernel::scale:
      case Kernel::cast:
      case Kernel::clip_factor:
      case Kernel::find_nonfinite:
        break;
      default:
        return;
    }
    count(call.inputs, call.outputs);
  }
  void count_fold(const sim::KernelCall& call) {
    for (const sim::FoldSegment& segment : std::get<sim::FoldParameters>(call.parameters).segments) {
      const std::int64_t bytes = (segment.end - segment.begin) * sim::size_of(call.inputs.front()->dtype());
      traffic_->read += bytes * std::ssize(call.inputs);
      traffic_->written += bytes * std::ssize(call.outputs);
    }
  }
  void count(sim::TensorList read, sim::TensorList written) {
    for (const sim::Tensor* tensor : read) traffic_->read += tensor->bytes();
    for (const sim::Tensor* tensor : written) traffic_->written += tensor->bytes();
  }

  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

}  // namespace test
