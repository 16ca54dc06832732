// Proves that every kernel that layers use equals, bit for bit, a loop that says the same as its line in
// device.h, in f64, f32, bf16 and the field.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "sim/base/elementary.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/activation.h"
#include "sim/tensor/dropout.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/normalization.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/permutation.h"
#include "sim/tensor/rotary.h"
#include "sim/tensor/rows.h"
#include "sim/tensor/softmax.h"
#include "sim/tensor/token_loss.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;
using Ids = std::vector<std::int32_t>;

// ---- The scalars, and the functions of each ----

template <typename Scalar>
struct Of;
template <>
struct Of<double> {
  using Wide = double;
  static constexpr DType dtype = DType::f64, sums = DType::f64;
  static double wide(double x) { return x; }
  static double narrow(double x) { return x; }
};
template <>
struct Of<float> {
  using Wide = float;
  static constexpr DType dtype = DType::f32, sums = DType::f32;
  static float wide(float x) { return x; }
  static float narrow(float x) { return x; }
};
template <>
struct Of<bfloat16> {
  using Wide = float;
  static constexpr DType dtype = DType::bf16, sums = DType::f32;
  static float wide(bfloat16 x) { return to_float(x); }
  static bfloat16 narrow(float x) { return to_bfloat16(x); }
};
template <>
struct Of<Field> {
  using Wide = Field;
  static constexpr DType dtype = DType::field, sums = DType::field;
  static Field wide(const Field& x) { return x; }
  static Field narrow(const Field& x) { return x; }
};

const FieldTower& tower() {
  static const FieldTower one(5);
  return one;
}

template <typename T>
T exp_of(T x) {
  return elementary::exp(x);
}
Field exp_of(const Field& x) { return tower().exp(x); }
template <typename T>
T log_of(T x) {
  return elementary::log(x);
}
Field log_of(const Field& x) { return tower().log(x); }
template <typename T>
T rsqrt_of(T x) {
  return elementary::rsqrt(x);
}
Field rsqrt_of(const Field& x) { return tower().keyed("rsqrt", x); }
template <typename T>
T fma_of(T a, T b, T c) {
  return std::fma(a, b, c);
}
Field fma_of(const Field& a, const Field& b, const Field& c) { return a * b + c; }
template <typename T>
T of_whole(std::int64_t value) {
  if constexpr (std::is_same_v<T, Field>) {
    return Field::of(value);
  } else {
    return static_cast<T>(value);
  }
}
template <typename T>
T ratio(std::int64_t a, std::int64_t b) {
  return of_whole<T>(a) / of_whole<T>(b);
}
template <typename T>
T largest(const std::vector<T>& all) {
  if constexpr (std::is_same_v<T, Field>) {
    Field result = all.empty() ? Field() : all.front();
    for (const Field& x : all) result = max(result, x);
    return result;
  } else {
    return std::accumulate(all.begin(), all.end(), -std::numeric_limits<T>::infinity(),
                           [](T a, T b) { return std::max(a, b); });
  }
}

/// What a softmax subtracts from a row of scores.
template <typename T>
T shift_of(const std::vector<T>& scores) {
  if constexpr (std::is_same_v<T, Field>) return Field();
  return largest(scores);
}

/// Adds the terms in 16 lanes: lane l adds the terms l, l + 16 and so on. Then eight lanes are added to
/// eight, four to four, two to two, and one to one.
template <typename T>
T in_lanes(const std::vector<T>& terms) {
  std::array<T, 16> lanes{};
  for (std::size_t i = 0; i < terms.size(); ++i) lanes[i % 16] = lanes[i % 16] + terms[i];
  for (const std::size_t n : {8U, 4U, 2U, 1U}) {
    for (std::size_t l = 0; l < n; ++l) lanes[l] = lanes[l] + lanes[l + n];
  }
  return lanes[0];
}

// ---- A tensor and its values, side by side ----

template <typename Scalar>
struct Matrix {
  using Wide = typename Of<Scalar>::Wide;
  Tensor tensor;
  std::vector<Scalar> given;
  std::int64_t columns;

  Wide at(std::int64_t row, std::int64_t column) const {
    return Of<Scalar>::wide(given[static_cast<std::size_t>(row * columns + column)]);
  }
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  template <typename Scalar>
  Matrix<Scalar> matrix(const Shape& shape) {
    const Tensor tensor = keyed(device, Of<Scalar>::dtype, shape, random_.named(std::to_string(++drawn_)));
    const std::int64_t columns = shape.dimensions() == 0 ? 1 : shape[shape.dimensions() - 1];
    return {tensor, values<Scalar>(tensor), columns};
  }

  /// Draws ids from `least` to `most`, both included.
  Ids ids(std::int64_t count, std::int32_t least, std::int32_t most) {
    Ids result(static_cast<std::size_t>(count));
    ++drawn_;
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] =
          least +
          static_cast<std::int32_t>(
              random_.named(std::to_string(drawn_)).below(i, static_cast<std::uint32_t>(most - least + 1)));
    }
    return result;
  }
  Tensor tensor(const Ids& ids) { return tensor_of(device, DType::i32, {std::ssize(ids)}, ids); }

  CpuDevice device{5};

 private:
  KeyedRandom random_;
  int drawn_ = 0;
};

template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Field> || std::is_same_v<T, bfloat16>) {
    return a == b;
  } else {
    return a == b || (a != a && b != b);
  }
}

template <typename Scalar, typename Element>
void expect_elements(const Tensor& tensor, std::int64_t columns, const Element& element) {
  const std::vector<Scalar> got = values<Scalar>(tensor);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / columns;
    const Scalar expected = Of<Scalar>::narrow(element(row, static_cast<std::int64_t>(i) % columns));
    RC_ASSERT(same(got[i], expected));
  }
}

/// Runs a check in every dtype, each on values of its own.
template <typename Check>
void in_every_dtype(std::uint64_t seed, const Check& check) {
  Draw draw(seed);
  check.template operator()<double>(draw);
  check.template operator()<float>(draw);
  check.template operator()<bfloat16>(draw);
  check.template operator()<Field>(draw);
}

std::int64_t size(int least, int below) { return *rc::gen::inRange(least, below); }

// ---- Products ----

RC_GTEST_PROP(Kernels, MatmulIsTheFiveLineLoop, (std::uint64_t seed, bool at, bool bt)) {
  const std::int64_t batches = size(0, 4), m = size(0, 9), n = size(0, 30), k = size(0, 40);
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto a = draw.matrix<Scalar>(at ? Shape{batches, k, m} : Shape{batches, m, k});
    const auto b = draw.matrix<Scalar>(bt ? Shape{batches, n, k} : Shape{batches, k, n});
    const auto from = [&](Wide start, std::int64_t row, std::int64_t j) {
      const std::int64_t batch = row / m, i = row % m;
      for (std::int64_t t = 0; t < k; ++t) {
        const Wide left = at ? a.at(batch * k + t, i) : a.at(batch * m + i, t);
        const Wide right = bt ? b.at(batch * n + j, t) : b.at(batch * k + t, j);
        start = fma_of(left, right, start);
      }
      return start;
    };
    const Tensor product = matmul({a.tensor, at}, {b.tensor, bt});
    expect_elements<Scalar>(product, n, [&](std::int64_t i, std::int64_t j) { return from(Wide{}, i, j); });

    auto sums = draw.matrix<Wide>({batches, m, n});
    add_matmul({a.tensor, at}, {b.tensor, bt}, sums.tensor);
    expect_elements<Wide>(sums.tensor, n,
                          [&](std::int64_t i, std::int64_t j) { return from(sums.at(i, j), i, j); });
  });
}

// ---- Rows ----

RC_GTEST_PROP(Kernels, BiasAndColumnSums, (std::uint64_t seed)) {
  const std::int64_t rows = size(0, 6), columns = size(1, 40);
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({rows, columns});
    const auto bias = draw.matrix<Scalar>({columns});
    expect_elements<Scalar>(add_bias(x.tensor, bias.tensor), columns,
                            [&](std::int64_t t, std::int64_t f) { return x.at(t, f) + bias.at(0, f); });
    auto sums = draw.matrix<Wide>({columns});
    add_column_sums(x.tensor, sums.tensor);
    expect_elements<Wide>(sums.tensor, columns, [&](std::int64_t, std::int64_t f) {
      Wide sum = sums.at(0, f);
      for (std::int64_t t = 0; t < rows; ++t) sum = sum + x.at(t, f);
      return sum;
    });
  });
}

RC_GTEST_PROP(Kernels, ColumnsAreTakenAndPut, (std::uint64_t seed)) {
  const std::int64_t rows = size(0, 4), width = size(1, 9);
  const std::int64_t begin = size(0, static_cast<int>(width)),
                     count = size(0, static_cast<int>(width - begin + 1));
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    const auto x = draw.matrix<Scalar>({rows, width});
    const auto part = draw.matrix<Scalar>({rows, count});
    const Tensor taken = columns(x.tensor, begin, count);
    RC_ASSERT((taken.shape() == Shape{rows, count}));
    if (count > 0) {
      expect_elements<Scalar>(taken, count,
                              [&](std::int64_t t, std::int64_t f) { return x.at(t, begin + f); });
    }
    Tensor out = x.tensor;
    put_columns(part.tensor, out, begin);
    expect_elements<Scalar>(out, width, [&](std::int64_t t, std::int64_t f) {
      return f >= begin && f < begin + count ? part.at(t, f - begin) : x.at(t, f);
    });
  });
}

RC_GTEST_PROP(Kernels, RowsAreLookedUpAndAddedTo, (std::uint64_t seed)) {
  const std::int64_t vocabulary = size(1, 5), columns = size(1, 20), tokens = size(0, 9);
  const std::int32_t first = static_cast<std::int32_t>(size(0, 5));
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const Ids ids = draw.ids(tokens, 0, first + static_cast<std::int32_t>(vocabulary) + 2);
    const auto row_of = [&](std::int64_t t) {
      const std::int64_t row = ids[static_cast<std::size_t>(t)] - first;
      return row >= 0 && row < vocabulary ? row : -1;
    };
    const auto table = draw.matrix<Scalar>({vocabulary, columns});
    expect_elements<Scalar>(
        lookup(table.tensor, draw.tensor(ids), first), columns,
        [&](std::int64_t t, std::int64_t f) { return row_of(t) < 0 ? Wide{} : table.at(row_of(t), f); });
    const auto rows = draw.matrix<Scalar>({tokens, columns});
    auto sums = draw.matrix<Wide>({vocabulary, columns});
    add_to_rows(rows.tensor, draw.tensor(ids), first, sums.tensor);
    expect_elements<Wide>(sums.tensor, columns, [&](std::int64_t v, std::int64_t f) {
      Wide sum = sums.at(v, f);
      for (std::int64_t t = 0; t < tokens; ++t) {
        if (row_of(t) == v) sum = sum + rows.at(t, f);
      }
      return sum;
    });
  });
}

RC_GTEST_PROP(Kernels, PermutedDimensions, (std::uint64_t seed)) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t last = 4; last > 1; --last) {
    std::swap(order[last - 1], order[static_cast<std::size_t>(size(0, static_cast<int>(last)))]);
  }
  const std::array<std::int64_t, 4> n = {size(0, 4), size(1, 4), size(1, 4), size(1, 4)};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    const auto x = draw.matrix<Scalar>({n[0], n[1], n[2], n[3]});
    const Tensor y = permuted(x.tensor, order);
    const std::int64_t columns = y.shape()[3];
    expect_elements<Scalar>(y, columns, [&](std::int64_t row, std::int64_t column) {
      std::array<std::int64_t, 4> at{};
      at[static_cast<std::size_t>(order[3])] = column;
      for (std::size_t i = 3; i-- > 0; row /= y.shape()[i]) {
        at[static_cast<std::size_t>(order[i])] = row % y.shape()[i];
      }
      return x.at((at[0] * n[1] + at[1]) * n[2] + at[2], at[3]);
    });
  });
}

// ---- Functions ----

RC_GTEST_PROP(Kernels, DropoutKeepsByStreamAndIndex, (std::uint64_t seed)) {
  const std::int64_t count = size(0, 50);
  const Ratio drop = {size(0, 10), 10};
  const KeyedRandom stream = KeyedRandom(seed).named("dropout");
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({count});
    const Wide factor = ratio<Wide>(10, 10 - drop.numerator);
    expect_elements<Scalar>(
        dropout(x.tensor, stream, drop), std::max<std::int64_t>(count, 1), [&](std::int64_t, std::int64_t i) {
          const double u = stream.uniform(static_cast<std::uint64_t>(i));
          return x.at(0, i) * (10 * u < static_cast<double>(drop.numerator) ? Wide{} : factor);
        });
  });
}

/// The formulas of the three functions and of their derivatives, in the order in which the kernels round.
template <typename T>
T activated(Activation function, bool derivative, T x) {
  const T half = T(0.5L), root_two_by_pi = T(0.79788456080286535588L), cubic = T(0.044715L);
  if (function == Activation::silu) {
    const T s = 1 / (1 + elementary::exp(-x));
    return derivative ? s * std::fma(x, 1 - s, T{1}) : x / (1 + elementary::exp(-x));
  }
  if (function == Activation::gelu_erf) {
    const T e = elementary::erf(x * T(0.70710678118654752440L));
    if (!derivative) return half * x * (1 + e);
    const T density = T(0.39894228040143267794L) * elementary::exp(-half * x * x);
    return std::fma(x, density, std::fma(half, e, half));
  }
  const T t = elementary::tanh(root_two_by_pi * std::fma(cubic * x * x, x, x));
  if (!derivative) return half * x * (1 + t);
  return std::fma(half * x * (1 - t * t), root_two_by_pi * std::fma(3 * cubic * x, x, T{1}), half * (1 + t));
}
Field activated(Activation function, bool derivative, const Field& x) {
  const std::string names[] = {"gelu_tanh", "gelu_erf", "silu"};
  return tower().keyed(names[static_cast<std::size_t>(function)] + (derivative ? "_derivative" : ""), x);
}

RC_GTEST_PROP(Kernels, ActivationsAndTheirGradients, (std::uint64_t seed)) {
  const std::int64_t count = size(0, 40);
  const auto function = static_cast<Activation>(size(0, 3));
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    const auto x = draw.matrix<Scalar>({count});
    const auto grad = draw.matrix<Scalar>({count});
    const std::int64_t width = std::max<std::int64_t>(count, 1);
    expect_elements<Scalar>(activate(function, x.tensor), width, [&](std::int64_t, std::int64_t i) {
      return activated(function, false, x.at(0, i));
    });
    expect_elements<Scalar>(
        activate_backward(function, x.tensor, grad.tensor), width,
        [&](std::int64_t, std::int64_t i) { return grad.at(0, i) * activated(function, true, x.at(0, i)); });
  });
}

RC_GTEST_PROP(Kernels, RotationsTurnPairsAndBack, (std::uint64_t seed, bool backward)) {
  const std::int64_t positions = size(0, 4), batch = size(1, 3), heads = size(1, 3), pairs = size(1, 20);
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    const auto x = draw.matrix<Scalar>({positions, batch, heads, 2 * pairs});
    const auto c = draw.matrix<Scalar>({positions, pairs});
    const auto s = draw.matrix<Scalar>({positions, pairs});
    expect_elements<Scalar>(rotate(x.tensor, c.tensor, s.tensor, backward), 2 * pairs,
                            [&](std::int64_t t, std::int64_t f) {
                              const std::int64_t position = t / (batch * heads), i = f % pairs;
                              const auto a = x.at(t, i), b = x.at(t, i + pairs);
                              const auto sine = backward ? -s.at(position, i) : s.at(position, i);
                              return f < pairs ? fma_of(a, c.at(position, i), -(b * sine))
                                               : fma_of(a, sine, b * c.at(position, i));
                            });
  });
}

/// The first of k keys that query t of q sees.
std::int64_t first_seen(const SeenKeys& keys, std::int64_t t, std::int64_t q, std::int64_t k) {
  const std::int64_t distant = t % q + k - q - keys.window;
  return keys.causal && keys.window >= 0 ? std::max<std::int64_t>(0, distant) : 0;
}

/// A row whose first elements are 0, and then `seen`.
template <typename Wide>
std::vector<Wide> behind_zeros(std::int64_t zeros, const std::vector<Wide>& seen) {
  std::vector<Wide> row(static_cast<std::size_t>(zeros), Wide{});
  row.insert(row.end(), seen.begin(), seen.end());
  return row;
}

RC_GTEST_PROP(Kernels, SoftmaxAndItsGradient, (std::uint64_t seed, bool causal)) {
  const std::int64_t batches = size(1, 3), q = size(1, 5), k = q + size(0, 30), divisor = size(1, 9);
  const SeenKeys keys{causal, size(-1, 8)};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({batches, q, k});
    const auto grad = draw.matrix<Scalar>({batches, q, k});
    const Wide factor = rsqrt_of(of_whole<Wide>(divisor));
    const auto probabilities = [&](std::int64_t t) {
      std::vector<Wide> row;
      for (std::int64_t j = first_seen(keys, t, q, k); j < (causal ? t % q + 1 + k - q : k); ++j)
        row.push_back(x.at(t, j) * factor);
      const Wide shift = shift_of(row);
      for (Wide& score : row) score = exp_of(score - shift);
      const std::int64_t unseen = first_seen(keys, t, q, k);
      const Wide inverse = of_whole<Wide>(1) / in_lanes(behind_zeros(unseen, row));
      for (Wide& e : row) e = e * inverse;
      row = behind_zeros(unseen, row);
      row.resize(static_cast<std::size_t>(k));
      return row;
    };
    const Tensor p = softmax(x.tensor, divisor, keys);
    expect_elements<Scalar>(
        p, k, [&](std::int64_t t, std::int64_t j) { return probabilities(t)[static_cast<std::size_t>(j)]; });
    const Matrix<Scalar> given{p, values<Scalar>(p), k};
    expect_elements<Scalar>(softmax_backward(p, grad.tensor, divisor), k,
                            [&](std::int64_t t, std::int64_t j) {
                              std::vector<Wide> terms;
                              for (std::int64_t i = 0; i < k; ++i)
                                terms.push_back(given.at(t, i) * grad.at(t, i));
                              return given.at(t, j) * (grad.at(t, j) - in_lanes(terms)) * factor;
                            });
  });
}

RC_GTEST_PROP(Kernels, SoftmaxOfAPartIsNotDivided, (std::uint64_t seed, bool causal)) {
  const std::int64_t batches = size(1, 3), q = size(1, 5), k = q + size(0, 30), divisor = size(1, 9);
  const SeenKeys keys{causal, size(-1, 8)};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({batches, q, k});
    const Wide factor = rsqrt_of(of_whole<Wide>(divisor));
    const auto scores = [&](std::int64_t t) {
      std::vector<Wide> row;
      for (std::int64_t j = first_seen(keys, t, q, k); j < (causal ? t % q + 1 + k - q : k); ++j)
        row.push_back(x.at(t, j) * factor);
      return row;
    };
    const auto exps_of = [&](std::int64_t t) {
      std::vector<Wide> row = scores(t);
      const Wide shift = shift_of(row);
      for (Wide& score : row) score = exp_of(score - shift);
      return behind_zeros(first_seen(keys, t, q, k), row);
    };
    Tensor stats = draw.device.empty(Of<Scalar>::sums, {2, batches * q});
    const Tensor exps = partial_softmax(x.tensor, divisor, keys, stats);
    expect_elements<Scalar>(exps, k, [&](std::int64_t t, std::int64_t j) {
      const std::vector<Wide> row = exps_of(t);
      return j < std::ssize(row) ? row[static_cast<std::size_t>(j)] : Wide{};
    });
    expect_elements<Wide>(stats, batches * q, [&](std::int64_t is_sum, std::int64_t t) {
      return is_sum == 0 ? shift_of(scores(t)) : in_lanes(exps_of(t));
    });
  });
}

RC_GTEST_PROP(Kernels, SoftmaxOfPartsIsMerged, (std::uint64_t seed)) {
  const std::int64_t rows = size(1, 5), columns = size(1, 20);
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto part = draw.matrix<Wide>({rows, columns});
    const auto part_stats = draw.matrix<Wide>({2, rows});
    const auto before = draw.matrix<Wide>({rows, columns});
    auto before_stats = draw.matrix<Wide>({2, rows});
    Tensor shifts = before_stats.tensor.rows(0, 1);
    if (seed % 2 == 0) copy(part_stats.tensor.rows(0, 1), shifts);  // shifts that are equal
    const Matrix<Wide> stats{before_stats.tensor, values<Wide>(before_stats.tensor), rows};
    const auto merged = [&](std::int64_t t) {
      const Wide a = stats.at(0, t), b = part_stats.at(0, t), shift = largest(std::vector<Wide>{a, b});
      const Wide weight_a = a == shift ? of_whole<Wide>(1) : exp_of(a - shift);
      const Wide weight_b = b == shift ? of_whole<Wide>(1) : exp_of(b - shift);
      const Wide sum = fma_of(part_stats.at(1, t), weight_b, stats.at(1, t) * weight_a);
      return std::array<Wide, 4>{shift, sum, weight_a, weight_b};
    };
    Tensor out = draw.device.empty(before.tensor.dtype(), before.tensor.shape());
    copy(before.tensor, out);
    merge_softmax(part.tensor, part_stats.tensor, out, before_stats.tensor);
    expect_elements<Wide>(before_stats.tensor, rows, [&](std::int64_t i, std::int64_t t) {
      return merged(t)[static_cast<std::size_t>(i)];
    });
    expect_elements<Wide>(out, columns, [&](std::int64_t t, std::int64_t f) {
      const auto [shift, sum, weight_a, weight_b] = merged(t);
      return fma_of(part.at(t, f), weight_b, before.at(t, f) * weight_a);
    });
    const Matrix<Wide> sums{out, values<Wide>(out), columns};
    expect_elements<Scalar>(
        finish_softmax(out, before_stats.tensor, Of<Scalar>::dtype), columns,
        [&](std::int64_t t, std::int64_t f) { return sums.at(t, f) * (of_whole<Wide>(1) / merged(t)[1]); });
  });
}

RC_GTEST_PROP(Kernels, SoftmaxOfPartsHasItsGradient, (std::uint64_t seed, bool causal)) {
  const std::int64_t batches = size(1, 3), q = size(1, 5), k = q + size(0, 30), divisor = size(1, 9);
  const SeenKeys keys{causal, size(-1, 8)};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({batches, q, k});
    const auto grad = draw.matrix<Scalar>({batches, q, k});
    const auto stats = draw.matrix<Wide>({2, batches * q});
    const auto means = draw.matrix<Wide>({batches * q});
    const Wide factor = rsqrt_of(of_whole<Wide>(divisor));
    const auto probability = [&](std::int64_t t, std::int64_t j) {
      if (causal && (j > t % q + k - q || j < first_seen(keys, t, q, k))) return Wide{};
      return exp_of(x.at(t, j) * factor - stats.at(0, t)) * (of_whole<Wide>(1) / stats.at(1, t));
    };
    const auto of_scores =
        partial_softmax_backward(x.tensor, divisor, keys, stats.tensor, grad.tensor, means.tensor);
    expect_elements<Scalar>(of_scores.probabilities, k, probability);
    expect_elements<Scalar>(of_scores.scores, k, [&](std::int64_t t, std::int64_t j) {
      if (causal && (j > t % q + k - q || j < first_seen(keys, t, q, k))) return Wide{};
      return probability(t, j) * (grad.at(t, j) - means.at(0, t)) * factor;
    });
  });
}

RC_GTEST_PROP(Kernels, NormsAndTheirGradients, (std::uint64_t seed, bool is_layer_norm)) {
  const std::int64_t rows = size(0, 5), columns = size(1, 40);
  const Norm norm = is_layer_norm ? Norm::layer_norm : Norm::rms_norm;
  const Ratio epsilon = {1, 1024};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({rows, columns});
    const auto w = draw.matrix<Scalar>({columns});
    const auto b = draw.matrix<Scalar>({columns});
    const auto g = draw.matrix<Scalar>({rows, columns});
    const Wide per_column = ratio<Wide>(1, columns);
    const auto mean_of = [&](auto&& term) {
      std::vector<Wide> terms;
      for (std::int64_t f = 0; f < columns; ++f) terms.push_back(term(f));
      return in_lanes(terms) * per_column;
    };
    const auto each_row = [&](auto&& of_row) {
      std::vector<Wide> all;
      for (std::int64_t t = 0; t < rows; ++t) all.push_back(of_row(t));
      return [all](std::int64_t t) { return all[static_cast<std::size_t>(t)]; };
    };
    const auto mean = each_row([&](std::int64_t t) {
      return is_layer_norm ? mean_of([&](std::int64_t f) { return x.at(t, f); }) : Wide{};
    });
    const auto rstd = each_row([&](std::int64_t t) {
      const Wide variance =
          mean_of([&](std::int64_t f) { return (x.at(t, f) - mean(t)) * (x.at(t, f) - mean(t)); });
      return rsqrt_of(variance + ratio<Wide>(1, 1024));
    });
    const Normalized y = normalize(norm, x.tensor, w.tensor, is_layer_norm ? b.tensor : Tensor(), epsilon);
    expect_elements<Wide>(y.stats, std::max<std::int64_t>(rows, 1),
                          [&](std::int64_t what, std::int64_t t) { return what == 0 ? mean(t) : rstd(t); });
    const auto normal = [&](std::int64_t t, std::int64_t f) { return (x.at(t, f) - mean(t)) * rstd(t); };
    expect_elements<Scalar>(y.output, columns, [&](std::int64_t t, std::int64_t f) {
      const Wide scaled = normal(t, f) * w.at(0, f);
      return is_layer_norm ? scaled + b.at(0, f) : scaled;
    });

    auto weight_sums = draw.matrix<Wide>({columns});
    auto bias_sums = draw.matrix<Wide>({columns});
    Tensor no_bias;
    const Tensor grad_x = normalize_backward(norm, x.tensor, w.tensor, y.stats, g.tensor, weight_sums.tensor,
                                             is_layer_norm ? bias_sums.tensor : no_bias);
    const auto slope = [&](std::int64_t t, std::int64_t f) { return g.at(t, f) * w.at(0, f); };
    const auto along_one = each_row([&](std::int64_t t) {
      return is_layer_norm ? mean_of([&](std::int64_t i) { return slope(t, i); }) : Wide{};
    });
    const auto along_normal = each_row(
        [&](std::int64_t t) { return mean_of([&](std::int64_t i) { return slope(t, i) * normal(t, i); }); });
    expect_elements<Scalar>(grad_x, columns, [&](std::int64_t t, std::int64_t f) {
      return (slope(t, f) - along_one(t) - normal(t, f) * along_normal(t)) * rstd(t);
    });
    expect_elements<Wide>(weight_sums.tensor, columns, [&](std::int64_t, std::int64_t f) {
      Wide sum = weight_sums.at(0, f);
      for (std::int64_t t = 0; t < rows; ++t) sum = fma_of(g.at(t, f), normal(t, f), sum);
      return sum;
    });
    expect_elements<Wide>(bias_sums.tensor, columns, [&](std::int64_t, std::int64_t f) {
      Wide sum = bias_sums.at(0, f);
      for (std::int64_t t = 0; t < rows && is_layer_norm; ++t) sum = sum + g.at(t, f);
      return sum;
    });
  });
}

// ---- Cross-entropy ----

RC_GTEST_PROP(Kernels, PartsOfTheTokenLoss, (std::uint64_t seed, bool smooths)) {
  const std::int64_t tokens = size(0, 6), width = size(1, 40);
  TokenLoss loss{.first_id = size(0, 5),
                 .columns = size(0, static_cast<int>(width + 1)),
                 .vocabulary = width + 3,
                 .ignored_id = 2,
                 .smoothing = {smooths ? 1 : 0, 8}};
  in_every_dtype(seed, [&]<typename Scalar>(Draw& draw) {
    using Wide = typename Of<Scalar>::Wide;
    const auto x = draw.matrix<Scalar>({tokens, width});
    const auto m = draw.matrix<Wide>({tokens});
    const auto g = draw.matrix<Wide>({tokens});
    const Ids ids = draw.ids(tokens, 0, static_cast<std::int32_t>(loss.first_id + width));
    const Tensor targets = draw.tensor(ids);
    const auto is_ignored = [&](std::int64_t t) {
      return ids[static_cast<std::size_t>(t)] == loss.ignored_id;
    };
    const auto is_target = [&](std::int64_t t, std::int64_t v) {
      return !is_ignored(t) && v < loss.columns && ids[static_cast<std::size_t>(t)] == loss.first_id + v;
    };
    const auto shifted = [&](std::int64_t t, std::int64_t v) { return x.at(t, v) - m.at(0, t); };
    const auto sum_of = [&](auto&& term) {
      std::vector<Wide> terms;
      for (std::int64_t v = 0; v < loss.columns; ++v) terms.push_back(term(v));
      return in_lanes(terms);
    };
    expect_elements<Wide>(row_max(x.tensor, loss), std::max<std::int64_t>(tokens, 1),
                          [&](std::int64_t, std::int64_t t) {
                            std::vector<Wide> row;
                            for (std::int64_t v = 0; v < loss.columns; ++v) row.push_back(x.at(t, v));
                            return largest(row);
                          });
    const TokenParts parts = token_parts(x.tensor, m.tensor, targets, loss);
    expect_elements<Wide>(parts.exps, width, [&](std::int64_t t, std::int64_t v) {
      return v < loss.columns ? exp_of(shifted(t, v)) : Wide{};
    });
    RC_ASSERT(parts.parts.shape() == (Shape{smooths ? 3 : 2, tokens}));
    expect_elements<Wide>(parts.parts, std::max<std::int64_t>(tokens, 1),
                          [&](std::int64_t what, std::int64_t t) {
                            if (what == 1)
                              return sum_of([&](std::int64_t v) { return exp_of(shifted(t, v)); });
                            if (what == 2) return sum_of([&](std::int64_t v) { return shifted(t, v); });
                            Wide predicted{};
                            for (std::int64_t v = 0; v < width; ++v) {
                              if (is_target(t, v)) predicted = shifted(t, v);
                            }
                            return predicted;
                          });

    // These are values that the sums over a group could have.
    const auto total = draw.matrix<Wide>({smooths ? 3 : 2, tokens});
    const Wide s = ratio<Wide>(smooths ? 1 : 0, 8);
    const Wide sharp = ratio<Wide>(smooths ? 7 : 8, 8);
    expect_elements<Wide>(token_loss(total.tensor, targets, loss), std::max<std::int64_t>(tokens, 1),
                          [&](std::int64_t, std::int64_t t) {
                            if (is_ignored(t)) return Wide{};
                            const Wide log_sum = log_of(total.at(1, t));
                            const Wide of_target = log_sum - total.at(0, t);
                            if (!smooths) return of_target;
                            return sharp * of_target +
                                   s * (log_sum - total.at(2, t) * ratio<Wide>(1, loss.vocabulary));
                          });
    const Wide smooth = ratio<Wide>(smooths ? 1 : 0, 8 * loss.vocabulary);
    expect_elements<Scalar>(
        token_loss_backward(Of<Scalar>::dtype, parts.exps, total.tensor, targets, loss, g.tensor), width,
        [&](std::int64_t t, std::int64_t v) {
          if (is_ignored(t) || v >= loss.columns) return Wide{};
          const Wide p = exp_of(shifted(t, v)) * (of_whole<Wide>(1) / total.at(1, t));
          return (is_target(t, v) ? p - smooth - sharp : p - smooth) * g.at(0, t);
        });
  });
}

TEST(Kernels, TheLargestOfARowIsANumberWhereverNanStands) {
  constexpr std::size_t kColumns = 37;
  CpuDevice device;
  for (std::size_t number = 0; number < kColumns; ++number) {
    std::vector<double> row(kColumns, std::numeric_limits<double>::quiet_NaN());
    row[number] = -3;
    const Tensor x = tensor_of(device, DType::f64, {1, kColumns}, row);
    EXPECT_EQ(values<double>(row_max(x, {.columns = kColumns, .vocabulary = kColumns})),
              std::vector<double>{-3});
  }
}

}  // namespace
