// The kernels of CpuKernels for a step of the optimizer.

#include <cmath>
#include <type_traits>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"

namespace sim {

namespace {

/// Calls visit with a value of the scalar of a sum tensor (device.h). For bf16 it does nothing.
template <typename Visit>
void with_sum_scalar(DType dtype, Visit&& visit) {
  with_computing_scalar(dtype, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), bfloat16>) visit(scalar);
  });
}

/// Returns 1 - beta^step, which is computed in double for floats.
template <typename Scalar, typename Number>
Scalar correction_in(const Number& number, Ratio beta, std::int64_t step) {
  if constexpr (std::is_same_v<Scalar, Field>) {
    Field power = Field::of(1);
    for (std::int64_t i = 0; i < step; ++i) power = power * number.of(beta);
    return Field::of(1) - power;
  } else {
    return static_cast<Scalar>(correction(beta, step));
  }
}

/// What weight decay is added to.
enum class Decay { nothing, gradient, update };

/// Calls visit with the decay of a step as a constant, so that no loop has to choose.
template <typename Visit>
void with_decay(const AdamStep& step, Visit&& visit) {
  if (step.weight_decay.numerator == 0) return visit(std::integral_constant<Decay, Decay::nothing>());
  if (step.decoupled) return visit(std::integral_constant<Decay, Decay::update>());
  visit(std::integral_constant<Decay, Decay::gradient>());
}

/// The numbers of a step that are the same for all elements.
template <typename Scalar>
struct AdamNumbers {
  Scalar rate, beta1, rest1, beta2, rest2, c1, c2, epsilon, decay;
};

}  // namespace

void CpuKernels::adam(const Tensor& grad, const AdamStep& step, const Tensor& param, const Tensor& exp_avg,
                      const Tensor& exp_avg_sq) const {
  const std::int64_t count = grad.count();
  with_sum_scalar(grad.dtype(), [&]<typename Scalar>(Scalar) {
    const auto number = arithmetic<Scalar>();
    const AdamNumbers<Scalar> numbers = {
        .rate = number.of({-step.learning_rate.numerator, step.learning_rate.denominator}),
        .beta1 = number.of(step.beta1),
        .rest1 = number.of(one_less(step.beta1)),
        .beta2 = number.of(step.beta2),
        .rest2 = number.of(one_less(step.beta2)),
        .c1 = correction_in<Scalar>(number, step.beta1, step.step),
        .c2 = correction_in<Scalar>(number, step.beta2, step.step),
        .epsilon = number.of(step.epsilon),
        .decay = number.of(step.weight_decay)};
    const Scalar* g = elements<Scalar>(grad);
    Scalar* p = elements<Scalar>(param);
    Scalar* m = elements<Scalar>(exp_avg);
    Scalar* v = elements<Scalar>(exp_avg_sq);
    with_decay(step, [&](auto decay) {
      vectorised([&] {
        const AdamNumbers<Scalar> own = numbers;  // the compiler knows that no element below is one of these
        for (std::int64_t i = 0; i < count; ++i) {
          const Scalar old = p[i];
          const Scalar slope = decay.value == Decay::gradient ? number.fma(own.decay, old, g[i]) : g[i];
          const Scalar first = number.fma(own.beta1, m[i], own.rest1 * slope);
          const Scalar second = number.fma(own.beta2, v[i], own.rest2 * slope * slope);
          const Scalar step_alone = (first / own.c1) / (number.sqrt(second / own.c2) + own.epsilon);
          const Scalar update =
              decay.value == Decay::update ? number.fma(own.decay, old, step_alone) : step_alone;
          p[i] = number.fma(own.rate, update, old);
          m[i] = first;
          v[i] = second;
        }
      });
    });
  });
}

void CpuKernels::clip_factor(const Tensor& sum_of_squares, Ratio most, const Tensor& factor) const {
  with_sum_scalar(sum_of_squares.dtype(), [&]<typename Scalar>(Scalar) {
    const auto number = arithmetic<Scalar>();
    const Scalar norm = number.sqrt(*elements<Scalar>(sum_of_squares));
    *elements<Scalar>(factor) = number.clipped(number.of(most) / (norm + number.of({1, 1'000'000})));
  });
}

void CpuKernels::scale_by(const Tensor& factor, const Tensor& x) const {
  const std::int64_t count = x.count();
  with_sum_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    const Scalar by = *elements<Scalar>(factor);
    Scalar* to = elements<Scalar>(x);
    vectorised([&] {
      for (std::int64_t i = 0; i < count; ++i) to[i] = to[i] * by;
    });
  });
}

void CpuKernels::find_nonfinite(const Tensor& x, const Tensor& flag) const {
  with_sum_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    if constexpr (std::is_same_v<Scalar, Field>) {
      *elements<Scalar>(flag) = Field::of(0);
    } else {
      const Scalar* from = elements<Scalar>(x);
      bool all_finite = true;
      for (std::int64_t i = 0; i < x.count(); ++i) all_finite = all_finite && std::isfinite(from[i]);
      *elements<Scalar>(flag) = all_finite ? Scalar{0} : Scalar{1};
    }
  });
}

}  // namespace sim
