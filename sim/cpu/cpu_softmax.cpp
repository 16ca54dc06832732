// The kernels of CpuKernels for the softmax of attention: of whole rows, and of rows whose keys lie on several
// ranks.

#include <algorithm>
#include <type_traits>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/kernel_places.h"

namespace sim {

namespace {

/// Rows of scores, [.., queries, columns], and which columns the query of a row sees.
struct ScoreRows {
  std::int64_t columns;
  std::int64_t queries;
  SeenKeys keys;

  ScoreRows(const Tensor& x, SeenKeys seen_keys)
      : columns(columns_of(x)), queries(x.shape()[x.shape().dimensions() - 2]), keys(seen_keys) {}
  ColumnRange seen(std::int64_t row) const { return seen_columns(row, keys, queries, columns); }
};

/// Returns what is subtracted from the scores of a row.
template <typename Number, typename Score>
typename Number::Wide shift_of(const Number& number, ColumnRange seen, const Score& score) {
  if constexpr (std::is_same_v<typename Number::Wide, Field>) return Field();
  return lane_max(number, seen.end - seen.first, [&](std::int64_t i) { return score(seen.first + i); });
}

/// The shift of a row, and the sum of exp(score - shift).
template <typename Wide>
struct RowStats {
  Wide shift;
  Wide sum;
};

/// Computes exp(score - shift) of the columns of a row that are seen, and 0 before them.
template <typename Number, typename Scalar, typename Wide>
RowStats<Wide> exps_of(const Number& number, const Scalar* from, const Wide& factor, ColumnRange seen,
                       Wide* exps) {
  const Wide shift = shift_of(number, seen, [&](std::int64_t j) { return number.load(from[j]) * factor; });
  std::fill(exps, exps + seen.first, Wide{});
  for (std::int64_t j = seen.first; j < seen.end; ++j)
    exps[j] = number.exp(number.load(from[j]) * factor - shift);
  return {shift, lane_sum<Wide>(seen.end, [&](std::int64_t j) { return exps[j]; })};
}

}  // namespace

void CpuKernels::softmax(const Tensor& x, const SoftmaxParameters& scores, const Tensor& out) const {
  const ScoreRows rows(x, scores.keys);
  const std::int64_t columns = rows.columns;
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide factor = number.rsqrt(number.of({scores.divisor, 1}));
    std::vector<Wide> exps(static_cast<std::size_t>(columns));
    vectorised([&] {
      for (std::int64_t t = 0; t < rows_of(x); ++t) {
        const Scalar* from = elements<Scalar>(x) + t * columns;
        Scalar* to = elements<Scalar>(out) + t * columns;
        Wide* e = exps.data();
        const ColumnRange seen = rows.seen(t);
        const Wide inverse = number.of({1, 1}) / exps_of(number, from, factor, seen, e).sum;
        std::fill(to, to + seen.first, Scalar{});
        for (std::int64_t j = seen.first; j < seen.end; ++j) to[j] = number.store(e[j] * inverse);
        std::fill(to + seen.end, to + columns, Scalar{});
      }
    });
  });
}

void CpuKernels::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor,
                                  const Tensor& out) const {
  const std::int64_t columns = columns_of(p);
  with_number(p.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide factor = number.rsqrt(number.of({divisor, 1}));
    vectorised([&] {
      for (std::int64_t t = 0; t < rows_of(p); ++t) {
        const Scalar* probability = elements<Scalar>(p) + t * columns;
        const Scalar* upstream = elements<Scalar>(grad) + t * columns;
        Scalar* to = elements<Scalar>(out) + t * columns;
        const Wide mean = lane_sum<Wide>(
            columns, [&](std::int64_t j) { return number.load(probability[j]) * number.load(upstream[j]); });
        for (std::int64_t j = 0; j < columns; ++j) {
          to[j] = number.store(number.load(probability[j]) * (number.load(upstream[j]) - mean) * factor);
        }
      }
    });
  });
}

void CpuKernels::partial_softmax(const Tensor& x, const SoftmaxParameters& scores, const Tensor& exps,
                                 const Tensor& stats) const {
  const ScoreRows rows(x, scores.keys);
  const std::int64_t columns = rows.columns, count = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide factor = number.rsqrt(number.of({scores.divisor, 1}));
    std::vector<Wide> exps_of_row(static_cast<std::size_t>(columns));
    vectorised([&] {
      for (std::int64_t t = 0; t < count; ++t) {
        const Scalar* from = elements<Scalar>(x) + t * columns;
        Scalar* to = elements<Scalar>(exps) + t * columns;
        Wide* e = exps_of_row.data();
        const ColumnRange seen = rows.seen(t);
        const RowStats<Wide> of_row = exps_of(number, from, factor, seen, e);
        for (std::int64_t j = 0; j < seen.end; ++j) to[j] = number.store(e[j]);
        std::fill(to + seen.end, to + columns, Scalar{});
        elements<Wide>(stats)[t] = of_row.shift;
        elements<Wide>(stats)[count + t] = of_row.sum;
      }
    });
  });
}

void CpuKernels::merge_softmax(const Tensor& part, const Tensor& part_stats, const Tensor& out,
                               const Tensor& stats) const {
  const std::int64_t columns = columns_of(out), rows = rows_of(out);
  with_computing_scalar(out.dtype(), [&](auto scalar) {
    using Wide = typename Arithmetic<decltype(scalar)>::Wide;  // the tensors are sum tensors
    const auto number = arithmetic<Wide>();
    const Wide* own_stats = elements<Wide>(part_stats);
    Wide* all_stats = elements<Wide>(stats);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) {
        const Wide own = own_stats[t], before = all_stats[t];
        const Wide shift = number.larger(own, before);
        const auto weight_of = [&](const Wide& from) -> Wide {
          return from == shift ? number.of({1, 1}) : number.exp(from - shift);
        };
        const Wide weight_own = weight_of(own), weight_before = weight_of(before);
        const Wide* from = elements<Wide>(part) + t * columns;
        Wide* to = elements<Wide>(out) + t * columns;
        for (std::int64_t f = 0; f < columns; ++f)
          to[f] = number.fma(from[f], weight_own, to[f] * weight_before);
        all_stats[t] = shift;
        all_stats[rows + t] =
            number.fma(own_stats[rows + t], weight_own, all_stats[rows + t] * weight_before);
      }
    });
  });
}

void CpuKernels::finish_softmax(const Tensor& sums, const Tensor& stats, const Tensor& out) const {
  const std::int64_t columns = columns_of(out), rows = rows_of(out);
  with_number(out.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) {
        const Wide inverse = number.of({1, 1}) / elements<Wide>(stats)[rows + t];
        const Wide* from = elements<Wide>(sums) + t * columns;
        Scalar* to = elements<Scalar>(out) + t * columns;
        for (std::int64_t f = 0; f < columns; ++f) to[f] = number.store(from[f] * inverse);
      }
    });
  });
}

void CpuKernels::partial_softmax_backward(const Tensor& x, const SoftmaxParameters& scores,
                                          const Tensor& stats, const Tensor& grad, const Tensor& means,
                                          const Tensor& p, const Tensor& grad_x) const {
  const ScoreRows rows(x, scores.keys);
  const std::int64_t columns = rows.columns, count = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide factor = number.rsqrt(number.of({scores.divisor, 1}));
    vectorised([&] {
      for (std::int64_t t = 0; t < count; ++t) {
        const Scalar* from = elements<Scalar>(x) + t * columns;
        const Scalar* upstream = elements<Scalar>(grad) + t * columns;
        Scalar* probability = elements<Scalar>(p) + t * columns;
        Scalar* to = elements<Scalar>(grad_x) + t * columns;
        const Wide shift = elements<Wide>(stats)[t], mean = elements<Wide>(means)[t];
        const Wide inverse = number.of({1, 1}) / elements<Wide>(stats)[count + t];
        const ColumnRange seen = rows.seen(t);
        std::fill(probability, probability + columns, Scalar{});
        std::fill(to, to + columns, Scalar{});
        for (std::int64_t j = seen.first; j < seen.end; ++j) {
          const Wide own = number.exp(number.load(from[j]) * factor - shift) * inverse;
          const Wide slope = own * (number.load(upstream[j]) - mean) * factor;
          probability[j] = number.store(own);
          to[j] = number.store(slope);
        }
      }
    });
  });
}

}  // namespace sim
