#include "tests/gpu/played/played_fold.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sim/base/bfloat16.h"
#include "sim/base/check.h"

namespace test {

namespace {

using gpu::NcclOperation;
using gpu::NcclRequest;
using sim::DType;
using sim::ReduceOp;

/// Returns the place whose element comes first in the sum of an all_reduce.
std::int64_t first_place(std::int64_t i, std::int64_t count, std::int64_t n, std::int64_t size) {
  const std::int64_t chunk = (std::int64_t{2} << 20) / size;
  const std::int64_t begin = i / (n * chunk) * (n * chunk);
  const std::int64_t left = count - begin;
  std::int64_t of_place = chunk;
  if (left < n * chunk) {
    of_place = (left + n - 1) / n;
    while (of_place * size % 16 != 0) ++of_place;
  }
  return ((i - begin) / of_place + 1) % n;
}

template <typename Scalar>
auto widened(Scalar value) {
  if constexpr (std::is_same_v<Scalar, std::int32_t>) {
    return std::int64_t{value};
  } else if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
    return sim::to_float(value);
  } else {
    return value;
  }
}

template <typename Scalar, typename Wide>
Scalar narrowed(Wide value) {
  if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
    return sim::to_bfloat16(value);
  } else {
    return static_cast<Scalar>(value);
  }
}

template <typename Scalar>
Scalar joined(ReduceOp op, Scalar a, Scalar b) {
  const auto x = widened(a);
  const auto y = widened(b);
  if (op == ReduceOp::sum) return narrowed<Scalar>(x + y);
  if (op == ReduceOp::product) return narrowed<Scalar>(x * y);
  return op == ReduceOp::max ? (x < y ? b : a) : (y < x ? b : a);
}

template <typename Scalar>
void fold(const std::vector<const NcclRequest*>& members, int to, bool by_rank) {
  const NcclRequest& first = *members.front();
  const auto n = std::ssize(members);
  std::vector<Scalar> sums(static_cast<std::size_t>(first.count));
  for (std::int64_t i = 0; i < first.count; ++i) {
    std::int64_t place = (to + 1) % n;
    if (first.operation == NcclOperation::all_reduce) place = first_place(i, first.count, n, sizeof(Scalar));
    if (by_rank) place = 0;
    const std::int64_t at = first.operation == NcclOperation::reduce_scatter ? to * first.count + i : i;
    const auto value = [&](std::int64_t of) {
      Scalar x;
      std::memcpy(
          &x,
          members[static_cast<std::size_t>(of % n)]->from + at * static_cast<std::int64_t>(sizeof(Scalar)),
          sizeof x);
      return x;
    };
    Scalar sum = value(place);
    for (std::int64_t k = 1; k < n; ++k) sum = joined(first.reduce_op, sum, value(place + k));
    sums[static_cast<std::size_t>(i)] = sum;
  }
  std::memcpy(members[static_cast<std::size_t>(to)]->to, sums.data(), sums.size() * sizeof(Scalar));
}

}  // namespace

void play_fold(const std::vector<const NcclRequest*>& members, int to, bool by_rank) {
  switch (members.front()->dtype) {
    case DType::f64:
      return fold<double>(members, to, by_rank);
    case DType::f32:
      return fold<float>(members, to, by_rank);
    case DType::bf16:
      return fold<sim::bfloat16>(members, to, by_rank);
    case DType::i32:
      return fold<std::int32_t>(members, to, by_rank);
    default:
      break;
  }
  SIM_CHECK(false);
}

}  // namespace test
