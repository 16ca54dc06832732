#include "gpu/device/gpu_device.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/device/kernels.h"
#include "gpu/device/refusals.h"
#include "gpu/device/runtime.h"
#include "sim/base/check.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/function_loops.h"
#include "sim/tensor/kernel_functions.h"
#include "sim/tensor/memory_pool.h"

namespace gpu {

/// The streams of a GPU, one for each lane of its memory pool. Ranks that share a lane share its stream. Any
/// thread may ask. A stream, and the vendor's handle for it, are made when they are first asked for.
class LaneStreams {
 public:
  explicit LaneStreams(int ordinal) : ordinal_(ordinal) { open_gpu(ordinal); }
  ~LaneStreams() {
    for (Vendor* vendor : vendors_) {
      if (vendor != nullptr) end_vendor(vendor);
    }
    for (Stream* stream : streams_) {
      if (stream != nullptr) end_stream(stream);
    }
  }
  LaneStreams(const LaneStreams&) = delete;
  LaneStreams& operator=(const LaneStreams&) = delete;

  int ordinal() const { return ordinal_; }
  Stream* stream(std::size_t lane) {
    const std::lock_guard lock(mutex_);
    Stream*& stream = streams_[lane];
    if (stream == nullptr) stream = make_stream();
    return stream;
  }
  Vendor* vendor(std::size_t lane) {
    Stream* of_lane = stream(lane);
    const std::lock_guard lock(mutex_);
    Vendor*& vendor = vendors_[lane];
    if (vendor == nullptr) vendor = make_vendor(of_lane);
    return vendor;
  }

 private:
  int ordinal_;
  std::mutex mutex_;
  std::array<Stream*, sim::MemoryPool::kLanes> streams_ = {};
  std::array<Vendor*, sim::MemoryPool::kLanes> vendors_ = {};
};

namespace {

/// The GPU's memory as a source of blocks for a memory pool.
class GpuMemory : public sim::BlockSource {
 public:
  explicit GpuMemory(std::shared_ptr<LaneStreams> streams) : streams_(std::move(streams)) {}
  std::byte* take(std::size_t bytes) override {
    use_gpu(streams_->ordinal());
    return allocate(bytes);
  }
  void give_back(std::byte* block) override { release(block); }

 private:
  std::shared_ptr<LaneStreams> streams_;  // end only after the memory that they work on
};

std::size_t bytes_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.bytes()); }

std::int64_t size_at(const Tensor& tensor, std::size_t from_last) {
  return tensor.shape()[tensor.shape().dimensions() - from_last];
}

/// A table of pointers to the elements of tensors. It lies in the GPU's memory, in a block of `lane`, as
/// long as the object lives.
class PointerTable {
 public:
  PointerTable(sim::MemoryPool& pool, std::size_t lane, Stream* stream,
               std::span<const Tensor* const> tensors)
      : pool_(pool), lane_(lane), bytes_(tensors.size() * sizeof(void*)), block_(pool.take(bytes_, lane)) {
    std::vector<void*> addresses(tensors.size());
    std::transform(tensors.begin(), tensors.end(), addresses.begin(),
                   [](const Tensor* tensor) { return tensor->data(); });
    copy_to_gpu(stream, addresses.data(), block_, bytes_);
  }
  ~PointerTable() { pool_.give_back(block_, bytes_, lane_); }
  PointerTable(const PointerTable&) = delete;
  PointerTable& operator=(const PointerTable&) = delete;
  void** first() const { return reinterpret_cast<void**>(block_); }

 private:
  sim::MemoryPool& pool_;
  std::size_t lane_;
  std::size_t bytes_;
  std::byte* block_;
};

/// Computes on the host: compute(inputs, output) gets pointers to copies of the elements, of the type that
/// they have.
template <typename Compute>
void on_host(sim::Device& device, std::initializer_list<const Tensor*> inputs, Tensor out,
             const Compute& compute) {
  sim::with_scalar(out.dtype(), [&]<typename Scalar>(Scalar) {
    if constexpr (!std::is_same_v<Scalar, sim::Field> && !std::is_same_v<Scalar, std::int32_t>) {
      const auto count = static_cast<std::size_t>(out.count());
      std::vector<std::vector<Scalar>> copies(inputs.size(), std::vector<Scalar>(count));
      std::vector<const Scalar*> in;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        device.to_host(*inputs.begin()[i], std::as_writable_bytes(std::span(copies[i])));
        in.push_back(copies[i].data());
      }
      std::vector<Scalar> result(count);
      compute(in, result.data());
      device.from_host(std::as_bytes(std::span(result)), out);
    }
  });
}

}  // namespace

std::shared_ptr<sim::Device> make_gpu_device(GpuOptions options) {
  return std::make_shared<GpuDevice>(options);
}

GpuDevice::GpuDevice(GpuOptions options)
    : mode_(options.mode),
      streams_(std::make_shared<LaneStreams>(options.ordinal)),
      pool_(std::make_shared<sim::MemoryPool>(std::make_unique<GpuMemory>(streams_))) {
  if (mode_ == GpuMode::vendor) load_vendor();
}

GpuDevice::GpuDevice(const GpuDevice& whole, int rank)
    : Device(whole),
      std::enable_shared_from_this<GpuDevice>(),
      mode_(whole.mode_),
      streams_(whole.streams_),
      pool_(whole.pool_),
      lane_(static_cast<std::size_t>(rank) % sim::MemoryPool::kLanes) {}

std::shared_ptr<sim::Device> GpuDevice::for_rank(int rank) {
  return std::shared_ptr<sim::Device>(new GpuDevice(*this, rank));
}

Stream* GpuDevice::stream() {
  use_gpu(streams_->ordinal());  // a stream is made on its first use
  return streams_->stream(lane_);
}

template <typename Put>
void GpuDevice::on_stream(std::initializer_list<sim::TensorList> tensors, const Put& put) {
  use_gpu(streams_->ordinal());
  std::array<bool, sim::MemoryPool::kLanes> others = {};
  for (const sim::TensorList& list : tensors) {
    for (const Tensor* tensor : list) {
      if (!tensor->is_none()) others[tensor->storage().lane()] = true;
    }
  }
  others[lane_] = false;
  Stream* own = streams_->stream(lane_);
  for (std::size_t lane = 0; lane < others.size(); ++lane) {
    if (others[lane]) order_after(own, streams_->stream(lane));
  }
  put(own);
  for (std::size_t lane = 0; lane < others.size(); ++lane) {
    if (others[lane]) order_after(streams_->stream(lane), own);
  }
}

Tensor GpuDevice::empty(sim::DType dtype, const sim::Shape& shape) {
  if (dtype == sim::DType::field) refuse_dtype("field");
  const std::int64_t bytes = shape.count() * sim::size_of(dtype);
  return {*this, dtype, shape, std::make_shared<sim::Storage>(pool_, lane_, bytes, weak_from_this().lock())};
}

void GpuDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  SIM_CHECK(values.size() == bytes_of(to));
  const Tensor* only = &to;
  on_stream({{&only, 1}},
            [&](Stream* stream) { copy_to_gpu(stream, values.data(), to.data(), values.size()); });
}

void GpuDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  SIM_CHECK(values.size() == bytes_of(from));
  const Tensor* only = &from;
  on_stream({{&only, 1}}, [&](Stream* stream) {
    copy_from_gpu(stream, from.data(), values.data(), values.size());
    wait_for(stream);
  });
}

void GpuKernels::poison(const Tensor& out) const { set_bytes(stream_, out.data(), 0xff, bytes_of(out)); }

void GpuKernels::copy(const Tensor& from, const Tensor& to) const {
  copy_on_gpu(stream_, from.data(), to.data(), bytes_of(to));
}

void GpuKernels::fold(const sim::KernelCall& call) const {
  SIM_CHECK(!call.inputs.empty());
  const auto& [reduction, segments] = std::get<sim::FoldParameters>(call.parameters);
  std::vector<const Tensor*> all(call.inputs.begin(), call.inputs.end());
  all.insert(all.end(), call.outputs.begin(), call.outputs.end());
  const PointerTable table(*device_.pool_, device_.lane_, stream_, all);
  for (const sim::FoldSegment& segment : segments) {
    gpu::fold(stream_, all.front()->dtype(), reduction, table.first(), std::ssize(call.inputs),
              table.first() + call.inputs.size(), std::ssize(call.outputs), segment);
  }
}

ProductSizes sizes_of(const Tensor& a, sim::MatmulParameters form, const Tensor& out) {
  const std::int64_t rows = size_at(out, 2);
  const std::int64_t columns = size_at(out, 1);
  const std::int64_t block = rows * columns;
  return {block == 0 ? 0 : out.count() / block, rows, columns, size_at(a, form.a_transposed ? 2 : 1)};
}

void GpuKernels::matmul(const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                        const Tensor& out) const {
  if (device_.mode_ == GpuMode::vendor) {
    vendor_matmul(device_.streams_->vendor(device_.lane_), a, b, form, out);
  } else {
    gpu::matmul(stream_, a, b, form, out);
  }
}

void GpuKernels::apply(const sim::ElementFunction* function, const Tensor& x, const Tensor& out) const {
  on_host(device_, {&x}, out,
          [&](const auto& in, auto* to) { sim::apply_to_floats(*function, in[0], to, out.count()); });
}

void GpuKernels::apply_backward(const sim::ElementFunction* function, const Tensor& x, const Tensor& grad,
                                const Tensor& out) const {
  on_host(device_, {&x, &grad}, out, [&](const auto& in, auto* to) {
    sim::apply_backward_to_floats(*function, in[0], in[1], to, out.count());
  });
}

void GpuDevice::run(const sim::KernelCall& call) {
  on_stream({call.inputs, call.outputs},
            [&](Stream* stream) { sim::run_kernel(GpuKernels(*this, stream), call); });
}

}  // namespace gpu
