#include "gpu/device/gpu_device.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/device/lane_streams.h"
#include "gpu/device/refusals.h"
#include "gpu/device/runtime.h"
#include "sim/base/check.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/function_loops.h"
#include "sim/tensor/kernel_functions.h"

namespace gpu {

namespace {

using sim::columns_of;
using sim::rows_of;
using sim::Tensor;

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

ElementType type_of(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::f64:
      return ElementType::f64;
    case sim::DType::f32:
      return ElementType::f32;
    case sim::DType::bf16:
      return ElementType::bf16;
    case sim::DType::i32:
      return ElementType::i32;
    case sim::DType::field:
      break;
  }
  refuse_dtype("field");
}
ElementType type_of(const Tensor& tensor) { return type_of(tensor.dtype()); }

/// Returns the address of a tensor's elements, or null for an empty Tensor().
void* address(const Tensor& tensor) { return tensor.is_none() ? nullptr : tensor.data(); }
std::int32_t* ids_of(const Tensor& tensor) { return reinterpret_cast<std::int32_t*>(tensor.data()); }
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
                   [](const Tensor* tensor) { return address(*tensor); });
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
  sim::with_scalar(out.dtype(), [&](auto scalar) {
    using Scalar = decltype(scalar);
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
  static_cast<void>(type_of(dtype));
  const std::int64_t bytes = shape.count() * sim::size_of(dtype);
  return {*this, dtype, shape, std::make_shared<sim::Storage>(pool_, lane_, bytes, weak_from_this().lock())};
}

void GpuDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  CHECK(values.size() == bytes_of(to));
  const Tensor* only = &to;
  on_stream({{&only, 1}},
            [&](Stream* stream) { copy_to_gpu(stream, values.data(), to.data(), values.size()); });
}

void GpuDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  CHECK(values.size() == bytes_of(from));
  const Tensor* only = &from;
  on_stream({{&only, 1}}, [&](Stream* stream) {
    copy_from_gpu(stream, from.data(), values.data(), values.size());
    wait_for(stream);
  });
}

/// The kernels, put on a stream of the device.
class GpuDevice::Kernels {
 public:
  Kernels(GpuDevice& device, Stream* stream) : device_(device), stream_(stream) {}

  void fill(const Tensor& out, double value) const {
    gpu::fill(stream_, type_of(out), out.data(), out.count(), value);
  }
  void poison(const Tensor& out) const { set_bytes(stream_, out.data(), 0xff, bytes_of(out)); }
  void copy(const Tensor& from, const Tensor& to) const {
    copy_on_gpu(stream_, from.data(), to.data(), bytes_of(to));
  }
  void combine(ReduceOp op, const Tensor& a, const Tensor& b, const Tensor& out) const {
    gpu::combine(stream_, type_of(out), op, a.data(), b.data(), out.data(), out.count());
  }
  void scale(const Tensor& a, Ratio ratio, const Tensor& out) const {
    gpu::scale(stream_, type_of(out), a.data(), ratio, out.data(), out.count());
  }
  void compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& mask) const {
    gpu::compare(stream_, type_of(a), comparison, a.data(), b.data(), ids_of(mask), mask.count());
  }
  void select(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& out) const {
    gpu::select(stream_, sim::size_of(out.dtype()), ids_of(mask), a.data(), b.data(), out.data(),
                out.count());
  }
  void cast(const Tensor& from, const Tensor& to) const {
    gpu::cast(stream_, type_of(from), from.data(), type_of(to), to.data(), to.count());
  }
  void fold(const sim::KernelCall& call) const {
    CHECK(!call.inputs.empty());
    const auto& [reduction, segments] = std::get<sim::FoldParameters>(call.parameters);
    std::vector<const Tensor*> all(call.inputs.begin(), call.inputs.end());
    all.insert(all.end(), call.outputs.begin(), call.outputs.end());
    const PointerTable table(*device_.pool_, device_.lane_, stream_, all);
    for (const sim::FoldSegment& segment : segments) {
      gpu::fold(stream_, type_of(*all.front()), reduction, table.first(), std::ssize(call.inputs),
                table.first() + call.inputs.size(), std::ssize(call.outputs), segment);
    }
  }
  void matmul(const Tensor& a, const Tensor& b, sim::MatmulParameters form, const Tensor& out) const {
    const std::int64_t rows = size_at(out, 2);
    const std::int64_t columns = size_at(out, 1);
    const std::int64_t block = rows * columns;
    const ProductSizes sizes = {block == 0 ? 0 : out.count() / block, rows, columns,
                                size_at(a, form.a_transposed ? 2 : 1)};
    const Operand left = {a.data(), form.a_transposed};
    const Operand right = {b.data(), form.b_transposed};
    if (device_.mode_ == GpuMode::vendor) {
      vendor_matmul(device_.streams_->vendor(device_.lane_), type_of(a), sizes, left, right, type_of(out),
                    out.data(), form.accumulate);
    } else {
      gpu::matmul(stream_, type_of(a), sizes, left, right, type_of(out), out.data(), form.accumulate);
    }
  }
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const {
    gpu::add_bias(stream_, type_of(x), x.data(), bias.data(), out.data(), rows_of(x), columns_of(x));
  }
  void add_column_sums(const Tensor& x, const Tensor& sums) const {
    gpu::add_column_sums(stream_, type_of(x), x.data(), sums.data(), rows_of(x), columns_of(x));
  }
  void copy_columns(const Tensor& from, const sim::ColumnParameters& part, const Tensor& to) const {
    const std::int64_t size = sim::size_of(from.dtype());
    gpu::copy_columns(stream_, size, from.data() + part.from_column * size, columns_of(from),
                      to.data() + part.to_column * size, columns_of(to), rows_of(from), part.columns);
  }
  void lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, const Tensor& out) const {
    gpu::lookup(stream_, sim::size_of(table.dtype()), table.data(), rows_of(table), ids_of(ids), first_id,
                out.data(), ids.count(), columns_of(table));
  }
  void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, const Tensor& table) const {
    gpu::add_to_rows(stream_, type_of(rows), rows.data(), ids_of(ids), first_id, table.data(), rows_of(table),
                     ids.count(), columns_of(table));
  }
  void permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const {
    std::array<std::int64_t, 4> steps{};  // elements from one index to the next, by dimension of `from`
    std::int64_t step = 1;
    for (std::size_t i = 4; i-- > 0; step *= from.shape()[i]) steps[i] = step;
    std::array<std::int64_t, 4> steps_of_to{};
    std::array<std::int64_t, 4> sizes{};
    for (std::size_t i = 0; i < 4; ++i) {
      steps_of_to[i] = steps[static_cast<std::size_t>(order[i])];
      sizes[i] = to.shape()[i];
    }
    gpu::permute(stream_, sim::size_of(from.dtype()), from.data(), steps_of_to, to.data(), sizes);
  }
  void activate(Activation function, const Tensor& x, const Tensor& out) const {
    gpu::activate(stream_, type_of(x), function, x.data(), out.data(), x.count());
  }
  void activate_backward(Activation function, const Tensor& x, const Tensor& grad, const Tensor& out) const {
    gpu::activate_backward(stream_, type_of(x), function, x.data(), grad.data(), out.data(), x.count());
  }
  void apply(const sim::ElementFunction* function, const Tensor& x, const Tensor& out) const {
    on_host(device_, {&x}, out,
            [&](const auto& in, auto* to) { sim::apply_to_floats(*function, in[0], to, out.count()); });
  }
  void apply_backward(const sim::ElementFunction* function, const Tensor& x, const Tensor& grad,
                      const Tensor& out) const {
    on_host(device_, {&x, &grad}, out, [&](const auto& in, auto* to) {
      sim::apply_backward_to_floats(*function, in[0], in[1], to, out.count());
    });
  }
  void dropout(const Tensor& x, const sim::DropoutParameters& random, const Tensor& out) const {
    gpu::dropout(stream_, type_of(x), x.data(), random.stream.key(), random.drop, out.data(), x.count());
  }
  void rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
              const Tensor& out) const {
    gpu::rotate(stream_, type_of(x), x.data(), cosines.data(), sines.data(), backward, out.data(), rows_of(x),
                x.shape()[1] * x.shape()[2], columns_of(x));
  }
  void softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& out) const {
    gpu::softmax(stream_, type_of(x), x.data(), scores.divisor, scores.keys, out.data(), nullptr, rows_of(x),
                 size_at(x, 2), columns_of(x));
  }
  void partial_softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& exps,
                       const Tensor& stats) const {
    gpu::softmax(stream_, type_of(x), x.data(), scores.divisor, scores.keys, exps.data(), stats.data(),
                 rows_of(x), size_at(x, 2), columns_of(x));
  }
  void finish_softmax(const Tensor& sums, const Tensor& stats, const Tensor& out) const {
    gpu::finish_softmax(stream_, type_of(out), sums.data(), stats.data(), out.data(), rows_of(out),
                        columns_of(out));
  }
  void merge_softmax(const Tensor& part, const Tensor& part_stats, const Tensor& out,
                     const Tensor& stats) const {
    gpu::merge_softmax(stream_, type_of(out), part.data(), part_stats.data(), out.data(), stats.data(),
                       rows_of(out), columns_of(out));
  }
  void partial_softmax_backward(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& stats,
                                const Tensor& grad, const Tensor& means, const Tensor& p,
                                const Tensor& grad_x) const {
    gpu::partial_softmax_backward(stream_, type_of(x), x.data(), scores.divisor, scores.keys, stats.data(),
                                  grad.data(), means.data(), p.data(), grad_x.data(), rows_of(x),
                                  size_at(x, 2), columns_of(x));
  }
  void softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, const Tensor& out) const {
    gpu::softmax_backward(stream_, type_of(p), p.data(), grad.data(), divisor, out.data(), rows_of(p),
                          columns_of(p));
  }
  void normalize(const sim::NormParameters& form, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& out, const Tensor& stats) const {
    gpu::normalize(stream_, type_of(x), form.norm, x.data(), weight.data(), address(bias), form.epsilon,
                   out.data(), stats.data(), rows_of(x), columns_of(x));
  }
  void normalize_backward(const sim::NormParameters& form, const Tensor& x, const Tensor& weight,
                          const Tensor& stats, const Tensor& grad, const Tensor& grad_x,
                          const Tensor& grad_weight, const Tensor& grad_bias) const {
    gpu::normalize_backward(stream_, type_of(x), form.norm, x.data(), weight.data(), stats.data(),
                            grad.data(), grad_x.data(), grad_weight.data(), address(grad_bias), rows_of(x),
                            columns_of(x));
  }
  void adam(const Tensor& grad, const sim::AdamStep& step, const Tensor& param, const Tensor& exp_avg,
            const Tensor& exp_avg_sq) const {
    gpu::adam(stream_, type_of(grad), grad.data(), step, param.data(), exp_avg.data(), exp_avg_sq.data(),
              grad.count());
  }
  void clip_factor(const Tensor& sum_of_squares, Ratio most, const Tensor& factor) const {
    gpu::clip_factor(stream_, type_of(factor), sum_of_squares.data(), most, factor.data());
  }
  void scale_by(const Tensor& factor, const Tensor& x) const {
    gpu::scale_by(stream_, type_of(x), x.data(), factor.data(), x.count());
  }
  void find_nonfinite(const Tensor& x, const Tensor& flag) const {
    gpu::find_nonfinite(stream_, type_of(x), x.data(), x.count(), flag.data());
  }
  void row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const {
    gpu::row_max(stream_, type_of(logits), logits.data(), columns, maxima.data(), rows_of(logits),
                 columns_of(logits));
  }
  void argmax(const Tensor& x, const Tensor& columns) const {
    gpu::argmax(stream_, type_of(x), x.data(), ids_of(columns), rows_of(x), columns_of(x));
  }
  void token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets, const TokenLoss& loss,
                   const Tensor& exps, const Tensor& parts) const {
    gpu::token_parts(stream_, type_of(logits), logits.data(), maxima.data(), ids_of(targets), loss,
                     exps.data(), parts.data(), rows_of(logits), columns_of(logits));
  }
  void token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss,
                  const Tensor& out) const {
    gpu::token_loss(stream_, type_of(parts), parts.data(), ids_of(targets), loss, out.data(), out.count());
  }
  void token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad, const Tensor& out) const {
    gpu::token_loss_backward(stream_, type_of(out), exps.data(), parts.data(), ids_of(targets), loss,
                             grad.data(), out.data(), rows_of(out), columns_of(out));
  }

 private:
  GpuDevice& device_;
  Stream* stream_;
};

void GpuDevice::run(const sim::KernelCall& call) {
  on_stream({call.inputs, call.outputs},
            [&](Stream* stream) { sim::run_kernel(Kernels(*this, stream), call); });
}

}  // namespace gpu
