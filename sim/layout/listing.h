#pragma once

/// A listing writes the ranks of a grid one after another, in mixed radix: place = sum(digit_i * weight_i),
/// rank = first_rank + sum(digit_i * stride_i). Cut into equal pieces it is every process group of a kind, in
/// creation order, without a list of lists (group_kind.h).
///
/// Shapes  digits are given fastest first; size() = product of the digit sizes = ranks listed.
/// Calls   rank_at and place_of cost O(digits); a Cursor writes a member in about a nanosecond.
/// Exact   two listings are equal iff they list the same ranks in the same order (digits are kept in a normal
///         form: no digit of size 1, neighbours that continue each other merged).

#include <cstdint>
#include <span>
#include <vector>

namespace sim {

struct Digit {
  int size = 1;    // values the digit takes
  int stride = 1;  // ranks between two neighbouring values
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
