#include "sim/tensor/adam.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

bool is_share(Ratio beta) { return beta.numerator >= 0 && beta.numerator < beta.denominator; }

void check_step(const AdamStep& step) {
  if (step.step >= 1 && is_share(step.beta1) && is_share(step.beta2)) return;
  refuse({.code = "adam_step",
          .option = "adam",
          .numbers = fmt::format("step {}, beta1 {}/{}, beta2 {}/{}", step.step, step.beta1.numerator,
                                 step.beta1.denominator, step.beta2.numerator, step.beta2.denominator),
          .rule = "steps count from 1, betas are from 0 to below 1",
          .hint = "beta1 9/10, beta2 999/1000"});
}

void check_one(const Tensor& x, const char* user) { check_shapes(x.count() == 1, {&x}, user, "one element"); }

}  // namespace

void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg, Tensor& exp_avg_sq) {
  constexpr const char* kUser = "adam";
  check_step(step);
  check_inputs({&grad, &param, &exp_avg, &exp_avg_sq}, kUser);
  for (const Tensor* other : {&param, &exp_avg, &exp_avg_sq}) {
    check_same_shape(grad, *other, kUser);
    check_write(*other, kUser);
  }
  check_shapes(sum_dtype(grad.dtype()) == grad.dtype(), {&grad}, kUser, "what is stepped in is no bf16");
  for (const Ratio ratio : {step.learning_rate, step.beta1, step.beta2, step.epsilon, step.weight_decay})
    check_ratio(grad.dtype(), ratio, kUser);
  grad.device().adam(grad, step, param, exp_avg, exp_avg_sq);
}

void add_sum_of_squares(const Tensor& x, Tensor& sum) {
  check_one(sum, "add_sum_of_squares");
  Tensor one = sum.reshaped({1, 1});
  add_matmul(x.reshaped({1, x.count()}), x.reshaped({x.count(), 1}), one);
}

Tensor clip_factor(const Tensor& sum_of_squares, Ratio most) {
  constexpr const char* kUser = "clip_factor";
  check_inputs({&sum_of_squares}, kUser);
  check_one(sum_of_squares, kUser);
  check_ratio(sum_of_squares.dtype(), most, kUser);
  Tensor factor = sum_of_squares.device().empty(sum_of_squares.dtype(), {1});
  sum_of_squares.device().clip_factor(sum_of_squares, most, factor);
  return factor;
}

void scale_by(Tensor& x, const Tensor& factor) {
  check_inputs({&x, &factor}, "scale_by");
  check_one(factor, "scale_by");
  check_write(x, "scale_by");
  x.device().scale_by(x, factor);
}

Tensor nonfinite_flag(const Tensor& x) {
  check_inputs({&x}, "nonfinite_flag");
  Tensor flag = x.device().empty(x.dtype(), {1});
  x.device().find_nonfinite(x, flag);
  return flag;
}

void poison(Tensor& x) {
  check_own(x, "poison");
  check_write(x, "poison");
  x.device().poison(x);
}

}  // namespace sim
