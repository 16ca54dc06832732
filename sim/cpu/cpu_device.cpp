#include "sim/cpu/cpu_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "sim/base/check.h"
#include "sim/base/copy_bytes.h"
#include "sim/base/kernel_options.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/cpu/streamed_copy.h"
#include "sim/tensor/kernel_functions.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

namespace {

/// The size of the running value of a fold in bytes. It stays in the first-level cache while the inputs
/// stream past.
constexpr std::int64_t kFoldBytes = 16384;

/// Copies of one input that write at least so many bytes would only drive other values out of the caches.
constexpr std::int64_t kStreamedBytes = std::int64_t{1} << 22;

/// The factor 1 of a fold.
struct Unscaled {
  template <typename Scalar>
  Scalar operator()(const Scalar& value) const {
    return value;
  }
};

template <ReduceOp op, typename Scalar, typename Factor>
void fold_in(Scalar* __restrict running, const Scalar* __restrict a, std::int64_t count,
             const Factor& factor) {
  for (std::int64_t i = 0; i < count; ++i) running[i] = combined<op>(factor(a[i]), running[i]);
}

/// Folds in four inputs, one after another, in one pass, so the running value is read and written once.
template <ReduceOp op, typename Scalar, typename Factor>
void fold_in(Scalar* __restrict running, const Scalar* __restrict a, const Scalar* __restrict b,
             const Scalar* __restrict c, const Scalar* __restrict d, std::int64_t count,
             const Factor& factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    running[i] = combined<op>(
        factor(d[i]),
        combined<op>(factor(c[i]), combined<op>(factor(b[i]), combined<op>(factor(a[i]), running[i]))));
  }
}

/// Copies one block of one input to every output. With `streams` it leaves the caches to the input.
template <typename Scalar>
void copy_block(const Tensor& input, const FoldSegment& block, bool streams, TensorList outputs) {
  const auto* from = reinterpret_cast<const std::byte*>(elements<Scalar>(input) + block.begin + block.shift);
  const std::int64_t bytes = (block.end - block.begin) * static_cast<std::int64_t>(sizeof(Scalar));
  for (const Tensor* output : outputs) {
    auto* to = reinterpret_cast<std::byte*>(elements<Scalar>(*output) + block.begin);
    if (streams) {
      streamed_copy(from, to, bytes);
    } else {
      copy_bytes(from, to, static_cast<std::size_t>(bytes));
    }
  }
}

/// What a fold does to values beside combining them.
template <typename Scalar, typename Factor>
struct FoldScaling {
  Factor factor;                   // of each input
  const Scaling<Scalar>* average;  // of the result; null if it is no average
};

/// Folds one block of one segment: all inputs in their order into `running`, which is then copied to
/// every output. Small blocks spend much of their time on finding their elements, so that is inline.
template <ReduceOp op, typename Scalar, typename Factor>
[[gnu::flatten]] void fold_block(TensorList inputs, const FoldSegment& block,
                                 const FoldScaling<Scalar, Factor>& scaling, TensorList outputs) {
  alignas(64) std::array<Scalar, kFoldBytes / sizeof(Scalar)> running;
  const std::int64_t count = block.end - block.begin;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(Scalar);
  const auto members = static_cast<std::int64_t>(inputs.size());
  const auto values = [&](std::int64_t member) {
    return elements<Scalar>(*inputs[static_cast<std::size_t>(member % members)]) + block.begin + block.shift;
  };
  const Factor& factor = scaling.factor;
  if constexpr (std::is_same_v<Factor, Unscaled>) {
    std::memcpy(running.data(), values(block.first), bytes);
  } else {
    std::transform(values(block.first), values(block.first) + count, running.data(), factor);
  }
  std::int64_t next = 1;
  for (; next + 4 <= members; next += 4) {
    const std::int64_t m = block.first + next;
    fold_in<op>(running.data(), values(m), values(m + 1), values(m + 2), values(m + 3), count, factor);
  }
  for (; next < members; ++next) fold_in<op>(running.data(), values(block.first + next), count, factor);
  if (scaling.average != nullptr) {
    for (std::int64_t i = 0; i < count; ++i)
      running[static_cast<std::size_t>(i)] = (*scaling.average)(running[static_cast<std::size_t>(i)]);
  }
  for (const Tensor* output : outputs)
    std::memcpy(elements<Scalar>(*output) + block.begin, running.data(), bytes);
}

template <ReduceOp op, typename Scalar, typename Factor>
void fold_segments(TensorList inputs, std::span<const FoldSegment> segments,
                   const FoldScaling<Scalar, Factor>& scaling, TensorList outputs) {
  constexpr auto kBlock = static_cast<std::int64_t>(kFoldBytes / sizeof(Scalar));
  const bool is_copy = inputs.size() == 1 && std::is_same_v<Factor, Unscaled> && scaling.average == nullptr;
  for (const FoldSegment& segment : segments) {
    const bool streams =
        (segment.end - segment.begin) * static_cast<std::int64_t>(sizeof(Scalar)) * std::ssize(outputs) >=
        kStreamedBytes;
    for (std::int64_t begin = segment.begin; begin < segment.end; begin += kBlock) {
      const FoldSegment block{begin, std::min(begin + kBlock, segment.end), segment.first, segment.shift};
      if (is_copy) {
        copy_block<Scalar>(*inputs.front(), block, streams, outputs);
      } else {
        fold_block<op>(inputs, block, scaling, outputs);
      }
    }
  }
}

template <typename To, typename From>
To converted(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<To, Field> && std::is_same_v<From, std::int32_t>)
    return Field::of(value);
  else if constexpr (std::is_same_v<To, Field> || std::is_same_v<From, Field>)
    return To{};  // never reached: ops.h refuses such a cast
  else
    return rounded_to<To>(value);
}

}  // namespace

CpuDevice::CpuDevice(std::uint64_t field_seed)
    : pool_(std::make_shared<MemoryPool>()), kernels_(std::make_shared<CpuKernels>(field_seed)) {}

void CpuDevice::set_field_seed(std::uint64_t field_seed, FieldFunctions functions) {
  if (!kernels_->has_field(field_seed, functions))
    kernels_ = std::make_shared<CpuKernels>(field_seed, functions);
}

const FieldTower& CpuDevice::tower() const { return kernels_->tower(); }

std::shared_ptr<Device> CpuDevice::for_rank(int rank) {
  return std::shared_ptr<Device>(new CpuDevice(*this, rank));
}

const FieldTower& CpuKernels::tower() const {
  std::call_once(built_, [&] { tower_ = std::make_unique<FieldTower>(seed_, functions_); });
  return *tower_;
}

void CpuDevice::run(const KernelCall& call) { run_kernel(*kernels_, call); }

Tensor CpuDevice::empty(DType dtype, const Shape& shape) {
  Tensor made(
      *this, dtype, shape,
      std::make_shared<Storage>(pool_, lane_, shape.count() * size_of(dtype), weak_from_this().lock()));
  if (dtype == DType::field) kernels_->poison(made);
  return made;
}

void CpuDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  SIM_CHECK(static_cast<std::int64_t>(values.size()) == to.bytes());
  copy_bytes(values.data(), to.data(), values.size());
}

void CpuDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  SIM_CHECK(static_cast<std::int64_t>(values.size()) == from.bytes());
  copy_bytes(from.data(), values.data(), values.size());
}

void CpuKernels::poison(const Tensor& out) const {
  if (out.count() > 0) std::memset(out.data(), 0xff, static_cast<std::size_t>(out.bytes()));
}

void CpuKernels::fill(const Tensor& out, double value) const {
  if (value == 0 && !std::signbit(value)) {  // the bytes of +0 are all 0 in every dtype
    if (out.count() > 0) std::memset(out.data(), 0, static_cast<std::size_t>(out.bytes()));
    return;
  }
  with_scalar(out.dtype(), [&]<typename Scalar>(Scalar) {
    Scalar* first = elements<Scalar>(out);
    if constexpr (std::is_same_v<Scalar, Field>) {
      std::fill(first, first + out.count(), Field::of(static_cast<std::int64_t>(value)));
    } else {
      std::fill(first, first + out.count(), converted<Scalar>(value));
    }
  });
}

void CpuKernels::copy(const Tensor& from, const Tensor& to) const {
  copy_bytes(from.data(), to.data(), static_cast<std::size_t>(to.bytes()));
}

void CpuKernels::combine(ReduceOp op, const Tensor& a, const Tensor& b, const Tensor& out) const {
  with_scalar(out.dtype(), [&]<typename Scalar>(Scalar) {
    with_reduce_op(op, [&](auto constant) {
      const Scalar* x = elements<Scalar>(a);
      const Scalar* y = elements<Scalar>(b);
      Scalar* z = elements<Scalar>(out);
      for (std::int64_t i = 0; i < out.count(); ++i) z[i] = combined<constant.value>(x[i], y[i]);
    });
  });
}

void CpuKernels::scale(const Tensor& a, Ratio ratio, const Tensor& out) const {
  with_scalar(out.dtype(), [&]<typename Scalar>(Scalar) {
    const Scaling<Scalar> scaling(ratio);
    std::transform(elements<Scalar>(a), elements<Scalar>(a) + a.count(), elements<Scalar>(out), scaling);
  });
}

void CpuKernels::compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& mask) const {
  with_scalar(a.dtype(), [&]<typename Scalar>(Scalar) {
    const Scalar* x = elements<Scalar>(a);
    const Scalar* y = elements<Scalar>(b);
    auto* to = elements<std::int32_t>(mask);
    for (std::int64_t i = 0; i < mask.count(); ++i) to[i] = holds(comparison, x[i], y[i]) ? 1 : 0;
  });
}

void CpuKernels::select(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& out) const {
  const auto* chosen = elements<std::int32_t>(mask);
  with_scalar(out.dtype(), [&]<typename Scalar>(Scalar) {
    const Scalar* x = elements<Scalar>(a);
    const Scalar* y = elements<Scalar>(b);
    Scalar* to = elements<Scalar>(out);
    for (std::int64_t i = 0; i < out.count(); ++i) to[i] = chosen[i] != 0 ? x[i] : y[i];
  });
}

void CpuKernels::cast(const Tensor& from, const Tensor& to) const {
  with_scalar(from.dtype(), [&]<typename From>(From) {
    with_scalar(to.dtype(), [&]<typename To>(To) {
      std::transform(elements<From>(from), elements<From>(from) + from.count(), elements<To>(to),
                     [](const From& value) { return converted<To>(value); });
    });
  });
}

void CpuKernels::fold(const KernelCall& call) const {
  const TensorList inputs = call.inputs;
  const auto& [reduction, segments] = std::get<FoldParameters>(call.parameters);
  SIM_CHECK(!inputs.empty());
  with_any_scalar(inputs.front()->dtype(), [&]<typename Scalar>(Scalar) {
    std::optional<Scaling<Scalar>> average;  // only for an average: in the field its quotient builds a table
    if (reduction.op == ReduceOp::average)
      average.emplace(Ratio{1, static_cast<std::int64_t>(inputs.size())});
    const Scaling<Scalar>* const of_result = average ? &*average : nullptr;
    with_reduce_op(reduction.op, [&](auto op) {
      if (reduction.factor == Ratio{}) {
        fold_segments<op.value>(inputs, segments, FoldScaling<Scalar, Unscaled>{{}, of_result}, call.outputs);
      } else {
        const Scaling<Scalar> factor(reduction.factor);
        fold_segments<op.value>(inputs, segments, FoldScaling<Scalar, Scaling<Scalar>>{factor, of_result},
                                call.outputs);
      }
    });
  });
}

}  // namespace sim
