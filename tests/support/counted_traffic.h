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
#include <initializer_list>
#include <memory>
#include <span>

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
    count({}, {&to});
    CpuDevice::from_host(values, to);
  }
  void to_host(const sim::Tensor& from, std::span<std::byte> values) override {
    count({&from}, {});
    CpuDevice::to_host(from, values);
  }
  void fill(sim::Tensor& out, double value) override {
    count({}, {&out});
    CpuDevice::fill(out, value);
  }
  void poison(sim::Tensor& out) override {
    count({}, {&out});
    CpuDevice::poison(out);
  }
  void copy(const sim::Tensor& from, sim::Tensor& to) override {
    if (from.data() != to.data()) count({&from}, {&to});
    CpuDevice::copy(from, to);
  }
  void combine(sim::ReduceOp op, const sim::Tensor& a, const sim::Tensor& b, sim::Tensor& out) override {
    count({&a, &b}, {&out});
    CpuDevice::combine(op, a, b, out);
  }
  void scale(const sim::Tensor& a, sim::Ratio ratio, sim::Tensor& out) override {
    count({&a}, {&out});
    CpuDevice::scale(a, ratio, out);
  }
  void cast(const sim::Tensor& from, sim::Tensor& to) override {
    count({&from}, {&to});
    CpuDevice::cast(from, to);
  }
  void fold(sim::Reduction reduction, sim::TensorList inputs, std::span<const sim::FoldSegment> segments,
            sim::TensorList outputs) override {
    for (const sim::FoldSegment& segment : segments) {
      const std::int64_t bytes = (segment.end - segment.begin) * sim::size_of(inputs.front()->dtype());
      traffic_->read += bytes * std::ssize(inputs);
      traffic_->written += bytes * std::ssize(outputs);
    }
    CpuDevice::fold(reduction, inputs, segments, outputs);
  }
  void matmul(const sim::Tensor& a, bool a_transposed, const sim::Tensor& b, bool b_transposed,
              sim::Tensor& out, bool accumulate) override {
    count({&a, &b, &out}, {&out});
    CpuDevice::matmul(a, a_transposed, b, b_transposed, out, accumulate);
  }
  void adam(const sim::Tensor& grad, const sim::AdamStep& step, sim::Tensor& param, sim::Tensor& exp_avg,
            sim::Tensor& exp_avg_sq) override {
    count({&grad, &param, &exp_avg, &exp_avg_sq}, {&param, &exp_avg, &exp_avg_sq});
    CpuDevice::adam(grad, step, param, exp_avg, exp_avg_sq);
  }
  void clip_factor(const sim::Tensor& sum_of_squares, sim::Ratio most, sim::Tensor& factor) override {
    count({&sum_of_squares}, {&factor});
    CpuDevice::clip_factor(sum_of_squares, most, factor);
  }
  void scale_by(sim::Tensor& x, const sim::Tensor& factor) override {
    count({&x, &factor}, {&x});
    CpuDevice::scale_by(x, factor);
  }
  void find_nonfinite(const sim::Tensor& x, sim::Tensor& flag) override {
    count({&x}, {&flag});
    CpuDevice::find_nonfinite(x, flag);
  }

 private:
  CountedTraffic(const CountedTraffic& whole, int rank) : CpuDevice(whole, rank), traffic_(whole.traffic_) {}

  void count(std::initializer_list<const sim::Tensor*> read,
             std::initializer_list<const sim::Tensor*> written) {
    for (const sim::Tensor* tensor : read) traffic_->read += tensor->bytes();
    for (const sim::Tensor* tensor : written) traffic_->written += tensor->bytes();
  }

  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

}  // namespace test
