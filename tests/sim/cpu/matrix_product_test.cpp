// Proves that a matrix product has the bits of adding its terms one by one, in every dtype, and that the
// fastest kernel has the bits of the plain one.

#include "sim/cpu/matrix_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <type_traits>
#include <vector>

#include "sim/base/field_tower.h"
#include "sim/base/keyed_random.h"
#include "sim/cpu/product_tile.h"

namespace {

using sim::bfloat16;
using sim::Field;
using sim::ProductSizes;
using sim::Strided;

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }
bool same(const Field& a, const Field& b) { return a == b; }

double plus_product(double sum, double a, double b) { return std::fma(a, b, sum); }
float plus_product(float sum, float a, float b) { return std::fma(a, b, sum); }
float plus_product(float sum, bfloat16 a, bfloat16 b) { return std::fma(to_float(a), to_float(b), sum); }
Field plus_product(const Field& sum, const Field& a, const Field& b) { return sum + a * b; }

/// Draws fractions, so that sums are rounded and another order of addition would give other bits.
std::vector<double> drawn(double, std::uint64_t seed, const char* name, std::size_t count) {
  const sim::KeyedRandom random = sim::KeyedRandom(seed).named(name);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = random.uniform(i) - 0.5;
  return values;
}

std::vector<float> drawn(float, std::uint64_t seed, const char* name, std::size_t count) {
  const std::vector<double> doubles = drawn(double{}, seed, name, count);
  std::vector<float> values(count);
  std::transform(doubles.begin(), doubles.end(), values.begin(),
                 [](double x) { return static_cast<float>(x); });
  return values;
}

std::vector<bfloat16> drawn(bfloat16, std::uint64_t seed, const char* name, std::size_t count) {
  const std::vector<double> doubles = drawn(double{}, seed, name, count);
  std::vector<bfloat16> values(count);
  std::transform(doubles.begin(), doubles.end(), values.begin(),
                 [](double x) { return sim::to_bfloat16(x); });
  return values;
}

/// Draws large residues, and occasionally a retired level.
std::vector<Field> drawn(const Field&, std::uint64_t seed, const char* name, std::size_t count) {
  const sim::FieldTower tower(seed);
  std::vector<Field> values(count, Field::of(-1));
  for (std::size_t i = 0; i < count; i += 3) values[i] = tower.draw(name, i);
  if (count > 0 && seed % 4 == 0) {
    values[seed / 4 % count].residues[0] = std::numeric_limits<double>::quiet_NaN();
  }
  return values;
}

/// A view of a matrix of `rows` x `columns` elements, which lies in memory as it is or transposed.
template <typename Scalar>
Strided<Scalar> strided(const std::vector<Scalar>& values, std::size_t rows, std::size_t columns,
                        bool transposed) {
  return transposed ? Strided<Scalar>{values.data(), 1, rows} : Strided<Scalar>{values.data(), columns, 1};
}

template <typename Scalar>
const Scalar& element(const Strided<Scalar>& matrix, std::size_t row, std::size_t column) {
  return matrix.first[row * matrix.row_step + column * matrix.column_step];
}

template <typename Scalar>
using SumOf = std::conditional_t<std::is_same_v<Scalar, bfloat16>, float, Scalar>;

template <typename Scalar>
void add_one_by_one(ProductSizes sizes, Strided<Scalar> a, Strided<Scalar> b,
                    std::vector<SumOf<Scalar>>& out) {
  for (std::size_t i = 0; i < sizes.rows; ++i) {
    for (std::size_t j = 0; j < sizes.columns; ++j) {
      SumOf<Scalar>& sum = out[i * sizes.columns + j];
      for (std::size_t k = 0; k < sizes.terms; ++k)
        sum = plus_product(sum, element(a, i, k), element(b, k, j));
    }
  }
}

/// Adds the product to drawn values. Returns whether the result equals adding term by term.
template <typename Scalar>
bool is_term_by_term(ProductSizes sizes, bool a_transposed, bool b_transposed, std::uint64_t seed) {
  const std::vector<Scalar> a_values = drawn(Scalar(), seed, "a", sizes.rows * sizes.terms);
  const std::vector<Scalar> b_values = drawn(Scalar(), seed + 1, "b", sizes.terms * sizes.columns);
  const Strided<Scalar> a = strided(a_values, sizes.rows, sizes.terms, a_transposed);
  const Strided<Scalar> b = strided(b_values, sizes.terms, sizes.columns, b_transposed);
  std::vector<SumOf<Scalar>> out = drawn(SumOf<Scalar>(), seed + 2, "out", sizes.rows * sizes.columns);
  std::vector<SumOf<Scalar>> expected = out;
  sim::add_matrix_product(sizes, a, b, out.data());
  add_one_by_one(sizes, a, b, expected);
  return std::equal(out.begin(), out.end(), expected.begin(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

ProductSizes drawn_sizes() {
  const int terms =
      *rc::gen::oneOf(rc::gen::inRange(0, 9), rc::gen::inRange(254, 259), rc::gen::inRange(0, 600));
  return {static_cast<std::size_t>(*rc::gen::inRange(0, 10)),
          static_cast<std::size_t>(*rc::gen::inRange(0, 51)), static_cast<std::size_t>(terms)};
}

RC_GTEST_PROP(MatrixProduct, OfDoublesIsTermByTerm,
              (std::uint64_t seed, bool a_transposed, bool b_transposed)) {
  RC_ASSERT(is_term_by_term<double>(drawn_sizes(), a_transposed, b_transposed, seed));
}

RC_GTEST_PROP(MatrixProduct, OfFloatsIsTermByTerm,
              (std::uint64_t seed, bool a_transposed, bool b_transposed)) {
  RC_ASSERT(is_term_by_term<float>(drawn_sizes(), a_transposed, b_transposed, seed));
}

RC_GTEST_PROP(MatrixProduct, OfBfloat16sIsTermByTermInFloats,
              (std::uint64_t seed, bool a_transposed, bool b_transposed)) {
  RC_ASSERT(is_term_by_term<bfloat16>(drawn_sizes(), a_transposed, b_transposed, seed));
}

RC_GTEST_PROP(MatrixProduct, OfFieldElementsIsTermByTerm,
              (std::uint64_t seed, bool a_transposed, bool b_transposed)) {
  RC_ASSERT(is_term_by_term<Field>(drawn_sizes(), a_transposed, b_transposed, seed));
}

// These products have more rows than a block, more terms than the field adds without a reduction, or operands
// of which one is packed and the other is read where it lies.
TEST(MatrixProduct, LargeOnesAreTermByTerm) {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const ProductSizes sizes :
           {ProductSizes{1027, 3, 20}, {37, 29, 520}, {3, 61, 700}, {61, 3, 700}, {70, 50, 60}}) {
        EXPECT_TRUE(is_term_by_term<double>(sizes, a_transposed, b_transposed, 1));
        EXPECT_TRUE(is_term_by_term<float>(sizes, a_transposed, b_transposed, 1));
        EXPECT_TRUE(is_term_by_term<bfloat16>(sizes, a_transposed, b_transposed, 1));
      }
    }
  }
  EXPECT_TRUE(is_term_by_term<Field>({131, 25, 520}, false, false, 1));
  EXPECT_TRUE(is_term_by_term<Field>({5, 13, 4100}, false, true, 1));
}

/// A tile of drawn sizes within operands of drawn steps. The elements between the columns of the tile and the
/// next row are NaN in the right operand, and may not change in the sums.
template <typename Element>
bool fastest_is_plain(std::uint64_t seed) {
  const auto below = [](std::size_t end) { return *rc::gen::inRange<std::size_t>(0, end); };
  const std::size_t rows = 1 + below(sim::kTileRows), columns = 1 + below(sim::kTileColumns<Element>);
  const std::size_t count = below(40), step = columns + below(9);
  const bool transposed = below(2) == 1;
  const auto left = drawn(Element(), seed, "left", rows * count);
  auto right = drawn(Element(), seed, "right", count * step);
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (i % step >= columns) right[i] = std::numeric_limits<Element>::quiet_NaN();
  }
  std::vector<Element> plain = drawn(Element(), seed, "sums", rows * step), fast = plain;
  const sim::TileTerms<Element> terms = {
      left.data(), transposed ? 1 : count, transposed ? rows : 1, right.data(), step, count};
  sim::add_terms_plainly<Element>(terms, {plain.data(), step, rows, columns});
  sim::fastest_tile_kernel<Element>()(terms, {fast.data(), step, rows, columns});
  return std::equal(plain.begin(), plain.end(), fast.begin(),
                    [](Element x, Element y) { return same(x, y); });
}

RC_GTEST_PROP(ProductTile, TheFastestKernelGivesTheBitsOfThePlainOne, (std::uint64_t seed)) {
  RC_ASSERT(fastest_is_plain<double>(seed));
  RC_ASSERT(fastest_is_plain<float>(seed));
}

}  // namespace
