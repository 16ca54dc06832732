#include "sim/tensor/adam.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

bool is_share(Ratio beta) { return beta.numerator >= 0 && beta.numerator < beta.denominator; }

void require_step(const AdamStep& step) {
  if (step.step >= 1 && is_share(step.beta1) && is_share(step.beta2)) return;
  refuse({.code = "adam_step",
          .option = "adam",
          .numbers = fmt::format("step {}, beta1 {}/{}, beta2 {}/{}", step.step, step.beta1.numerator,
                                 step.beta1.denominator, step.beta2.numerator, step.beta2.denominator),
          .rule = "steps count from 1, and a beta is at least 0 and below 1",
          .hint = "beta1 9/10 and beta2 999/1000, and 1 for the first step"});
}

/// Requires a dtype in which sums are kept: the kernels below do not support bf16.
void require_keeps_sums(const Tensor& x, const char* user) {
  if (sum_dtype(x.dtype()) == x.dtype()) return;
  refuse({.code = "bad_dtype",
          .option = user,
          .numbers = fmt::format("a tensor {} of {}", text_of(x.shape()), name_of(x.dtype())),
          .rule = "gradients, main parameters and moments have a dtype in which sums are kept",
          .hint = fmt::format("a tensor of {}", name_of(sum_dtype(x.dtype())))});
}

void require_one(const Tensor& x, const char* user) {
  require_shapes(x.count() == 1, {&x}, user, "one element");
}

}  // namespace

void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg, Tensor& exp_avg_sq) {
  constexpr const char* kUser = "adam";
  require_step(step);
  require_inputs({&grad, &param, &exp_avg, &exp_avg_sq}, kUser);
  for (const Tensor* other : {&param, &exp_avg, &exp_avg_sq}) {
    require_same_shape(grad, *other, kUser);
    require_write(*other, kUser);
  }
  require_keeps_sums(grad, kUser);
  for (const Ratio ratio : {step.learning_rate, step.beta1, step.beta2, step.epsilon, step.weight_decay})
    require_ratio(grad.dtype(), ratio, kUser);
  grad.device().adam(grad, step, param, exp_avg, exp_avg_sq);
}

void add_sum_of_squares(const Tensor& x, Tensor& sum) {
  require_one(sum, "add_sum_of_squares");
  const Tensor flat = x.reshaped({x.count()});
  const std::int64_t chains = x.count() / kSquaresOfAChain;
  const std::int64_t whole = chains > 1 ? chains * kSquaresOfAChain : 0;
  if (whole > 0) {
    const Tensor squared = flat.rows(0, whole);
    Tensor sums = filled(x.device(), sum.dtype(), {chains, 1, 1}, 0);
    add_matmul(squared.reshaped({chains, 1, kSquaresOfAChain}),
               squared.reshaped({chains, kSquaresOfAChain, 1}), sums);
    add_column_sums(sums.reshaped({chains, 1}), sum);
  }
  const Tensor rest = flat.rows(whole, x.count());
  Tensor one = sum.reshaped({1, 1});
  add_matmul(rest.reshaped({1, rest.count()}), rest.reshaped({rest.count(), 1}), one);
}

Tensor clip_factor(const Tensor& sum_of_squares, Ratio most) {
  constexpr const char* kUser = "clip_factor";
  require_inputs({&sum_of_squares}, kUser);
  require_keeps_sums(sum_of_squares, kUser);
  require_one(sum_of_squares, kUser);
  require_ratio(sum_of_squares.dtype(), most, kUser);
  Tensor factor = sum_of_squares.device().empty(sum_of_squares.dtype(), {1});
  sum_of_squares.device().clip_factor(sum_of_squares, most, factor);
  return factor;
}

void scale_by(Tensor& x, const Tensor& factor) {
  require_inputs({&x, &factor}, "scale_by");
  require_keeps_sums(x, "scale_by");
  require_one(factor, "scale_by");
  require_write(x, "scale_by");
  x.device().scale_by(x, factor);
}

Tensor nonfinite_flag(const Tensor& x) {
  require_inputs({&x}, "nonfinite_flag");
  require_keeps_sums(x, "nonfinite_flag");
  Tensor flag = x.device().empty(x.dtype(), {1});
  x.device().find_nonfinite(x, flag);
  return flag;
}

void poison(Tensor& x) {
  require_own(x, "poison");
  require_write(x, "poison");
  x.device().poison(x);
}

}  // namespace sim
