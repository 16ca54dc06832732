// Proves that the gradients which references state are the derivatives of what they compute forward. The
// forward reference differentiates itself (tests/support/dual.h) at every element of every input, and
// the two must lie within their bounds of each other.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "sim/base/keyed_random.h"
#include "tests/support/dual.h"
#include "verify/reference/attention.h"
#include "verify/reference/cross_entropy.h"
#include "verify/reference/latent_attention.h"
#include "verify/reference/linear.h"
#include "verify/reference/mlp.h"
#include "verify/reference/norm.h"
#include "verify/reference/self_attention.h"

namespace {

using namespace verify::reference;
using test::Dual;

const Rounding& rounding() {
  static const Rounding of_double = rounding_of_f64(1);
  return of_double;
}
const Number<Bounded>& bounded() {
  static const Number<Bounded> number(rounding());
  return number;
}
const Number<Dual>& dual() {
  static const Number<Dual> number(rounding());
  return number;
}

using Values = Matrix<Bounded>;

Values drawn(std::uint64_t seed, const char* name, Eigen::Index rows, Eigen::Index columns) {
  const sim::KeyedRandom random = sim::KeyedRandom(seed).named(name);
  Values x(rows, columns);
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    x.data()[i] = Bounded(4 * random.uniform(static_cast<std::uint64_t>(i)) - 2, &rounding());
  }
  return x;
}

/// Returns the matrix as constants, but with a slope of 1 at one element. With `element` -1 there is no
/// slope.
Matrix<Dual> along(const Values& x, Eigen::Index element) {
  Matrix<Dual> result(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    result.data()[i] = {x.data()[i], Bounded(i == element ? 1 : 0, &rounding())};
  }
  return result;
}

/// Expects, for each element, that the slope of sum(y grad), with y = forward(x with a slope at that
/// element), is the gradient stated there.
template <typename Forward>
void expect_gradient(const Values& x, const Values& stated, const Values& grad, const Forward& forward) {
  RC_ASSERT(stated.rows() == x.rows() && stated.cols() == x.cols());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const Matrix<Dual> y = forward(along(x, i));
    RC_ASSERT(y.size() == grad.size());
    BoundedSum sum;
    for (Eigen::Index j = 0; j < y.size(); ++j) sum.add_product(y.data()[j].slope, grad.data()[j]);
    const Bounded slope = sum.value();
    const Bounded& gradient = stated.data()[i];
    RC_ASSERT(std::isfinite(slope.error() + gradient.error()));
    RC_ASSERT(std::fabs(slope.value() - gradient.value()) <= slope.error() + gradient.error());
  }
}

RC_GTEST_PROP(ReferenceGradients, OfLinear, (std::uint64_t seed)) {
  const auto x = drawn(seed, "x", 3, 4), w = drawn(seed, "w", 5, 4), b = drawn(seed, "b", 1, 5);
  const auto grad = drawn(seed, "grad", 3, 5);
  const auto stated = linear_gradients(bounded(), x, w, grad);
  expect_gradient(x, stated.x, grad,
                  [&](const auto& v) { return linear(dual(), v, along(w, -1), along(b, -1)); });
  expect_gradient(w, stated.weight, grad,
                  [&](const auto& v) { return linear(dual(), along(x, -1), v, along(b, -1)); });
  expect_gradient(b, stated.bias, grad,
                  [&](const auto& v) { return linear(dual(), along(x, -1), along(w, -1), v); });
}

RC_GTEST_PROP(ReferenceGradients, OfEmbedding, (std::uint64_t seed)) {
  const auto table = drawn(seed, "table", 4, 3), grad = drawn(seed, "grad", 5, 3);
  const Ids ids = {1, 3, 1, 0, 1};
  expect_gradient(table, embedding_gradient(bounded(), table, ids, grad), grad,
                  [&](const auto& v) { return embedding(v, ids); });
}

RC_GTEST_PROP(ReferenceGradients, OfActivations, (std::uint64_t seed)) {
  const auto x = drawn(seed, "x", 1, 8);
  const auto grad = drawn(seed, "grad", 1, 8);
  for (const Activation function : {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu}) {
    const auto stated = matrix_of(bounded(), 1, 8, [&](Eigen::Index, Eigen::Index i) {
      return grad(0, i) * bounded().activation(function, true, x(0, i));
    });
    expect_gradient(x, stated, grad, [&](const auto& v) {
      return matrix_of(dual(), 1, 8, [&](Eigen::Index, Eigen::Index i) {
        return dual().activation(function, false, v(0, i));
      });
    });
  }
}

RC_GTEST_PROP(ReferenceGradients, OfNorms, (std::uint64_t seed, bool is_layer_norm)) {
  const NormSetting setting{.is_layer_norm = is_layer_norm};
  const auto x = drawn(seed, "x", 3, 5), w = drawn(seed, "w", 1, 5), grad = drawn(seed, "grad", 3, 5);
  const auto b = is_layer_norm ? drawn(seed, "b", 1, 5) : Values();
  const auto stated = norm_gradients(bounded(), x, w, grad, setting);
  expect_gradient(x, stated.x, grad,
                  [&](const auto& v) { return norm(dual(), v, along(w, -1), along(b, -1), setting); });
  expect_gradient(w, stated.weight, grad,
                  [&](const auto& v) { return norm(dual(), along(x, -1), v, along(b, -1), setting); });
  if (!is_layer_norm) return;
  expect_gradient(b, stated.bias, grad,
                  [&](const auto& v) { return norm(dual(), along(x, -1), along(w, -1), v, setting); });
}

RC_GTEST_PROP(ReferenceGradients, OfCrossEntropy, (std::uint64_t seed, bool smooths)) {
  const CrossEntropySetting setting{.vocabulary = 4,
                                    .ignored_id = -100,
                                    .smoothing_numerator = smooths ? 1 : 0,
                                    .smoothing_denominator = 10};
  const auto logits = drawn(seed, "logits", 3, 6), grad = drawn(seed, "grad", 1, 3);
  const Ids targets = {2, -100, 0};
  expect_gradient(logits, CrossEntropy(bounded(), logits, targets, setting).gradient(grad), grad,
                  [&](const auto& v) { return CrossEntropy(dual(), v, targets, setting).loss(); });
}

RC_GTEST_PROP(ReferenceGradients, OfAttention, (std::uint64_t seed, bool causal)) {
  const auto q = drawn(seed, "q", 2, 4), k = drawn(seed, "k", 3, 4), v = drawn(seed, "v", 3, 4);
  const auto grad = drawn(seed, "grad", 2, 4);
  const Sight sight{causal, *rc::gen::inRange<std::int64_t>(-1, 3)};
  const auto merges = *rc::gen::inRange(0, 3);
  const auto forward = attention(bounded(), q, k, v, sight, {}, merges);
  const auto stated = attention_gradients(bounded(), q, k, v, forward, grad, {}, merges);
  expect_gradient(q, stated.q, grad, [&](const auto& x) {
    return attention(dual(), x, along(k, -1), along(v, -1), sight).output;
  });
  expect_gradient(k, stated.k, grad, [&](const auto& x) {
    return attention(dual(), along(q, -1), x, along(v, -1), sight).output;
  });
  expect_gradient(v, stated.v, grad, [&](const auto& x) {
    return attention(dual(), along(q, -1), along(k, -1), x, sight).output;
  });
}

RC_GTEST_PROP(ReferenceGradients, OfMlp, (std::uint64_t seed, bool gated)) {
  const Eigen::Index inside = gated ? 4 : 2;
  const auto x = drawn(seed, "x", 2, 3), w1 = drawn(seed, "w1", inside, 3), b1 = drawn(seed, "b1", 1, inside);
  const auto w2 = drawn(seed, "w2", 3, 2), b2 = drawn(seed, "b2", 1, 3), grad = drawn(seed, "grad", 2, 3);
  const auto stated = Mlp<Bounded>(bounded(), Activation::silu, gated, {w1, b1, w2, b2}, x).gradients(grad);
  const auto forward = [&](const auto& of_x, const auto& of_w1, const auto& of_b1, const auto& of_w2,
                           const auto& of_b2) {
    return Mlp<Dual>(dual(), Activation::silu, gated, {of_w1, of_b1, of_w2, of_b2}, of_x).output();
  };
  const auto cx = along(x, -1), cw1 = along(w1, -1), cb1 = along(b1, -1), cw2 = along(w2, -1),
             cb2 = along(b2, -1);
  expect_gradient(x, stated.x, grad, [&](const auto& v) { return forward(v, cw1, cb1, cw2, cb2); });
  expect_gradient(w1, stated.fc1.weight, grad, [&](const auto& v) { return forward(cx, v, cb1, cw2, cb2); });
  expect_gradient(b1, stated.fc1.bias, grad, [&](const auto& v) { return forward(cx, cw1, v, cw2, cb2); });
  expect_gradient(w2, stated.fc2.weight, grad, [&](const auto& v) { return forward(cx, cw1, cb1, v, cb2); });
  expect_gradient(b2, stated.fc2.bias, grad, [&](const auto& v) { return forward(cx, cw1, cb1, cw2, v); });
}

// Two queries share a group, and there are two groups side by side.
RC_GTEST_PROP(ReferenceGradients, OfSelfAttention, (std::uint64_t seed, bool causal)) {
  const SelfAttentionSizes sizes{
      .sequence = 2, .batch = 2, .heads = 4, .groups = 2, .channels = 2, .sight = {causal}};
  const auto x = drawn(seed, "x", 4, 3), qkv = drawn(seed, "qkv", 16, 3),
             qkv_bias = drawn(seed, "qkv_bias", 1, 16);
  const auto proj = drawn(seed, "proj", 3, 8), proj_bias = drawn(seed, "proj_bias", 1, 3);
  const auto cosines = drawn(seed, "cosines", 2, 1), sines = drawn(seed, "sines", 2, 1);
  const auto grad = drawn(seed, "grad", 4, 3);
  const auto stated =
      SelfAttention<Bounded>(bounded(), sizes, {qkv, qkv_bias, proj, proj_bias, cosines, sines}, x)
          .gradients(grad);
  const auto forward = [&](const auto& of_x, const auto& of_qkv, const auto& of_bias, const auto& of_proj) {
    return SelfAttention<Dual>(
               dual(), sizes,
               {of_qkv, of_bias, of_proj, along(proj_bias, -1), along(cosines, -1), along(sines, -1)}, of_x)
        .output();
  };
  const auto cx = along(x, -1), cq = along(qkv, -1), cb = along(qkv_bias, -1), cp = along(proj, -1);
  expect_gradient(x, stated.x, grad, [&](const auto& v) { return forward(v, cq, cb, cp); });
  expect_gradient(qkv, stated.qkv.weight, grad, [&](const auto& v) { return forward(cx, v, cb, cp); });
  expect_gradient(qkv_bias, stated.qkv.bias, grad, [&](const auto& v) { return forward(cx, cq, v, cp); });
  expect_gradient(proj, stated.proj.weight, grad, [&](const auto& v) { return forward(cx, cq, cb, v); });
}

// The part of keys with positions is one for both heads, and heads of values are wider than those of keys.
RC_GTEST_PROP(ReferenceGradients, OfLatentAttention, (std::uint64_t seed, bool causal)) {
  const LatentAttentionSizes sizes{
      .sequence = 2, .batch = 2, .heads = 2, .content = 1, .positions = 2, .values = 4, .causal = causal};
  const auto x = drawn(seed, "x", 4, 3), q_down = drawn(seed, "q_down", 2, 3),
             q_up = drawn(seed, "q_up", 6, 2), kv_down = drawn(seed, "kv_down", 5, 3),
             kv_up = drawn(seed, "kv_up", 10, 3), proj = drawn(seed, "proj", 3, 8);
  const auto cosines = drawn(seed, "cosines", 2, 1), sines = drawn(seed, "sines", 2, 1);
  const auto grad = drawn(seed, "grad", 4, 3);
  const auto stated = LatentAttention<Bounded>(
                          bounded(), sizes, {q_down, q_up, kv_down, kv_up, proj, {}, cosines, sines, {}}, x)
                          .gradients(grad);
  using Duals = Matrix<Dual>;
  const auto forward = [&](const Duals& of_x, const Duals& of_q_down, const Duals& of_q_up,
                           const Duals& of_kv_down, const Duals& of_kv_up, const Duals& of_proj) {
    return LatentAttention<Dual>(dual(), sizes,
                                 {of_q_down,
                                  of_q_up,
                                  of_kv_down,
                                  of_kv_up,
                                  of_proj,
                                  {},
                                  along(cosines, -1),
                                  along(sines, -1),
                                  {}},
                                 of_x)
        .output();
  };
  const Duals cx = along(x, -1), cqd = along(q_down, -1), cqu = along(q_up, -1), ckd = along(kv_down, -1),
              cku = along(kv_up, -1), cp = along(proj, -1);
  expect_gradient(x, stated.x, grad, [&](const Duals& v) { return forward(v, cqd, cqu, ckd, cku, cp); });
  expect_gradient(q_down, stated.q_down.weight, grad,
                  [&](const Duals& v) { return forward(cx, v, cqu, ckd, cku, cp); });
  expect_gradient(q_up, stated.q_up.weight, grad,
                  [&](const Duals& v) { return forward(cx, cqd, v, ckd, cku, cp); });
  expect_gradient(kv_down, stated.kv_down.weight, grad,
                  [&](const Duals& v) { return forward(cx, cqd, cqu, v, cku, cp); });
  expect_gradient(kv_up, stated.kv_up.weight, grad,
                  [&](const Duals& v) { return forward(cx, cqd, cqu, ckd, v, cp); });
  expect_gradient(proj, stated.proj.weight, grad,
                  [&](const Duals& v) { return forward(cx, cqd, cqu, ckd, cku, v); });
}

RC_GTEST_PROP(ReferenceGradients, OfRotations, (std::uint64_t seed)) {
  const auto x = drawn(seed, "x", 3, 4), c = drawn(seed, "c", 3, 2), s = drawn(seed, "s", 3, 2);
  const auto grad = drawn(seed, "grad", 3, 4);
  expect_gradient(x, rotated(bounded(), grad, c, s, true), grad,
                  [&](const auto& v) { return rotated(dual(), v, along(c, -1), along(s, -1), false); });
}

}  // namespace
