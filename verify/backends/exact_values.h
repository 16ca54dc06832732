#pragma once

/// Whole numbers for a collective whose result is known without it: what each rank gives, and what all of
/// them come to.
///
///   element i of rank r = scale(r) * draw(i) + offset(r)
///
/// Shapes  draws, scales and offsets are keyed, so that any rank has them of any other; a sum over ranks is
///         of the same form.
/// Exact   every element is positive, and so small that any sum of those of `ranks` ranks is a whole number
///         below 2^24: in f32 and i32 the same in every order of addition.

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
  /// For groups of so many ranks; so many draws.
  ExactValues(int ranks, std::int64_t count);

  ExactTerms terms_of(int rank) const;
  /// Adds elements first to first + count - 1 of what has these terms.
  void append(std::vector<std::int32_t>& values, const ExactTerms& terms, std::int64_t first,
              std::int64_t count) const;

 private:
  std::uint32_t span_;  // draws are 0 to span - 1, offsets 1 to span
  std::vector<std::int32_t> draws_;
};

}  // namespace verify
