// The kernels of CpuKernels for the pieces of a cross-entropy whose vocabulary is split over several ranks.

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/kernel_places.h"

namespace sim {

namespace {

/// Returns s / vocabulary.
Ratio smoothing_a_column(const TokenLoss& loss) {
  return {loss.smoothing.numerator, loss.smoothing.denominator * loss.vocabulary};
}
}  // namespace

void CpuKernels::row_max(const Tensor& logits, std::int64_t columns, const Tensor& maxima) const {
  const std::int64_t width = columns_of(logits);
  with_number(logits.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    vectorised([&] {
      for (std::int64_t t = 0; t < rows_of(logits); ++t) {
        const Scalar* from = elements<Scalar>(logits) + t * width;
        elements<Wide>(maxima)[t] =
            lane_max(number, columns, [&](std::int64_t v) { return number.load(from[v]); });
      }
    });
  });
}

void CpuKernels::token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                             const TokenLoss& loss, const Tensor& exps, const Tensor& parts) const {
  const std::int64_t width = columns_of(logits);
  const std::int64_t tokens = rows_of(logits);
  with_number(logits.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    Wide* predicted = elements<Wide>(parts);
    vectorised([&] {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const Scalar* from = elements<Scalar>(logits) + t * width;
        Wide* to = elements<Wide>(exps) + t * width;
        const Wide largest = elements<Wide>(maxima)[t];
        for (std::int64_t v = 0; v < loss.columns; ++v) to[v] = number.exp(number.load(from[v]) - largest);
        for (std::int64_t v = loss.columns; v < width; ++v) to[v] = Wide{};
        const std::int64_t target = column_of(elements<std::int32_t>(targets)[t], loss);
        predicted[t] = target < 0 ? Wide{} : number.load(from[target]) - largest;
        predicted[tokens + t] = lane_sum<Wide>(loss.columns, [&](std::int64_t v) { return to[v]; });
        if (loss.smoothing.numerator == 0) continue;
        predicted[2 * tokens + t] =
            lane_sum<Wide>(loss.columns, [&](std::int64_t v) { return number.load(from[v]) - largest; });
      }
    });
  });
}

void CpuKernels::token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss,
                            const Tensor& out) const {
  const std::int64_t tokens = out.count();
  with_number(parts.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    const auto s = number.of(loss.smoothing);
    const auto sharp = number.of(one_less(loss.smoothing));
    const auto one_by_vocabulary = number.of({1, loss.vocabulary});
    const auto part = [&](std::int64_t row, std::int64_t t) {
      return number.load(elements<Scalar>(parts)[row * tokens + t]);
    };
    for (std::int64_t t = 0; t < tokens; ++t) {
      Scalar& of_token = elements<Scalar>(out)[t];
      of_token = Scalar{};
      if (elements<std::int32_t>(targets)[t] == loss.ignored_id) continue;
      const auto log_sum = number.log(part(1, t));
      const auto of_target = log_sum - part(0, t);
      of_token = number.store(of_target);
      if (loss.smoothing.numerator == 0) continue;
      of_token = number.store(sharp * of_target + s * (log_sum - part(2, t) * one_by_vocabulary));
    }
  });
}

void CpuKernels::token_loss_backward(const Tensor& exps, const Tensor& parts, const Tensor& targets,
                                     const TokenLoss& loss, const Tensor& grad, const Tensor& out) const {
  const std::int64_t width = columns_of(out);
  const std::int64_t tokens = rows_of(out);
  with_number(out.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide sharp = number.of(one_less(loss.smoothing));
    const Wide smooth = number.of(smoothing_a_column(loss));
    const Wide* sums = elements<Wide>(parts) + tokens;
    vectorised([&] {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const Wide* from = elements<Wide>(exps) + t * width;
        Scalar* to = elements<Scalar>(out) + t * width;
        const std::int32_t target = elements<std::int32_t>(targets)[t];
        const std::int64_t seen = target == loss.ignored_id ? 0 : loss.columns;
        for (std::int64_t v = seen; v < width; ++v) to[v] = Scalar{};
        if (seen == 0) continue;
        const Wide upstream = elements<Wide>(grad)[t];
        const Wide inverse = number.of({1, 1}) / sums[t];
        for (std::int64_t v = 0; v < seen; ++v) to[v] = number.store((from[v] * inverse - smooth) * upstream);
        const std::int64_t column = column_of(target, loss);
        if (column >= 0) to[column] = number.store((from[column] * inverse - smooth - sharp) * upstream);
      }
    });
  });
}

}  // namespace sim
