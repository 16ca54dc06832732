#pragma once

/// Kernels that work on whole rows, each with the sixteen lanes of launch.h.
///
/// Calls   A source file includes this header to define the kernels, once for each kind of launch:
///         gpu/cuda/rows.cu, gpu/on_host/rows.cpp.
/// Exact   Each function object is the body of the CPU device's loop over rows. Values that the CPU keeps for
///         a second pass are computed again here, with the same bits.

#include "gpu/device/chain.h"
#include "gpu/device/launch.h"
#include "sim/tensor/float_arithmetic.h"
#include "sim/tensor/kernel_places.h"

namespace gpu {

namespace {

template <typename Scalar>
using WideOf = typename sim::Arithmetic<Scalar>::Wide;

template <typename Scalar>
struct Softmax {
  using Wide = WideOf<Scalar>;
  const Scalar* x;
  Wide factor;
  SeenKeys keys;
  Scalar* out;
  Wide* stats;  // null: the rows are divided by their sums, which are not kept
  std::int64_t rows;
  std::int64_t queries;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* from = x + row * columns;
    Scalar* to = out + row * columns;
    const sim::ColumnRange seen = sim::seen_columns(row, keys, queries, columns);
    const auto score = [&](std::int64_t j) { return number.load(from[j]) * factor; };
    const Wide largest =
        lanes.max(number, seen.end - seen.first, [&](std::int64_t i) { return score(seen.first + i); });
    const auto e = [&](std::int64_t j) { return j < seen.first ? Wide{} : number.exp(score(j) - largest); };
    const Wide sum = lanes.template sum<Wide>(seen.end, e);
    if (stats == nullptr) {
      const Wide inverse = Wide{1} / sum;
      lanes.each(columns,
                 [&](std::int64_t j) { to[j] = seen.has(j) ? number.store(e(j) * inverse) : Scalar{}; });
      return;
    }
    lanes.each(columns, [&](std::int64_t j) { to[j] = seen.has(j) ? number.store(e(j)) : Scalar{}; });
    lanes.first([&] {
      stats[row] = largest;
      stats[rows + row] = sum;
    });
  }
};

template <typename Scalar>
struct SoftmaxBackward {
  using Wide = WideOf<Scalar>;
  const Scalar* p;
  const Scalar* grad;
  Wide factor;
  Scalar* out;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* probability = p + row * columns;
    const Scalar* upstream = grad + row * columns;
    Scalar* to = out + row * columns;
    const Wide mean = lanes.template sum<Wide>(
        columns, [&](std::int64_t j) { return number.load(probability[j]) * number.load(upstream[j]); });
    lanes.each(columns, [&](std::int64_t j) {
      to[j] = number.store(number.load(probability[j]) * (number.load(upstream[j]) - mean) * factor);
    });
  }
};

/// Merges rows of sum tensors, so Scalar computes with itself.
template <typename Scalar>
struct MergeSoftmax {
  const Scalar* part;
  const Scalar* part_stats;
  Scalar* out;
  Scalar* stats;
  std::int64_t rows;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar own = part_stats[row], before = stats[row];
    const Scalar shift = number.larger(own, before);
    const auto weight_of = [&](Scalar from) { return from == shift ? Scalar{1} : number.exp(from - shift); };
    const Scalar weight_own = weight_of(own), weight_before = weight_of(before);
    const Scalar sum = number.fma(part_stats[rows + row], weight_own, stats[rows + row] * weight_before);
    lanes.each(columns, [&](std::int64_t f) {
      const std::int64_t i = row * columns + f;
      out[i] = number.fma(part[i], weight_own, out[i] * weight_before);
    });
    lanes.first([&] {
      stats[row] = shift;
      stats[rows + row] = sum;
    });
  }
};

template <typename Scalar>
struct FinishSoftmax {
  using Wide = WideOf<Scalar>;
  const Wide* sums;
  const Wide* stats;
  Scalar* out;
  std::int64_t rows;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Wide inverse = Wide{1} / stats[rows + row];
    lanes.each(columns, [&](std::int64_t f) {
      out[row * columns + f] = number.store(sums[row * columns + f] * inverse);
    });
  }
};

template <typename Scalar>
struct PartialSoftmaxBackward {
  using Wide = WideOf<Scalar>;
  const Scalar* x;
  Wide factor;
  SeenKeys keys;
  const Wide* stats;
  const Scalar* grad;
  const Wide* means;
  Scalar* p;
  Scalar* grad_x;
  std::int64_t rows;
  std::int64_t queries;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const sim::ColumnRange seen = sim::seen_columns(row, keys, queries, columns);
    const std::int64_t first = row * columns;
    const Wide shift = stats[row], mean = means[row], inverse = Wide{1} / stats[rows + row];
    lanes.each(columns, [&](std::int64_t j) {
      if (!seen.has(j)) {
        p[first + j] = grad_x[first + j] = Scalar{};
        return;
      }
      const Wide own = number.exp(number.load(x[first + j]) * factor - shift) * inverse;
      const Wide slope = own * (number.load(grad[first + j]) - mean) * factor;
      p[first + j] = number.store(own);
      grad_x[first + j] = number.store(slope);
    });
  }
};

template <typename Scalar>
struct Normalize {
  using Wide = WideOf<Scalar>;
  Norm norm;
  const Scalar* x;
  const Scalar* weight;
  const Scalar* bias;
  Wide one_by_columns;
  Wide least_variance;
  Scalar* out;
  Wide* stats;
  std::int64_t rows;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* from = x + row * columns;
    Scalar* to = out + row * columns;
    Wide mean{};
    if (norm == Norm::layer_norm) {
      mean = lanes.template sum<Wide>(columns, [&](std::int64_t f) { return number.load(from[f]); }) *
             one_by_columns;
    }
    const Wide squares = lanes.template sum<Wide>(columns, [&](std::int64_t f) {
      const Wide difference = number.load(from[f]) - mean;
      return difference * difference;
    });
    const Wide variance = squares * one_by_columns;
    const Wide rstd = number.rsqrt(variance + least_variance);
    lanes.each(columns, [&](std::int64_t f) {
      const Wide scaled = (number.load(from[f]) - mean) * rstd * number.load(weight[f]);
      to[f] = number.store(bias == nullptr ? scaled : scaled + number.load(bias[f]));
    });
    lanes.first([&] {
      stats[row] = mean;
      stats[rows + row] = rstd;
    });
  }
};

template <typename Scalar>
struct NormalizeBackward {
  using Wide = WideOf<Scalar>;
  Norm norm;
  const Scalar* x;
  const Scalar* weight;
  const Wide* stats;
  const Scalar* grad;
  Wide one_by_columns;
  Scalar* grad_x;
  std::int64_t rows;
  std::int64_t columns;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* from = x + row * columns;
    const Scalar* upstream = grad + row * columns;
    Scalar* to = grad_x + row * columns;
    const Wide mean = stats[row];
    const Wide rstd = stats[rows + row];
    const auto normal = [&](std::int64_t f) { return (number.load(from[f]) - mean) * rstd; };
    const auto slope = [&](std::int64_t f) { return number.load(upstream[f]) * number.load(weight[f]); };
    Wide along_one{};
    if (norm == Norm::layer_norm) along_one = lanes.template sum<Wide>(columns, slope) * one_by_columns;
    const Wide along_normal = lanes.template sum<Wide>(columns, [&](std::int64_t f) {
      return slope(f) * normal(f);
    }) * one_by_columns;
    lanes.each(columns, [&](std::int64_t f) {
      to[f] = number.store((slope(f) - along_one - normal(f) * along_normal) * rstd);
    });
  }
};

/// Each call sums one column.
template <typename Scalar>
struct NormalizeBackwardSums {
  using Wide = WideOf<Scalar>;
  const Scalar* x;
  const Wide* stats;
  const Scalar* grad;
  Wide* grad_weight;
  Wide* grad_bias;
  std::int64_t rows;
  std::int64_t columns;

  SIM_HOST_DEVICE void operator()(std::int64_t f) const {
    const sim::Arithmetic<Scalar> number{};
    Wide weight_sum = grad_weight[f];
    Wide bias_sum = grad_bias == nullptr ? Wide{} : grad_bias[f];
    struct Term {
      Wide normal, upstream;
    };
    in_chain(
        rows,
        [&](std::int64_t t) {
          return Term{(number.load(x[t * columns + f]) - stats[t]) * stats[rows + t],
                      number.load(grad[t * columns + f])};
        },
        [&](const Term& term) {
          weight_sum = number.fma(term.upstream, term.normal, weight_sum);
          bias_sum = bias_sum + term.upstream;
        });
    grad_weight[f] = weight_sum;
    if (grad_bias != nullptr) grad_bias[f] = bias_sum;
  }
};

template <typename Scalar>
struct RowMax {
  using Wide = WideOf<Scalar>;
  const Scalar* logits;
  Wide* maxima;
  std::int64_t columns;
  std::int64_t width;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* from = logits + row * width;
    const Wide largest = lanes.max(number, columns, [&](std::int64_t v) { return number.load(from[v]); });
    lanes.first([&] { maxima[row] = largest; });
  }
};

/// The lowest column is found as the largest of the columns' negatives, in doubles, which hold every column.
template <typename Scalar>
struct Argmax {
  using Wide = WideOf<Scalar>;
  const Scalar* x;
  std::int32_t* columns;
  std::int64_t width;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const sim::Arithmetic<double> place{};
    const Scalar* from = x + row * width;
    const Wide largest = lanes.max(number, width, [&](std::int64_t f) { return number.load(from[f]); });
    const double lowest = -lanes.max(place, width, [&](std::int64_t f) {
      return number.load(from[f]) == largest ? -static_cast<double>(f) : place.least();
    });
    lanes.first(
        [&] { columns[row] = lowest < static_cast<double>(width) ? static_cast<std::int32_t>(lowest) : -1; });
  }
};

template <typename Scalar>
struct TokenParts {
  using Wide = WideOf<Scalar>;
  const Scalar* logits;
  const Wide* maxima;
  const std::int32_t* targets;
  TokenLoss loss;
  Wide* exps;
  Wide* parts;
  std::int64_t tokens;
  std::int64_t width;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t t, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar* from = logits + t * width;
    Wide* to = exps + t * width;
    const Wide largest = maxima[t];
    const auto shifted = [&](std::int64_t v) { return number.load(from[v]) - largest; };
    lanes.each(width, [&](std::int64_t v) { to[v] = v < loss.columns ? number.exp(shifted(v)) : Wide{}; });
    const Wide sum = lanes.template sum<Wide>(loss.columns, [&](std::int64_t v) { return to[v]; });
    Wide shifted_sum{};
    const bool smooths = loss.smoothing.numerator != 0;
    if (smooths) shifted_sum = lanes.template sum<Wide>(loss.columns, shifted);
    lanes.first([&] {
      const std::int64_t target = sim::column_of(targets[t], loss);
      parts[t] = target < 0 ? Wide{} : shifted(target);
      parts[tokens + t] = sum;
      if (smooths) parts[2 * tokens + t] = shifted_sum;
    });
  }
};

template <typename Scalar>
struct TokenLossBackward {
  using Wide = WideOf<Scalar>;
  const Wide* exps;
  const Wide* parts;
  const std::int32_t* targets;
  TokenLoss loss;
  Wide sharp, smooth;
  const Wide* grad;
  Scalar* out;
  std::int64_t tokens;
  std::int64_t width;

  template <typename Lanes>
  SIM_HOST_DEVICE void operator()(std::int64_t t, const Lanes& lanes) const {
    const sim::Arithmetic<Scalar> number{};
    const Wide* from = exps + t * width;
    Scalar* to = out + t * width;
    const std::int32_t target = targets[t];
    const std::int64_t seen = target == loss.ignored_id ? 0 : loss.columns;
    const std::int64_t column = sim::column_of(target, loss);
    const Wide upstream = grad[t];
    const Wide inverse = Wide{1} / parts[tokens + t];
    lanes.each(width, [&](std::int64_t v) {
      const Wide share = from[v] * inverse - smooth;
      const Wide slope = v == column ? share - sharp : share;
      to[v] = v < seen ? number.store(slope * upstream) : Scalar{};
    });
  }
};

std::int64_t queries_of(const Tensor& x) { return x.shape()[x.shape().dimensions() - 2]; }

}  // namespace

void GpuKernels::softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& out) const {
  partial_softmax(x, scores, out, Tensor());
}

void GpuKernels::partial_softmax(const Tensor& x, const sim::SoftmaxParameters& scores, const Tensor& exps,
                                 const Tensor& stats) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    launch_rows(stream_, rows_of(x),
                Softmax<Scalar>{as<Scalar>(x), number.rsqrt(number.of({scores.divisor, 1})), scores.keys,
                                as<Scalar>(exps), as<WideOf<Scalar>>(stats), rows_of(x), queries_of(x),
                                columns_of(x)});
  });
}

void GpuKernels::merge_softmax(const Tensor& part, const Tensor& part_stats, const Tensor& out,
                               const Tensor& stats) const {
  with_computing(out.dtype(), [&](auto scalar) {
    using Wide = WideOf<decltype(scalar)>;
    launch_rows(stream_, rows_of(out),
                MergeSoftmax<Wide>{as<Wide>(part), as<Wide>(part_stats), as<Wide>(out), as<Wide>(stats),
                                   rows_of(out), columns_of(out)});
  });
}

void GpuKernels::finish_softmax(const Tensor& sums, const Tensor& stats, const Tensor& out) const {
  with_computing(out.dtype(), [&]<typename Scalar>(Scalar) {
    using Wide = WideOf<Scalar>;
    launch_rows(stream_, rows_of(out),
                FinishSoftmax<Scalar>{as<Wide>(sums), as<Wide>(stats), as<Scalar>(out), rows_of(out),
                                      columns_of(out)});
  });
}

void GpuKernels::partial_softmax_backward(const Tensor& x, const sim::SoftmaxParameters& scores,
                                          const Tensor& stats, const Tensor& grad, const Tensor& means,
                                          const Tensor& p, const Tensor& grad_x) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    using Wide = WideOf<Scalar>;
    const sim::Arithmetic<Scalar> number{};
    launch_rows(stream_, rows_of(x),
                PartialSoftmaxBackward<Scalar>{as<Scalar>(x), number.rsqrt(number.of({scores.divisor, 1})),
                                               scores.keys, as<Wide>(stats), as<Scalar>(grad),
                                               as<Wide>(means), as<Scalar>(p), as<Scalar>(grad_x), rows_of(x),
                                               queries_of(x), columns_of(x)});
  });
}

void GpuKernels::softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor,
                                  const Tensor& out) const {
  with_computing(p.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    launch_rows(
        stream_, rows_of(p),
        SoftmaxBackward<Scalar>{as<Scalar>(p), as<Scalar>(grad), number.rsqrt(number.of({divisor, 1})),
                                as<Scalar>(out), columns_of(p)});
  });
}

void GpuKernels::normalize(const sim::NormParameters& form, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const Tensor& out, const Tensor& stats) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    launch_rows(stream_, rows_of(x),
                Normalize<Scalar>{form.norm, as<Scalar>(x), as<Scalar>(weight), as<Scalar>(bias),
                                  number.of({1, columns_of(x)}), number.of(form.epsilon), as<Scalar>(out),
                                  as<WideOf<Scalar>>(stats), rows_of(x), columns_of(x)});
  });
}

void GpuKernels::normalize_backward(const sim::NormParameters& form, const Tensor& x, const Tensor& weight,
                                    const Tensor& stats, const Tensor& grad, const Tensor& grad_x,
                                    const Tensor& grad_weight, const Tensor& grad_bias) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    using Wide = WideOf<Scalar>;
    const sim::Arithmetic<Scalar> number{};
    // The sums come first, because grad_x may lie at the same place as grad or x.
    launch_elements(
        stream_, columns_of(x),
        NormalizeBackwardSums<Scalar>{as<Scalar>(x), as<Wide>(stats), as<Scalar>(grad), as<Wide>(grad_weight),
                                      as<Wide>(grad_bias), rows_of(x), columns_of(x)});
    launch_rows(stream_, rows_of(x),
                NormalizeBackward<Scalar>{form.norm, as<Scalar>(x), as<Scalar>(weight), as<Wide>(stats),
                                          as<Scalar>(grad), number.of({1, columns_of(x)}), as<Scalar>(grad_x),
                                          rows_of(x), columns_of(x)});
  });
}

void GpuKernels::row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const {
  with_computing(logits.dtype(), [&]<typename Scalar>(Scalar) {
    launch_rows(stream_, rows_of(logits),
                RowMax<Scalar>{as<Scalar>(logits), as<WideOf<Scalar>>(maxima), columns, columns_of(logits)});
  });
}

void GpuKernels::argmax(const Tensor& x, const Tensor& columns) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_rows(stream_, rows_of(x), Argmax<Scalar>{as<Scalar>(x), as<std::int32_t>(columns), columns_of(x)});
  });
}

void GpuKernels::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                             const TokenLoss& loss, const Tensor& exps, const Tensor& parts) const {
  with_computing(logits.dtype(), [&]<typename Scalar>(Scalar) {
    using Wide = WideOf<Scalar>;
    launch_rows(stream_, rows_of(logits),
                TokenParts<Scalar>{as<Scalar>(logits), as<Wide>(maxima), as<std::int32_t>(targets), loss,
                                   as<Wide>(exps), as<Wide>(parts), rows_of(logits), columns_of(logits)});
  });
}

void GpuKernels::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                     const TokenLoss& loss, const Tensor& grad, const Tensor& out) const {
  with_computing(out.dtype(), [&]<typename Scalar>(Scalar) {
    using Wide = WideOf<Scalar>;
    const sim::Arithmetic<Scalar> number{};
    const Ratio& smoothing = loss.smoothing;
    launch_rows(
        stream_, rows_of(out),
        TokenLossBackward<Scalar>{as<Wide>(exps), as<Wide>(parts), as<std::int32_t>(targets), loss,
                                  number.of(sim::one_less(smoothing)),
                                  number.of({smoothing.numerator, smoothing.denominator * loss.vocabulary}),
                                  as<Wide>(grad), as<Scalar>(out), rows_of(out), columns_of(out)});
  });
}

}  // namespace gpu
