#pragma once

/// Kernels that compute each element, or each column, independently of all others.
///
/// Calls   A source file includes this header to define the kernels, once for each kind of launch:
///         gpu/cuda/elements.cu, gpu/on_host/elements.cpp.
/// Exact   Each function object is the body of the CPU device's loop, and uses the functions of
///         sim/tensor/float_arithmetic.h.

#include "gpu/device/chain.h"
#include "gpu/device/launch.h"
#include "sim/base/philox.h"
#include "sim/tensor/float_arithmetic.h"
#include "sim/tensor/kernel_places.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace gpu {

namespace {

template <typename Scalar>
using WideOf = typename sim::Arithmetic<Scalar>::Wide;

template <typename Scalar>
struct Fill {
  Scalar* out;
  Scalar value;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = value; }
};

template <ReduceOp op, typename Scalar>
struct Combine {
  const Scalar* a;
  const Scalar* b;
  Scalar* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = sim::combined<op>(a[i], b[i]); }
};

template <typename Scalar>
struct Scale {
  const Scalar* a;
  sim::Scaling<Scalar> scaling;
  Scalar* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = scaling(a[i]); }
};

template <typename Scalar>
struct Compare {
  Comparison comparison;
  const Scalar* a;
  const Scalar* b;
  std::int32_t* mask;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    mask[i] = sim::holds(comparison, a[i], b[i]) ? 1 : 0;
  }
};

template <typename Bytes>
struct Select {
  const std::int32_t* mask;
  const Bytes* a;
  const Bytes* b;
  Bytes* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = mask[i] != 0 ? a[i] : b[i]; }
};

template <typename From, typename To>
struct Cast {
  const From* from;
  To* to;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = sim::rounded_to<To>(from[i]); }
};

template <ReduceOp op, typename Scalar>
struct Fold {
  const Scalar* const* inputs;
  std::int64_t members;
  Scalar* const* outputs;
  std::int64_t output_count;
  sim::FoldSegment segment;
  bool scales;
  sim::Scaling<Scalar> factor;
  bool averages;
  sim::Scaling<Scalar> average;
  SIM_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::int64_t i = segment.begin + place;
    const std::int64_t from = i + segment.shift;
    Scalar running = value_of(segment.first, from);
    for (std::int64_t next = 1; next < members; ++next)
      running = sim::combined<op>(value_of(segment.first + next, from), running);
    if (averages) running = average(running);
    for (std::int64_t output = 0; output < output_count; ++output) outputs[output][i] = running;
  }
  SIM_HOST_DEVICE Scalar value_of(std::int64_t member, std::int64_t from) const {
    const Scalar value = inputs[member % members][from];
    return scales ? factor(value) : value;
  }
};

template <typename Scalar>
struct AddBias {
  const Scalar* x;
  const Scalar* bias;
  Scalar* out;
  std::int64_t columns;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const sim::Arithmetic<Scalar> number{};
    out[i] = number.store(number.load(x[i]) + number.load(bias[i % columns]));
  }
};

/// Each call sums one column.
template <typename Scalar>
struct AddColumnSums {
  const Scalar* x;
  WideOf<Scalar>* sums;
  std::int64_t rows;
  std::int64_t columns;
  SIM_HOST_DEVICE void operator()(std::int64_t f) const {
    const sim::Arithmetic<Scalar> number{};
    WideOf<Scalar> sum = sums[f];
    in_chain(
        rows, [&](std::int64_t t) { return number.load(x[t * columns + f]); },
        [&](WideOf<Scalar> term) { sum = sum + term; });
    sums[f] = sum;
  }
};

template <typename Bytes>
struct CopyColumns {
  const Bytes* from;
  std::int64_t from_step;
  Bytes* to;
  std::int64_t to_step;
  std::int64_t columns;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t t = i / columns;
    const std::int64_t c = i % columns;
    to[t * to_step + c] = from[t * from_step + c];
  }
};

template <typename Bytes>
struct Lookup {
  const Bytes* table;
  std::int64_t table_rows;
  const std::int32_t* ids;
  std::int64_t first_id;
  Bytes* out;
  std::int64_t columns;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = sim::row_of(ids[i / columns], first_id, table_rows);
    out[i] = row < 0 ? Bytes{0} : table[row * columns + i % columns];
  }
};

/// Each call handles one column. Rows are added in their order, whatever their ids are.
template <typename Scalar>
struct AddToRows {
  const Scalar* rows;
  const std::int32_t* ids;
  std::int64_t first_id;
  WideOf<Scalar>* table;
  std::int64_t table_rows;
  std::int64_t tokens;
  std::int64_t columns;
  SIM_HOST_DEVICE void operator()(std::int64_t f) const {
    const sim::Arithmetic<Scalar> number{};
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t row = sim::row_of(ids[t], first_id, table_rows);
      if (row < 0) continue;
      WideOf<Scalar>& sum = table[row * columns + f];
      sum = sum + number.load(rows[t * columns + f]);
    }
  }
};

template <typename Bytes>
struct Permute {
  const Bytes* from;
  std::int64_t step0, step1, step2, step3;
  Bytes* to;
  std::int64_t size1, size2, size3;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t l = i % size3;
    const std::int64_t k = i / size3 % size2;
    const std::int64_t j = i / size3 / size2 % size1;
    to[i] = from[i / size3 / size2 / size1 * step0 + j * step1 + k * step2 + l * step3];
  }
};

template <Activation function, typename Scalar>
struct Activate {
  const Scalar* x;
  Scalar* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const sim::Arithmetic<Scalar> number{};
    out[i] = number.store(number.template activation<function>(number.load(x[i])));
  }
};

template <Activation function, typename Scalar>
struct ActivateBackward {
  const Scalar* x;
  const Scalar* grad;
  Scalar* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const sim::Arithmetic<Scalar> number{};
    const auto slope = number.template derivative<function>(number.load(x[i]));
    out[i] = number.store(number.load(grad[i]) * slope);
  }
};

template <typename Scalar>
struct Dropout {
  const Scalar* x;
  std::uint64_t key;
  double threshold;
  sim::Scaling<Scalar> scaling;
  sim::Scaling<Scalar> dropped;
  Scalar* out;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::uint64_t bits = sim::random_words::bits(key, static_cast<std::uint64_t>(i));
    out[i] = sim::random_words::uniform_of(bits) >= threshold ? scaling(x[i]) : dropped(x[i]);
  }
};

/// Each call rotates one pair of elements.
template <typename Scalar>
struct Rotate {
  const Scalar* x;
  const Scalar* cosines;
  const Scalar* sines;
  bool backward;
  Scalar* out;
  std::int64_t rows_a_position;
  std::int64_t pairs;
  SIM_HOST_DEVICE void operator()(std::int64_t place) const {
    const sim::Arithmetic<Scalar> number{};
    const std::int64_t t = place / pairs;
    const std::int64_t i = place % pairs;
    const std::int64_t angle = t / rows_a_position * pairs + i;
    const std::int64_t first = t * 2 * pairs + i;
    const auto a = number.load(x[first]);
    const auto b = number.load(x[first + pairs]);
    const auto c = number.load(cosines[angle]);
    const auto forward = number.load(sines[angle]);
    const auto s = backward ? -forward : forward;
    out[first] = number.store(number.fma(a, c, -(b * s)));
    out[first + pairs] = number.store(number.fma(a, s, b * c));
  }
};

template <typename Scalar>
struct Adam {
  const Scalar* grad;
  Scalar* param;
  Scalar* exp_avg;
  Scalar* exp_avg_sq;
  Scalar rate, beta1, rest1, beta2, rest2, c1, c2, epsilon, decay;
  bool decays_grad, decays_update;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const sim::Arithmetic<Scalar> number{};
    const Scalar slope = decays_grad ? number.fma(decay, param[i], grad[i]) : grad[i];
    const Scalar m = number.fma(beta1, exp_avg[i], rest1 * slope);
    const Scalar v = number.fma(beta2, exp_avg_sq[i], rest2 * slope * slope);
    const Scalar update = (m / c1) / (number.sqrt(v / c2) + epsilon);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    param[i] = number.fma(rate, decays_update ? number.fma(decay, param[i], update) : update, param[i]);
  }
};

template <typename Scalar>
struct ClipFactor {
  const Scalar* sum_of_squares;
  Scalar most, least_norm;
  Scalar* factor;
  SIM_HOST_DEVICE void operator()(std::int64_t) const {
    const sim::Arithmetic<Scalar> number{};
    *factor = number.clipped(most / (number.sqrt(*sum_of_squares) + least_norm));
  }
};

template <typename Scalar>
struct ScaleBy {
  Scalar* x;
  const Scalar* factor;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const { x[i] = x[i] * *factor; }
};

/// Threads that find a nonfinite element all write the same value, so their order does not matter.
template <typename Scalar>
struct FindNonfinite {
  const Scalar* x;
  Scalar* flag;
  SIM_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool is_finite = x[i] - x[i] == 0;
    if (!is_finite) *flag = Scalar{1};
  }
};

template <typename Scalar>
struct TokenLossOfParts {
  const Scalar* parts;
  const std::int32_t* targets;
  std::int64_t ignored_id;
  bool smooths;
  WideOf<Scalar> s, sharp, one_by_vocabulary;
  Scalar* out;
  std::int64_t tokens;
  SIM_HOST_DEVICE void operator()(std::int64_t t) const {
    const sim::Arithmetic<Scalar> number{};
    out[t] = Scalar{};
    if (targets[t] == ignored_id) return;
    const auto log_sum = number.log(number.load(parts[tokens + t]));
    const auto of_target = log_sum - number.load(parts[t]);
    out[t] = number.store(of_target);
    if (!smooths) return;
    out[t] = number.store(sharp * of_target +
                          s * (log_sum - number.load(parts[2 * tokens + t]) * one_by_vocabulary));
  }
};

}  // namespace

void GpuKernels::fill(const Tensor& out, double value) const {
  with_element(out.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, out.count(), Fill<Scalar>{as<Scalar>(out), sim::rounded_to<Scalar>(value)});
  });
}

void GpuKernels::combine(ReduceOp op, const Tensor& a, const Tensor& b, const Tensor& out) const {
  with_element(out.dtype(), [&]<typename Scalar>(Scalar) {
    sim::with_reduce_op(op, [&](auto constant) {
      launch_elements(
          stream_, out.count(),
          Combine<decltype(constant)::value, Scalar>{as<Scalar>(a), as<Scalar>(b), as<Scalar>(out)});
    });
  });
}

void GpuKernels::scale(const Tensor& a, Ratio ratio, const Tensor& out) const {
  with_element(out.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, out.count(),
                    Scale<Scalar>{as<Scalar>(a), sim::Scaling<Scalar>(ratio), as<Scalar>(out)});
  });
}

void GpuKernels::compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& mask) const {
  with_element(a.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, mask.count(),
                    Compare<Scalar>{comparison, as<Scalar>(a), as<Scalar>(b), as<std::int32_t>(mask)});
  });
}

void GpuKernels::select(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& out) const {
  with_bytes(sim::size_of(out.dtype()), [&]<typename Bytes>(Bytes) {
    launch_elements(stream_, out.count(),
                    Select<Bytes>{as<std::int32_t>(mask), as<Bytes>(a), as<Bytes>(b), as<Bytes>(out)});
  });
}

void GpuKernels::cast(const Tensor& from, const Tensor& to) const {
  with_element(from.dtype(), [&]<typename From>(From) {
    with_element(to.dtype(), [&]<typename To>(To) {
      launch_elements(stream_, to.count(), Cast<From, To>{as<From>(from), as<To>(to)});
    });
  });
}

void fold(Stream* stream, sim::DType type, sim::Reduction reduction, const void* const* inputs,
          std::int64_t members, void* const* outputs, std::int64_t output_count, sim::FoldSegment segment) {
  with_element(type, [&]<typename Scalar>(Scalar) {
    sim::with_reduce_op(reduction.op, [&](auto constant) {
      launch_elements(stream, segment.end - segment.begin,
                      Fold<decltype(constant)::value, Scalar>{
                          reinterpret_cast<const Scalar* const*>(inputs), members,
                          reinterpret_cast<Scalar* const*>(outputs), output_count, segment,
                          reduction.factor != Ratio{}, sim::Scaling<Scalar>(reduction.factor),
                          reduction.op == ReduceOp::average, sim::Scaling<Scalar>(Ratio{1, members})});
    });
  });
}

void GpuKernels::add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, rows_of(x) * columns_of(x),
                    AddBias<Scalar>{as<Scalar>(x), as<Scalar>(bias), as<Scalar>(out), columns_of(x)});
  });
}

void GpuKernels::add_column_sums(const Tensor& x, const Tensor& sums) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(
        stream_, columns_of(x),
        AddColumnSums<Scalar>{as<Scalar>(x), as<WideOf<Scalar>>(sums), rows_of(x), columns_of(x)});
  });
}

void GpuKernels::copy_columns(const Tensor& from, const sim::ColumnParameters& part, const Tensor& to) const {
  with_bytes(sim::size_of(from.dtype()), [&]<typename Bytes>(Bytes) {
    launch_elements(stream_, rows_of(from) * part.columns,
                    CopyColumns<Bytes>{as<Bytes>(from) + part.from_column, columns_of(from),
                                       as<Bytes>(to) + part.to_column, columns_of(to), part.columns});
  });
}

void GpuKernels::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id,
                        const Tensor& out) const {
  with_bytes(sim::size_of(table.dtype()), [&]<typename Bytes>(Bytes) {
    launch_elements(stream_, ids.count() * columns_of(table),
                    Lookup<Bytes>{as<Bytes>(table), rows_of(table), as<std::int32_t>(ids), first_id,
                                  as<Bytes>(out), columns_of(table)});
  });
}

void GpuKernels::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id,
                             const Tensor& table) const {
  with_computing(rows.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(
        stream_, columns_of(table),
        AddToRows<Scalar>{as<Scalar>(rows), as<std::int32_t>(ids), first_id, as<WideOf<Scalar>>(table),
                          rows_of(table), ids.count(), columns_of(table)});
  });
}

void GpuKernels::permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const {
  std::array<std::int64_t, 4> steps{};  // elements from one index to the next, by dimension of `from`
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0; step *= from.shape()[i]) steps[i] = step;
  std::array<std::int64_t, 4> steps_of_to{};
  std::array<std::int64_t, 4> sizes{};
  for (std::size_t i = 0; i < 4; ++i) {
    steps_of_to[i] = steps[static_cast<std::size_t>(order[i])];
    sizes[i] = to.shape()[i];
  }
  with_bytes(sim::size_of(from.dtype()), [&]<typename Bytes>(Bytes) {
    launch_elements(stream_, sizes[0] * sizes[1] * sizes[2] * sizes[3],
                    Permute<Bytes>{as<Bytes>(from), steps_of_to[0], steps_of_to[1], steps_of_to[2],
                                   steps_of_to[3], as<Bytes>(to), sizes[1], sizes[2], sizes[3]});
  });
}

void GpuKernels::activate(Activation function, const Tensor& x, const Tensor& out) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    sim::with_activation(function, [&](auto constant) {
      launch_elements(stream_, x.count(),
                      Activate<decltype(constant)::value, Scalar>{as<Scalar>(x), as<Scalar>(out)});
    });
  });
}

void GpuKernels::activate_backward(Activation function, const Tensor& x, const Tensor& grad,
                                   const Tensor& out) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    sim::with_activation(function, [&](auto constant) {
      launch_elements(stream_, x.count(),
                      ActivateBackward<decltype(constant)::value, Scalar>{as<Scalar>(x), as<Scalar>(grad),
                                                                          as<Scalar>(out)});
    });
  });
}

void GpuKernels::dropout(const Tensor& x, const sim::DropoutParameters& random, const Tensor& out) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    const Ratio kept = {random.drop.denominator, random.drop.denominator - random.drop.numerator};
    launch_elements(
        stream_, x.count(),
        Dropout<Scalar>{as<Scalar>(x), random.stream.key(), sim::quotient_of<double>(random.drop),
                        sim::Scaling<Scalar>(kept), sim::Scaling<Scalar>({0, 1}), as<Scalar>(out)});
  });
}

void GpuKernels::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward,
                        const Tensor& out) const {
  with_computing(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, rows_of(x) * (columns_of(x) / 2),
                    Rotate<Scalar>{as<Scalar>(x), as<Scalar>(cosines), as<Scalar>(sines), backward,
                                   as<Scalar>(out), x.shape()[1] * x.shape()[2], columns_of(x) / 2});
  });
}

void GpuKernels::adam(const Tensor& grad, const sim::AdamStep& step, const Tensor& param,
                      const Tensor& exp_avg, const Tensor& exp_avg_sq) const {
  with_sum(grad.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    const bool decays = step.weight_decay.numerator != 0;
    Adam<Scalar> each = {};
    each.grad = as<Scalar>(grad);
    each.param = as<Scalar>(param);
    each.exp_avg = as<Scalar>(exp_avg);
    each.exp_avg_sq = as<Scalar>(exp_avg_sq);
    each.rate = number.of({-step.learning_rate.numerator, step.learning_rate.denominator});
    each.beta1 = number.of(step.beta1);
    each.rest1 = number.of(sim::one_less(step.beta1));
    each.beta2 = number.of(step.beta2);
    each.rest2 = number.of(sim::one_less(step.beta2));
    each.c1 = static_cast<Scalar>(sim::correction(step.beta1, step.step));
    each.c2 = static_cast<Scalar>(sim::correction(step.beta2, step.step));
    each.epsilon = number.of(step.epsilon);
    each.decay = number.of(step.weight_decay);
    each.decays_grad = decays && !step.decoupled;
    each.decays_update = decays && step.decoupled;
    launch_elements(stream_, grad.count(), each);
  });
}

void GpuKernels::clip_factor(const Tensor& sum_of_squares, Ratio most, const Tensor& factor) const {
  with_sum(factor.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    launch_elements(stream_, 1,
                    ClipFactor<Scalar>{as<Scalar>(sum_of_squares), number.of(most), number.of({1, 1'000'000}),
                                       as<Scalar>(factor)});
  });
}

void GpuKernels::scale_by(const Tensor& factor, const Tensor& x) const {
  with_sum(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, x.count(), ScaleBy<Scalar>{as<Scalar>(x), as<Scalar>(factor)});
  });
}

void GpuKernels::find_nonfinite(const Tensor& x, const Tensor& flag) const {
  with_sum(x.dtype(), [&]<typename Scalar>(Scalar) {
    launch_elements(stream_, 1, Fill<Scalar>{as<Scalar>(flag), Scalar{0}});
    launch_elements(stream_, x.count(), FindNonfinite<Scalar>{as<Scalar>(x), as<Scalar>(flag)});
  });
}

void GpuKernels::token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss,
                            const Tensor& out) const {
  with_computing(parts.dtype(), [&]<typename Scalar>(Scalar) {
    const sim::Arithmetic<Scalar> number{};
    launch_elements(stream_, out.count(),
                    TokenLossOfParts<Scalar>{as<Scalar>(parts), as<std::int32_t>(targets), loss.ignored_id,
                                             loss.smoothing.numerator != 0, number.of(loss.smoothing),
                                             number.of(sim::one_less(loss.smoothing)),
                                             number.of({1, loss.vocabulary}), as<Scalar>(out), out.count()});
  });
}

}  // namespace gpu
