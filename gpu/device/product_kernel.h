#pragma once

/// The matrix product, tile by tile. Each block of threads keeps a tile of the output in registers, and reads
/// the terms through shared memory. The next terms are fetched while the current ones are multiplied.
///
/// Shapes  A tile is kTile x kTile. A thread's part of it is kPer x kPer, in four corners that lie kTile / 2
///         apart. Terms are taken kDepth at once.
/// Calls   A source file includes this header to define the kernel, once for each kind of launch. run() is
///         the work of one block: block.each(call) runs call(thread, its part) on every thread, and ends when
///         all threads have done it.
/// Exact   Each output is an independent chain: it starts from 0 or from its old value, and adds the terms
///         k = 0, 1, 2, ... with one fma each. Missing terms at the end are skipped, not replaced by zeros,
///         because zeros would turn a sum of -0 into 0, and an infinity into a NaN.

#include <cstddef>

#include "gpu/device/launch.h"
#include "sim/tensor/float_arithmetic.h"

namespace gpu {

namespace {

/// A batch of matrices in memory. Element (i, j) of batch b is first[b batch_step + i row_step + j
/// column_step].
template <typename Scalar>
struct Matrices {
  const Scalar* first;
  std::int64_t batch_step;
  std::int64_t row_step;
  std::int64_t column_step;
};

template <typename Scalar>
Matrices<Scalar> matrices(const Tensor& operand, bool transposed, std::int64_t rows, std::int64_t columns) {
  if (transposed) return {as<Scalar>(operand), rows * columns, 1, rows};
  return {as<Scalar>(operand), rows * columns, columns, 1};
}

/// The length of an array, as the unsigned type that arrays need.
template <int count>
constexpr std::size_t kLength = static_cast<std::size_t>(count);

template <typename Sum, int count>
struct alignas(sizeof(Sum) * kLength<count>) Pack {
  Sum values[kLength<count>];
};

template <typename Scalar, typename Out, int tile, int per>
struct TiledProduct {
  using Sum = typename sim::Arithmetic<Scalar>::Wide;
  static constexpr int kTile = tile;
  static constexpr int kPer = per;
  static constexpr int kDepth = 8;
  static constexpr int kSide = kTile / kPer;  // threads along a tile
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kLoads = kTile * kDepth / kThreads;  // elements of an operand that a thread fetches
  static constexpr int kHalf = kPer / 2;
  static constexpr int kLine = kTile + 16 / static_cast<int>(sizeof(Sum));  // padded against bank conflicts

  struct Part {
    Sum sums[kLength<kPer>][kLength<kPer>];
    Sum left[kLength<kLoads>];
    Sum right[kLength<kLoads>];
  };
  struct Shared {
    alignas(16) Sum left[2][kLength<kDepth>][kLength<kLine>];
    alignas(16) Sum right[2][kLength<kDepth>][kLength<kLine>];
  };

  ProductSizes sizes;
  Matrices<Scalar> a;
  Matrices<Scalar> b;
  Out* out;
  bool accumulate;

  SIM_HOST_DEVICE std::int64_t row_tiles() const { return (sizes.rows + kTile - 1) / kTile; }
  SIM_HOST_DEVICE std::int64_t column_tiles() const { return (sizes.columns + kTile - 1) / kTile; }

  /// Computes one tile of one batch.
  template <typename Block>
  SIM_HOST_DEVICE void run(Block& block, Shared& shared, std::int64_t batch, std::int64_t first_row,
                           std::int64_t first_column) const {
    block.each([&](int thread, Part& part) { begin(thread, part, batch, first_row, first_column); });
    if (sizes.terms > 0) {
      block.each([&](int thread, Part& part) {
        fetch(thread, part, batch, first_row, first_column, 0);
        put(thread, part, shared, 0);
      });
    }
    int buffer = 0;
    for (std::int64_t term = 0; term < sizes.terms; term += kDepth, buffer = 1 - buffer) {
      const std::int64_t left = sizes.terms - term;
      block.each([&](int thread, Part& part) {
        if (left > kDepth) fetch(thread, part, batch, first_row, first_column, term + kDepth);
        multiply(thread, part, shared, buffer, left);
        if (left > kDepth) put(thread, part, shared, 1 - buffer);
      });
    }
    block.each([&](int thread, Part& part) { end(thread, part, batch, first_row, first_column); });
  }

 private:
  /// Returns the place along a tile of element i of a thread's part.
  SIM_HOST_DEVICE static int place(int side, int i) {
    return i < kHalf ? side * kHalf + i : kTile / 2 + side * kHalf + (i - kHalf);
  }

  SIM_HOST_DEVICE bool is_inside(std::int64_t row, std::int64_t column) const {
    return row < sizes.rows && column < sizes.columns;
  }
  SIM_HOST_DEVICE std::int64_t index(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return (batch * sizes.rows + row) * sizes.columns + column;
  }

  SIM_HOST_DEVICE void begin(int thread, Part& part, std::int64_t batch, std::int64_t first_row,
                             std::int64_t first_column) const {
    const sim::Arithmetic<Out> number{};
    SIM_UNROLL
    for (int i = 0; i < kPer; ++i) {
      SIM_UNROLL
      for (int j = 0; j < kPer; ++j) {
        const std::int64_t row = first_row + place(thread / kSide, i);
        const std::int64_t column = first_column + place(thread % kSide, j);
        part.sums[i][j] = Sum{};
        if (accumulate && is_inside(row, column))
          part.sums[i][j] = number.load(out[index(batch, row, column)]);
      }
    }
  }

  /// These two return the line (row of a, column of b) and the term of an element that a thread fetches.
  /// Neighbouring threads fetch elements that are neighbours in memory.
  SIM_HOST_DEVICE static int line_of(int element, bool terms_together) {
    return terms_together ? element / kDepth : element % kTile;
  }
  SIM_HOST_DEVICE static int term_of(int element, bool terms_together) {
    return terms_together ? element % kDepth : element / kTile;
  }

  SIM_HOST_DEVICE void fetch(int thread, Part& part, std::int64_t batch, std::int64_t first_row,
                             std::int64_t first_column, std::int64_t first_term) const {
    const sim::Arithmetic<Scalar> number{};
    SIM_UNROLL
    for (int load = 0; load < kLoads; ++load) {
      const int element = thread + load * kThreads;
      const bool a_together = a.column_step == 1;
      const std::int64_t row = first_row + line_of(element, a_together);
      const std::int64_t a_term = first_term + term_of(element, a_together);
      const bool in_a = row < sizes.rows && a_term < sizes.terms;
      part.left[load] =
          in_a ? number.load(a.first[batch * a.batch_step + row * a.row_step + a_term * a.column_step])
               : Sum{};
      const bool b_together = b.row_step == 1;
      const std::int64_t column = first_column + line_of(element, b_together);
      const std::int64_t b_term = first_term + term_of(element, b_together);
      const bool in_b = column < sizes.columns && b_term < sizes.terms;
      part.right[load] =
          in_b ? number.load(b.first[batch * b.batch_step + b_term * b.row_step + column * b.column_step])
               : Sum{};
    }
  }

  SIM_HOST_DEVICE void put(int thread, const Part& part, Shared& shared, int buffer) const {
    SIM_UNROLL
    for (int load = 0; load < kLoads; ++load) {
      const int element = thread + load * kThreads;
      const bool a_together = a.column_step == 1;
      const bool b_together = b.row_step == 1;
      shared.left[buffer][term_of(element, a_together)][line_of(element, a_together)] = part.left[load];
      shared.right[buffer][term_of(element, b_together)][line_of(element, b_together)] = part.right[load];
    }
  }

  /// Reads a thread's part of a line from shared memory, as two packs.
  SIM_HOST_DEVICE static void take(const Sum* line, int side, Sum (&values)[kLength<kPer>]) {
    const auto low = *reinterpret_cast<const Pack<Sum, kHalf>*>(line + side * kHalf);
    const auto high = *reinterpret_cast<const Pack<Sum, kHalf>*>(line + kTile / 2 + side * kHalf);
    SIM_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      values[i] = low.values[i];
      values[kHalf + i] = high.values[i];
    }
  }

  SIM_HOST_DEVICE void add_term(int thread, Part& part, const Shared& shared, int buffer, int term) const {
    Sum left[kLength<kPer>];
    Sum right[kLength<kPer>];
    take(shared.left[buffer][term], thread / kSide, left);
    take(shared.right[buffer][term], thread % kSide, right);
    SIM_UNROLL
    for (int i = 0; i < kPer; ++i) {
      SIM_UNROLL
      for (int j = 0; j < kPer; ++j)
        part.sums[i][j] = sim::elementary::fma(left[i], right[j], part.sums[i][j]);
    }
  }

  SIM_HOST_DEVICE void multiply(int thread, Part& part, const Shared& shared, int buffer,
                                std::int64_t terms) const {
    if (terms >= kDepth) {
      SIM_UNROLL
      for (int term = 0; term < kDepth; ++term) add_term(thread, part, shared, buffer, term);
    } else {
      for (int term = 0; term < terms; ++term) add_term(thread, part, shared, buffer, term);
    }
  }

  SIM_HOST_DEVICE void end(int thread, const Part& part, std::int64_t batch, std::int64_t first_row,
                           std::int64_t first_column) const {
    const sim::Arithmetic<Out> number{};
    SIM_UNROLL
    for (int i = 0; i < kPer; ++i) {
      SIM_UNROLL
      for (int j = 0; j < kPer; ++j) {
        const std::int64_t row = first_row + place(thread / kSide, i);
        const std::int64_t column = first_column + place(thread % kSide, j);
        if (is_inside(row, column)) out[index(batch, row, column)] = number.store(part.sums[i][j]);
      }
    }
  }
};

template <typename Scalar, typename Out, int tile, int per>
void launch_product(Stream* stream, const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                    const Tensor& out) {
  const ProductSizes sizes = sizes_of(a, form, out);
  launch_tiles(stream, TiledProduct<Scalar, Out, tile, per>{
                           sizes, matrices<Scalar>(a, form.a_transposed, sizes.rows, sizes.terms),
                           matrices<Scalar>(b, form.b_transposed, sizes.terms, sizes.columns), as<Out>(out),
                           form.accumulate});
}

/// Launches a product with tiles that fit its size. Small matrices get small tiles, so that fewer threads are
/// idle. The chains are the same for every size of tile.
template <typename Scalar, typename Out>
void launch_fitting(Stream* stream, const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                    const Tensor& out) {
  constexpr std::int64_t kSmall = 48;
  constexpr bool is_double = sizeof(Scalar) == sizeof(double);
  constexpr int kTile = is_double ? 64 : 128;
  constexpr int kPer = is_double ? 4 : 8;
  const ProductSizes sizes = sizes_of(a, form, out);
  if (sizes.rows <= kSmall || sizes.columns <= kSmall) {
    launch_product<Scalar, Out, 32, 2>(stream, a, b, form, out);
  } else {
    launch_product<Scalar, Out, kTile, kPer>(stream, a, b, form, out);
  }
}

}  // namespace

void matmul(Stream* stream, const Tensor& a, const Tensor& b, sim::MatmulParameters form, const Tensor& out) {
  if (a.dtype() == sim::DType::f64) {
    launch_fitting<double, double>(stream, a, b, form, out);
  } else if (a.dtype() == sim::DType::f32) {
    launch_fitting<float, float>(stream, a, b, form, out);
  } else if (out.dtype() == sim::DType::bf16) {
    launch_fitting<sim::bfloat16, sim::bfloat16>(stream, a, b, form, out);
  } else {
    launch_fitting<sim::bfloat16, float>(stream, a, b, form, out);
  }
}

}  // namespace gpu
