#pragma once

/// Whole numbers for a collective whose result is known without a reference: what each rank contributes, and
/// the sum of all contributions.
///
///   element i of rank r = scale(r) * draw(i) + offset(r)
///
/// Shapes  draws, scales and offsets are keyed, so that every rank can compute those of every other rank. A
///         sum over ranks has the same form as an element.
/// Exact   every element is positive, and so small that any sum over `ranks` ranks is a whole number below
///         2^24. In f32 and i32 such a sum is the same in every order of addition.

#include <cstdint>
#include <vector>

namespace verify {

struct ExactTerms {
  std::int64_t scale = 0;
  std::int64_t offset = 0;
  ExactTerms& operator+=(const ExactTerms& other) {
    scale += other.scale;
    offset += other.offset;
    return *this;
  }
};

class ExactValues {
 public:
  /// Draws `count` numbers, for groups of `ranks` ranks.
  ExactValues(int ranks, std::int64_t count);

  ExactTerms terms_of(int rank) const;
  /// Appends the elements `first` to first + count - 1 of the tensor that has these terms.
  void append(std::vector<std::int32_t>& values, const ExactTerms& terms, std::int64_t first,
              std::int64_t count) const;

 private:
  std::uint32_t span_;  // draws are from 0 to span - 1, offsets from 1 to span
  std::vector<std::int32_t> draws_;
};

}  // namespace verify
