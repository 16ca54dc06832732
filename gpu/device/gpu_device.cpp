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
void on_host(sim::Device& device, std::initializer_list<const Tensor*> inputs, Tensor& out,
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
void GpuDevice::on_stream(std::span<const Tensor* const> tensors, const Put& put) {
  use_gpu(streams_->ordinal());
  std::array<bool, sim::MemoryPool::kLanes> others = {};
  for (const Tensor* tensor : tensors) {
    if (!tensor->is_none()) others[tensor->storage().lane()] = true;
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
  on_stream({&to}, [&](Stream* stream) { copy_to_gpu(stream, values.data(), to.data(), values.size()); });
}

void GpuDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  CHECK(values.size() == bytes_of(from));
  on_stream({&from}, [&](Stream* stream) {
    copy_from_gpu(stream, from.data(), values.data(), values.size());
    wait_for(stream);
  });
}

void GpuDevice::fill(Tensor& out, double value) {
  on_stream({&out}, [&](Stream* stream) { gpu::fill(stream, type_of(out), out.data(), out.count(), value); });
}

void GpuDevice::poison(Tensor& out) {
  on_stream({&out}, [&](Stream* stream) { set_bytes(stream, out.data(), 0xff, bytes_of(out)); });
}

void GpuDevice::copy(const Tensor& from, Tensor& to) {
  on_stream({&from, &to}, [&](Stream* stream) { copy_on_gpu(stream, from.data(), to.data(), bytes_of(to)); });
}

void GpuDevice::combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  on_stream({&a, &b, &out}, [&](Stream* stream) {
    gpu::combine(stream, type_of(out), op, a.data(), b.data(), out.data(), out.count());
  });
}

void GpuDevice::scale(const Tensor& a, Ratio ratio, Tensor& out) {
  on_stream({&a, &out}, [&](Stream* stream) {
    gpu::scale(stream, type_of(out), a.data(), ratio, out.data(), out.count());
  });
}

void GpuDevice::compare(sim::Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) {
  on_stream({&a, &b, &mask}, [&](Stream* stream) {
    gpu::compare(stream, type_of(a), comparison, a.data(), b.data(), ids_of(mask), mask.count());
  });
}

void GpuDevice::select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) {
  on_stream({&mask, &a, &b, &out}, [&](Stream* stream) {
    gpu::select(stream, sim::size_of(out.dtype()), ids_of(mask), a.data(), b.data(), out.data(), out.count());
  });
}

void GpuDevice::cast(const Tensor& from, Tensor& to) {
  on_stream({&from, &to}, [&](Stream* stream) {
    gpu::cast(stream, type_of(from), from.data(), type_of(to), to.data(), to.count());
  });
}

void GpuDevice::fold(sim::Reduction reduction, sim::TensorList inputs,
                     std::span<const sim::FoldSegment> segments, sim::TensorList outputs) {
  CHECK(!inputs.empty());
  std::vector<const Tensor*> all(inputs.begin(), inputs.end());
  all.insert(all.end(), outputs.begin(), outputs.end());
  on_stream(all, [&](Stream* stream) {
    const PointerTable table(*pool_, lane_, stream, all);
    for (const sim::FoldSegment& segment : segments) {
      gpu::fold(stream, type_of(*inputs.front()), reduction, table.first(), std::ssize(inputs),
                table.first() + inputs.size(), std::ssize(outputs), segment);
    }
  });
}

void GpuDevice::matmul(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, Tensor& out,
                       bool accumulate) {
  const std::int64_t rows = size_at(out, 2);
  const std::int64_t columns = size_at(out, 1);
  const std::int64_t block = rows * columns;
  const ProductSizes sizes = {block == 0 ? 0 : out.count() / block, rows, columns,
                              size_at(a, a_transposed ? 2 : 1)};
  on_stream({&a, &b, &out}, [&](Stream* stream) {
    const Operand left = {a.data(), a_transposed};
    const Operand right = {b.data(), b_transposed};
    if (mode_ == GpuMode::vendor) {
      vendor_matmul(streams_->vendor(lane_), type_of(a), sizes, left, right, type_of(out), out.data(),
                    accumulate);
    } else {
      gpu::matmul(stream, type_of(a), sizes, left, right, type_of(out), out.data(), accumulate);
    }
  });
}

void GpuDevice::add_bias(const Tensor& x, const Tensor& bias, Tensor& out) {
  on_stream({&x, &bias, &out}, [&](Stream* stream) {
    gpu::add_bias(stream, type_of(x), x.data(), bias.data(), out.data(), rows_of(x), columns_of(x));
  });
}

void GpuDevice::add_column_sums(const Tensor& x, Tensor& sums) {
  on_stream({&x, &sums}, [&](Stream* stream) {
    gpu::add_column_sums(stream, type_of(x), x.data(), sums.data(), rows_of(x), columns_of(x));
  });
}

void GpuDevice::copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to, std::int64_t to_column,
                             std::int64_t columns) {
  const std::int64_t size = sim::size_of(from.dtype());
  on_stream({&from, &to}, [&](Stream* stream) {
    gpu::copy_columns(stream, size, from.data() + from_column * size, columns_of(from),
                      to.data() + to_column * size, columns_of(to), rows_of(from), columns);
  });
}

void GpuDevice::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id, Tensor& out) {
  on_stream({&table, &ids, &out}, [&](Stream* stream) {
    gpu::lookup(stream, sim::size_of(table.dtype()), table.data(), rows_of(table), ids_of(ids), first_id,
                out.data(), ids.count(), columns_of(table));
  });
}

void GpuDevice::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& table) {
  on_stream({&rows, &ids, &table}, [&](Stream* stream) {
    gpu::add_to_rows(stream, type_of(rows), rows.data(), ids_of(ids), first_id, table.data(), rows_of(table),
                     ids.count(), columns_of(table));
  });
}

void GpuDevice::permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
  std::array<std::int64_t, 4> steps{};  // elements from one index to the next, by dimension of `from`
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0; step *= from.shape()[i]) steps[i] = step;
  std::array<std::int64_t, 4> steps_of_to{};
  std::array<std::int64_t, 4> sizes{};
  for (std::size_t i = 0; i < 4; ++i) {
    steps_of_to[i] = steps[static_cast<std::size_t>(order[i])];
    sizes[i] = to.shape()[i];
  }
  on_stream({&from, &to}, [&](Stream* stream) {
    gpu::permute(stream, sim::size_of(from.dtype()), from.data(), steps_of_to, to.data(), sizes);
  });
}

void GpuDevice::activate(Activation function, const Tensor& x, Tensor& out) {
  on_stream({&x, &out}, [&](Stream* stream) {
    gpu::activate(stream, type_of(x), function, x.data(), out.data(), x.count());
  });
}

void GpuDevice::activate_backward(Activation function, const Tensor& x, const Tensor& grad, Tensor& out) {
  on_stream({&x, &grad, &out}, [&](Stream* stream) {
    gpu::activate_backward(stream, type_of(x), function, x.data(), grad.data(), out.data(), x.count());
  });
}

void GpuDevice::apply(const sim::ElementFunction& function, const Tensor& x, Tensor& out) {
  on_host(*this, {&x}, out,
          [&](const auto& in, auto* to) { sim::apply_to_floats(function, in[0], to, out.count()); });
}

void GpuDevice::apply_backward(const sim::ElementFunction& function, const Tensor& x, const Tensor& grad,
                               Tensor& out) {
  on_host(*this, {&x, &grad}, out, [&](const auto& in, auto* to) {
    sim::apply_backward_to_floats(function, in[0], in[1], to, out.count());
  });
}

void GpuDevice::dropout(const Tensor& x, const sim::KeyedRandom& random, Ratio drop, Tensor& out) {
  on_stream({&x, &out}, [&](Stream* stream) {
    gpu::dropout(stream, type_of(x), x.data(), random.key(), drop, out.data(), x.count());
  });
}

void GpuDevice::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                       Tensor& out) {
  on_stream({&x, &cosines, &sines, &out}, [&](Stream* stream) {
    gpu::rotate(stream, type_of(x), x.data(), cosines.data(), sines.data(), backward, out.data(), rows_of(x),
                x.shape()[1] * x.shape()[2], columns_of(x));
  });
}

void GpuDevice::softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& out) {
  on_stream({&x, &out}, [&](Stream* stream) {
    gpu::softmax(stream, type_of(x), x.data(), divisor, keys, out.data(), nullptr, rows_of(x), size_at(x, 2),
                 columns_of(x));
  });
}

void GpuDevice::partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& exps,
                                Tensor& stats) {
  on_stream({&x, &exps, &stats}, [&](Stream* stream) {
    gpu::softmax(stream, type_of(x), x.data(), divisor, keys, exps.data(), stats.data(), rows_of(x),
                 size_at(x, 2), columns_of(x));
  });
}

void GpuDevice::finish_softmax(const Tensor& sums, const Tensor& stats, Tensor& out) {
  on_stream({&sums, &stats, &out}, [&](Stream* stream) {
    gpu::finish_softmax(stream, type_of(out), sums.data(), stats.data(), out.data(), rows_of(out),
                        columns_of(out));
  });
}

void GpuDevice::merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) {
  on_stream({&part, &part_stats, &out, &stats}, [&](Stream* stream) {
    gpu::merge_softmax(stream, type_of(out), part.data(), part_stats.data(), out.data(), stats.data(),
                       rows_of(out), columns_of(out));
  });
}

void GpuDevice::partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys,
                                         const Tensor& stats, const Tensor& grad, const Tensor& means,
                                         Tensor& p, Tensor& grad_x) {
  on_stream({&x, &stats, &grad, &means, &p, &grad_x}, [&](Stream* stream) {
    gpu::partial_softmax_backward(stream, type_of(x), x.data(), divisor, keys, stats.data(), grad.data(),
                                  means.data(), p.data(), grad_x.data(), rows_of(x), size_at(x, 2),
                                  columns_of(x));
  });
}

void GpuDevice::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor, Tensor& out) {
  on_stream({&p, &grad, &out}, [&](Stream* stream) {
    gpu::softmax_backward(stream, type_of(p), p.data(), grad.data(), divisor, out.data(), rows_of(p),
                          columns_of(p));
  });
}

void GpuDevice::normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon,
                          Tensor& out, Tensor& stats) {
  on_stream({&x, &weight, &bias, &out, &stats}, [&](Stream* stream) {
    gpu::normalize(stream, type_of(x), norm, x.data(), weight.data(), address(bias), epsilon, out.data(),
                   stats.data(), rows_of(x), columns_of(x));
  });
}

void GpuDevice::normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                                   const Tensor& grad, Tensor& grad_x, Tensor& grad_weight,
                                   Tensor& grad_bias) {
  on_stream({&x, &weight, &stats, &grad, &grad_x, &grad_weight, &grad_bias}, [&](Stream* stream) {
    gpu::normalize_backward(stream, type_of(x), norm, x.data(), weight.data(), stats.data(), grad.data(),
                            grad_x.data(), grad_weight.data(), address(grad_bias), rows_of(x), columns_of(x));
  });
}

void GpuDevice::adam(const Tensor& grad, const sim::AdamStep& step, Tensor& param, Tensor& exp_avg,
                     Tensor& exp_avg_sq) {
  on_stream({&grad, &param, &exp_avg, &exp_avg_sq}, [&](Stream* stream) {
    gpu::adam(stream, type_of(grad), grad.data(), step, param.data(), exp_avg.data(), exp_avg_sq.data(),
              grad.count());
  });
}

void GpuDevice::clip_factor(const Tensor& sum_of_squares, Ratio most, Tensor& factor) {
  on_stream({&sum_of_squares, &factor}, [&](Stream* stream) {
    gpu::clip_factor(stream, type_of(factor), sum_of_squares.data(), most, factor.data());
  });
}

void GpuDevice::scale_by(Tensor& x, const Tensor& factor) {
  on_stream({&x, &factor},
            [&](Stream* stream) { gpu::scale_by(stream, type_of(x), x.data(), factor.data(), x.count()); });
}

void GpuDevice::find_nonfinite(const Tensor& x, Tensor& flag) {
  on_stream({&x, &flag}, [&](Stream* stream) {
    gpu::find_nonfinite(stream, type_of(x), x.data(), x.count(), flag.data());
  });
}

void GpuDevice::row_max(const Tensor& logits, std::int64_t columns, Tensor& maxima) {
  on_stream({&logits, &maxima}, [&](Stream* stream) {
    gpu::row_max(stream, type_of(logits), logits.data(), columns, maxima.data(), rows_of(logits),
                 columns_of(logits));
  });
}

void GpuDevice::argmax(const Tensor& x, Tensor& columns) {
  on_stream({&x, &columns}, [&](Stream* stream) {
    gpu::argmax(stream, type_of(x), x.data(), ids_of(columns), rows_of(x), columns_of(x));
  });
}

void GpuDevice::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                            const TokenLoss& loss, Tensor& exps, Tensor& parts) {
  on_stream({&logits, &maxima, &targets, &exps, &parts}, [&](Stream* stream) {
    gpu::token_parts(stream, type_of(logits), logits.data(), maxima.data(), ids_of(targets), loss,
                     exps.data(), parts.data(), rows_of(logits), columns_of(logits));
  });
}

void GpuDevice::token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss, Tensor& out) {
  on_stream({&parts, &targets, &out}, [&](Stream* stream) {
    gpu::token_loss(stream, type_of(parts), parts.data(), ids_of(targets), loss, out.data(), out.count());
  });
}

void GpuDevice::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                    const TokenLoss& loss, const Tensor& grad, Tensor& out) {
  on_stream({&exps, &parts, &targets, &grad, &out}, [&](Stream* stream) {
    gpu::token_loss_backward(stream, type_of(out), exps.data(), parts.data(), ids_of(targets), loss,
                             grad.data(), out.data(), rows_of(out), columns_of(out));
  });
}

}  // namespace gpu
