#pragma once

/// A listing enumerates the ranks of a grid in mixed radix: place = sum(digit_i * weight_i) and rank =
/// first_rank + sum(digit_i * stride_i). Cut into pieces of equal size, a listing gives all process
/// groups of one kind in creation order, without storing lists of ranks (group_kind.h).
///
/// Shapes  digits are given fastest first; size() = product of the digit sizes = number of ranks listed.
/// Calls   rank_at and place_of cost O(digits); a Cursor writes one member in about a nanosecond.
/// Exact   two listings compare equal if and only if they list the same ranks in the same order. For
///         this, digits are kept in a normal form: no digit has size 1, and two neighbouring digits that
///         count like a single one are merged.

#include <cstdint>
#include <span>
#include <vector>

namespace sim {

struct Digit {
  int size = 1;    // number of values of the digit
  int stride = 1;  // distance in ranks between two neighbouring values
  bool operator==(const Digit&) const = default;
};

class Listing {
 public:
  Listing(const std::vector<Digit>& digits, int first_rank);

  int size() const { return size_; }
  int first_rank() const { return first_rank_; }
  int rank_at(int place) const;
  int place_of(int rank) const;
  bool contains(int rank) const { return rank >= first_rank_ && rank - first_rank_ < size_; }
  bool operator==(const Listing&) const = default;

  /// Walks the listing from its start; fill() writes the next out.size() ranks.
  class Cursor {
   public:
    explicit Cursor(const Listing& listing);
    void fill(std::span<int> out);

   private:
    void carry();
    const std::vector<Digit>& digits_;
    std::vector<int> values_;
    int rank_;
  };

 private:
  std::vector<Digit> digits_;
  int first_rank_;
  int size_;
};

}  // namespace sim
