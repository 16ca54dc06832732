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

/// The number of random words that one element of keyed() takes. A residue of the field takes half a word.
template <typename Scalar>
constexpr std::size_t words_of = std::is_same_v<Scalar, Field> ? (kFieldLevels + 1) / 2 : 1;

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
/// Each residue is uniform below its prime, up to one part in 2^11: the product of the prime with a number
/// of 32 bits, over 2^32.
template <>
void take_values(const std::uint64_t* words, std::span<Field> values) {
  vectorised([&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t level = 0; level < kFieldLevels; ++level) {
        const auto prime = static_cast<std::uint64_t>(kFieldPrimes[level]);
        const std::uint64_t word = words[i * words_of<Field> + level / 2];
        values[i].residues[level] = whole((level % 2 == 0 ? word & 0xffffffffU : word >> 32) * prime >> 32);
      }
    }
  });
}

/// Draws neighbouring elements, a batch of them at a time: adjacent ones share blocks of random words.
template <typename Scalar>
class Batch {
 public:
  Batch(const KeyedRandom& random, Scalar* values) : random_(random), values_(values) {}

  /// Appends elements `index` to `index` + `count` - 1 of the stream.
  void append(std::uint64_t index, std::size_t count) {
    while (count > 0) {
      if (pieces_ == kPieces || blocks_ + 2 * kWords > kBlocks) draw();
      const std::uint64_t first = index * kWords / 2;
      const std::size_t room = (2 * (kBlocks - blocks_) - 1) / kWords;  // the first word may be a second one
      const std::size_t taken = std::min(count, room);
      const std::uint64_t end = (index + taken) * kWords;
      starts_[pieces_] = {2 * blocks_ + index * kWords % 2, taken};
      ++pieces_;
      for (std::uint64_t block = first; 2 * block < end; ++block) numbers_[blocks_++] = block;
      index += taken;
      count -= taken;
    }
  }

  /// Draws what has been appended.
  void draw() {
    random_.words(std::span(numbers_).first(blocks_), std::span(words_).first(2 * blocks_));
    for (std::size_t i = 0; i < pieces_; ++i) {
      take_values(words_.data() + starts_[i].first_word, std::span(values_, starts_[i].count));
      values_ += starts_[i].count;
    }
    pieces_ = blocks_ = 0;
  }

 private:
  static constexpr std::size_t kWords = words_of<Scalar>;
  static constexpr std::size_t kBlocks = 64, kPieces = 32;
  struct Piece {
    std::size_t first_word, count;
  };

  const KeyedRandom& random_;
  Scalar* values_;  // the next element
  std::size_t pieces_ = 0, blocks_ = 0;
  std::array<Piece, kPieces> starts_;
  std::array<std::uint64_t, kBlocks> numbers_;
  std::array<std::uint64_t, 2 * kBlocks> words_;
};

}  // namespace

Tensor keyed(Device& device, DType dtype, const Shape& shape, const KeyedRandom& random,
             std::int64_t first_index, std::int64_t row_stride) {
  if (!device.has_elements(dtype)) return device.empty(dtype, shape);
  const std::int64_t width = shape.dimensions() == 0 ? 1 : shape[shape.dimensions() - 1];
  const std::int64_t stride = row_stride == 0 ? width : row_stride;
  return with_scalar(dtype, [&]<typename Scalar>(Scalar) {
    constexpr std::size_t kFew = 64;  // a tensor of few elements needs no memory meanwhile
    const auto all = static_cast<std::size_t>(shape.count());
    std::array<Scalar, kFew> few;
    const auto many = all > kFew ? std::make_unique_for_overwrite<Scalar[]>(all) : nullptr;
    Scalar* const values = many != nullptr ? many.get() : few.data();
    Batch<Scalar> batch(random, values);
    const auto index = static_cast<std::uint64_t>(first_index);
    if (stride == width) {
      batch.append(index, all);
    } else {
      for (std::size_t row = 0; row * static_cast<std::size_t>(width) < all; ++row)
        batch.append(index + row * static_cast<std::uint64_t>(stride), static_cast<std::size_t>(width));
    }
    batch.draw();
    return from_host(device, dtype, shape, std::as_bytes(std::span(values, all)));
  });
}

}  // namespace sim
