// The kernels of CpuKernels that apply functions to single elements and to rows.

#include <algorithm>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/function_loops.h"

namespace sim {

void CpuKernels::activate(Activation function, const Tensor& x, const Tensor& out) const {
  const std::int64_t count = x.count();
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    with_activation(function, [&](auto constant) {
      const auto number = arithmetic<Scalar>();
      const Scalar* from = elements<Scalar>(x);
      Scalar* to = elements<Scalar>(out);
      vectorised([&] {
        for (std::int64_t i = 0; i < count; ++i) {
          to[i] = number.store(number.template activation<constant.value>(number.load(from[i])));
        }
      });
    });
  });
}

void CpuKernels::activate_backward(Activation function, const Tensor& x, const Tensor& grad,
                                   const Tensor& out) const {
  const std::int64_t count = x.count();
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    with_activation(function, [&](auto constant) {
      const auto number = arithmetic<Scalar>();
      const Scalar* from = elements<Scalar>(x);
      const Scalar* upstream = elements<Scalar>(grad);
      Scalar* to = elements<Scalar>(out);
      vectorised([&] {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto slope = number.template derivative<constant.value>(number.load(from[i]));
          to[i] = number.store(number.load(upstream[i]) * slope);
        }
      });
    });
  });
}

void CpuKernels::apply(const ElementFunction* function, const Tensor& x, const Tensor& out) const {
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    const Scalar* from = elements<Scalar>(x);
    Scalar* to = elements<Scalar>(out);
    if constexpr (std::is_same_v<Scalar, Field>) {
      const FieldTower& functions = tower();
      for (std::int64_t i = 0; i < x.count(); ++i) to[i] = functions.keyed(function->name, from[i]);
    } else {
      apply_to_floats(*function, from, to, x.count());
    }
  });
}

void CpuKernels::apply_backward(const ElementFunction* function, const Tensor& x, const Tensor& grad,
                                const Tensor& out) const {
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    const Scalar* from = elements<Scalar>(x);
    const Scalar* upstream = elements<Scalar>(grad);
    Scalar* to = elements<Scalar>(out);
    if constexpr (std::is_same_v<Scalar, Field>) {
      const FieldTower& functions = tower();
      const std::string name = function->name_of_derivative();
      for (std::int64_t i = 0; i < x.count(); ++i) to[i] = upstream[i] * functions.keyed(name, from[i]);
    } else {
      apply_backward_to_floats(*function, from, upstream, to, x.count());
    }
  });
}

void CpuKernels::argmax(const Tensor& x, const Tensor& columns) const {
  const std::int64_t width = columns_of(x);
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    const auto is_number = [](const Scalar& value) {
      return std::is_same_v<Scalar, Field> || holds(Comparison::equal, value, value);
    };
    for (std::int64_t t = 0; t < rows_of(x); ++t) {
      const Scalar* row = elements<Scalar>(x) + t * width;
      std::int64_t largest = -1;
      for (std::int64_t f = 0; f < width; ++f) {
        if (!is_number(row[f])) continue;
        if (largest < 0 || holds(Comparison::greater, row[f], row[largest])) largest = f;
      }
      elements<std::int32_t>(columns)[t] = static_cast<std::int32_t>(largest);
    }
  });
}

void CpuKernels::dropout(const Tensor& x, const DropoutParameters& random, const Tensor& out) const {
  const double threshold = quotient_of<double>(random.drop);
  with_computing_scalar(x.dtype(), [&]<typename Scalar>(Scalar) {
    const Scaling<Scalar> scaling({random.drop.denominator, random.drop.denominator - random.drop.numerator});
    const Scaling<Scalar> dropped({0, 1});
    const Scalar* from = elements<Scalar>(x);
    Scalar* to = elements<Scalar>(out);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const bool kept = random.stream.uniform(static_cast<std::uint64_t>(i)) >= threshold;
      to[i] = kept ? scaling(from[i]) : dropped(from[i]);
    }
  });
}

void CpuKernels::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                        const Tensor& out) const {
  const std::int64_t columns = columns_of(x);
  const std::int64_t pairs = columns / 2;
  const std::int64_t rows_a_position = x.shape()[1] * x.shape()[2];
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    const Scalar* from = elements<Scalar>(x);
    const Scalar* cosine = elements<Scalar>(cosines);
    const Scalar* sine = elements<Scalar>(sines);
    Scalar* to = elements<Scalar>(out);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows_of(x); ++t) {
        const std::int64_t position = t / rows_a_position;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto a = number.load(from[t * columns + i]);
          const auto b = number.load(from[t * columns + pairs + i]);
          const auto c = number.load(cosine[position * pairs + i]);
          const auto forward = number.load(sine[position * pairs + i]);
          const auto s = backward ? -forward : forward;
          to[t * columns + i] = number.store(number.fma(a, c, -(b * s)));
          to[t * columns + pairs + i] = number.store(number.fma(a, s, b * c));
        }
      }
    });
  });
}

// ---- norms -----------------------------------------------------------------------------------------------

void CpuKernels::normalize(const NormParameters& form, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const Tensor& out, const Tensor& stats) const {
  const std::int64_t columns = columns_of(x);
  const std::int64_t rows = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide one_by_columns = number.of({1, columns});
    const Wide least_variance = number.of(form.epsilon);
    const Scalar* w = elements<Scalar>(weight);
    const Scalar* b = bias.is_none() ? nullptr : elements<Scalar>(bias);
    Wide* means = elements<Wide>(stats);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) {
        const Scalar* from = elements<Scalar>(x) + t * columns;
        Scalar* to = elements<Scalar>(out) + t * columns;
        Wide mean{};
        if (form.norm == Norm::layer_norm) {
          mean =
              lane_sum<Wide>(columns, [&](std::int64_t f) { return number.load(from[f]); }) * one_by_columns;
        }
        const Wide variance = lane_sum<Wide>(columns,
                                             [&](std::int64_t f) {
                                               const Wide difference = number.load(from[f]) - mean;
                                               return difference * difference;
                                             }) *
                              one_by_columns;
        const Wide rstd = number.rsqrt(variance + least_variance);
        for (std::int64_t f = 0; f < columns; ++f) {
          const Wide scaled = (number.load(from[f]) - mean) * rstd * number.load(w[f]);
          to[f] = number.store(b == nullptr ? scaled : scaled + number.load(b[f]));
        }
        means[t] = mean;
        means[rows + t] = rstd;
      }
    });
  });
}

void CpuKernels::normalize_backward(const NormParameters& form, const Tensor& x, const Tensor& weight,
                                    const Tensor& stats, const Tensor& grad, const Tensor& grad_x,
                                    const Tensor& grad_weight, const Tensor& grad_bias) const {
  const std::int64_t columns = columns_of(x);
  const std::int64_t rows = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    using Wide = typename Arithmetic<Scalar>::Wide;
    const Wide one_by_columns = number.of({1, columns});
    const Scalar* w = elements<Scalar>(weight);
    const Wide* means = elements<Wide>(stats);
    Wide* weight_sums = elements<Wide>(grad_weight);
    Wide* bias_sums = grad_bias.is_none() ? nullptr : elements<Wide>(grad_bias);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) {
        const Scalar* from = elements<Scalar>(x) + t * columns;
        const Scalar* upstream = elements<Scalar>(grad) + t * columns;
        Scalar* to = elements<Scalar>(grad_x) + t * columns;
        const Wide mean = means[t];
        const Wide rstd = means[rows + t];
        const auto normal = [&](std::int64_t f) { return (number.load(from[f]) - mean) * rstd; };
        const auto slope = [&](std::int64_t f) { return number.load(upstream[f]) * number.load(w[f]); };
        Wide along_one{};
        if (form.norm == Norm::layer_norm) along_one = lane_sum<Wide>(columns, slope) * one_by_columns;
        const Wide along_normal =
            lane_sum<Wide>(columns, [&](std::int64_t f) { return slope(f) * normal(f); }) * one_by_columns;
        for (std::int64_t f = 0; f < columns; ++f) {
          to[f] = number.store((slope(f) - along_one - normal(f) * along_normal) * rstd);
          weight_sums[f] = number.fma(number.load(upstream[f]), normal(f), weight_sums[f]);
          if (bias_sums != nullptr) bias_sums[f] = bias_sums[f] + number.load(upstream[f]);
        }
      }
    });
  });
}

}  // namespace sim
