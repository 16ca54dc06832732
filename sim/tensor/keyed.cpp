// Tensors of keyed random numbers.

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

namespace {

/// The number of random words that one element of keyed() takes.
template <typename Scalar>
constexpr std::size_t words_of = std::is_same_v<Scalar, Field> ? kFieldLevels : 1;

/// Returns a whole number below 2^53 as a double: its upper and its lower 32 bits are added, in steps that
/// have vector instructions.
inline double whole(std::uint64_t number) {
  const double upper = std::bit_cast<double>(number >> 32 | std::bit_cast<std::uint64_t>(0x1p84));
  const double lower = std::bit_cast<double>((number & 0xffffffffU) | std::bit_cast<std::uint64_t>(0x1p52));
  return upper - (0x1p84 + 0x1p52) + lower;
}

/// Returns 2 uniform_of(word) - 1.
inline double from_minus_one_to_one(std::uint64_t word) { return 2 * (whole(word >> 11) * 0x1p-53) - 1; }

template <typename Scalar>
void take_values(const std::uint64_t* words, std::span<Scalar> values) {
  vectorised([&] {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<Scalar>(from_minus_one_to_one(words[i]));
  });
}
template <>
void take_values(const std::uint64_t* words, std::span<bfloat16> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_bfloat16(from_minus_one_to_one(words[i]));
}
template <>
void take_values(const std::uint64_t* words, std::span<std::int32_t> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(KeyedRandom::below_of(words[i], 2001)) - 1000;
}
/// Each residue is KeyedRandom::below_of() its prime.
template <>
void take_values(const std::uint64_t* words, std::span<Field> values) {
  vectorised([&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t level = 0; level < kFieldLevels; ++level) {
        const auto prime = static_cast<std::uint64_t>(kFieldPrimes[level]);
        values[i].residues[level] = whole((words[i * kFieldLevels + level] >> 32) * prime >> 32);
      }
    }
  });
}

}  // namespace

Tensor keyed(Device& device, DType dtype, const Shape& shape, const KeyedRandom& random,
             std::int64_t first_index, std::int64_t row_stride) {
  if (!device.has_elements(dtype)) return device.empty(dtype, shape);
  const std::int64_t width = shape.dimensions() == 0 ? 1 : shape[shape.dimensions() - 1];
  const std::int64_t gap = row_stride == 0 ? 0 : row_stride - width;  // indices skipped between two rows
  return with_scalar(dtype, [&](auto scalar) {
    using Scalar = decltype(scalar);
    constexpr std::size_t kWords = words_of<Scalar>;
    constexpr std::size_t kAtATime = 64;  // elements per batch of random words
    std::array<std::uint64_t, kAtATime * kWords> words;
    const auto all = static_cast<std::size_t>(shape.count());
    std::array<Scalar, kAtATime> few;  // a tensor of few elements needs no memory meanwhile
    const auto many = all > kAtATime ? std::make_unique_for_overwrite<Scalar[]>(all) : nullptr;
    const std::span<Scalar> values(many != nullptr ? many.get() : few.data(), all);
    auto index = static_cast<std::uint64_t>(first_index);
    std::int64_t column = 0;
    for (std::size_t begin = 0; begin < values.size(); begin += kAtATime) {
      const std::size_t count = std::min(kAtATime, values.size() - begin);
      for (std::size_t i = 0; i < count;) {
        const std::size_t of_row = std::min(count - i, static_cast<std::size_t>(width - column));
        for (std::size_t word = 0; word < of_row * kWords; ++word)
          words[i * kWords + word] = index * kWords + word;
        i += of_row;
        index += of_row;
        column += static_cast<std::int64_t>(of_row);
        if (column == width) {
          column = 0;
          index += static_cast<std::uint64_t>(gap);
        }
      }
      random.bits(std::span(words).first(count * kWords));
      take_values(words.data(), values.subspan(begin, count));
    }
    return from_host(device, dtype, shape, std::as_bytes(values));
  });
}

}  // namespace sim
