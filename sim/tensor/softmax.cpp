#include "sim/tensor/softmax.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

void require_divisor(const Tensor& x, std::int64_t divisor, const char* user) {
  require_shapes(x.shape().dimensions() >= 2, {&x}, user, "scores are [.., queries, keys]");
  if (divisor >= 1 && divisor <= (std::int64_t{1} << 24)) return;
  refuse({.code = "bad_divisor",
          .option = user,
          .numbers = fmt::format("a divisor of {}", divisor),
          .rule = "scores are divided by the square root of a divisor from 1 to 16,777,216",
          .hint = "the head dimension, or 1 for no scaling"});
}

void require_stats(const Tensor& stats, const Tensor& of, const char* user) {
  require_sums(stats, of, user);
  require_shapes(stats.shape() == Shape{2, rows_of(of)}, {&of, &stats}, user,
                 "stats are [2, rows], with as many rows as the scores or outputs");
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys) {
  require_inputs({&x}, "softmax");
  require_divisor(x, divisor, "softmax");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().softmax(x, divisor, keys, out);
  return out;
}

Tensor partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& stats) {
  require_inputs({&x}, "partial_softmax");
  require_divisor(x, divisor, "partial_softmax");
  require_stats(stats, x, "partial_softmax");
  Tensor exps = x.device().empty(x.dtype(), x.shape());
  x.device().partial_softmax(x, divisor, keys, exps, stats);
  return exps;
}

void merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats) {
  constexpr const char* kUser = "merge_softmax";
  require_inputs({&part, &part_stats, &out, &stats}, kUser);
  require_same_shape(part, out, kUser);
  require_sums(out, out, kUser);
  require_stats(part_stats, part, kUser);
  require_stats(stats, out, kUser);
  require_apart(part, out, kUser);
  require_apart(part_stats, stats, kUser);
  part.device().merge_softmax(part, part_stats, out, stats);
}

Tensor finish_softmax(const Tensor& sums, const Tensor& stats, DType dtype) {
  constexpr const char* kUser = "finish_softmax";
  require_inputs({&sums, &stats}, kUser);
  require_stats(stats, sums, kUser);
  Tensor out = sums.device().empty(dtype, sums.shape());
  require_sums(sums, out, kUser);
  sums.device().finish_softmax(sums, stats, out);
  return out;
}

PartialSoftmaxGradient partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys,
                                                const Tensor& stats, const Tensor& grad,
                                                const Tensor& means) {
  constexpr const char* kUser = "partial_softmax_backward";
  require_inputs({&x, &grad}, kUser);
  require_divisor(x, divisor, kUser);
  require_same_shape(x, grad, kUser);
  require_stats(stats, x, kUser);
  require_sums(means, x, kUser);
  require_shapes(means.count() == rows_of(x), {&x, &means}, kUser, "there is one mean for each row");
  PartialSoftmaxGradient gradient{x.device().empty(x.dtype(), x.shape()),
                                  x.device().empty(x.dtype(), x.shape())};
  x.device().partial_softmax_backward(x, divisor, keys, stats, grad, means, gradient.probabilities,
                                      gradient.scores);
  return gradient;
}

Tensor softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor) {
  require_inputs({&p, &grad}, "softmax_backward");
  require_same_shape(p, grad, "softmax_backward");
  require_divisor(p, divisor, "softmax_backward");
  Tensor out = p.device().empty(p.dtype(), p.shape());
  p.device().softmax_backward(p, grad, divisor, out);
  return out;
}

}  // namespace sim
