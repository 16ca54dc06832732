#pragma once

/// The pairs of values that rows of a test plan still have to cover. A defect that shows only with two
/// options together is found by every plan that covers all pairs of their values. Such a plan has far fewer
/// rows than there are combinations (all-pairs testing).
///
/// Shapes  a row has one value for each factor. Factor f has the values 0 to values[f] - 1.
/// Source  Cohen et al. 1997, The AETG system: an approach to testing based on combinatorial design.

#include <cstddef>
#include <vector>

namespace verify {

class PairCover {
 public:
  /// All pairs of values of two factors are open at first.
  explicit PairCover(const std::vector<int>& values);

  /// Marks a factor that has no value in a row yet.
  static constexpr int kNone = -1;

  /// Leaves a pair out for good, because no row can have it.
  void leave_out(std::size_t factor, int value, std::size_t other, int other_value);

  /// What a value would bring to a row that is being made. Gains compare in this order.
  struct Gain {
    int pairs = 0;    // open pairs with the values that the row has
    int chances = 0;  // open pairs with all values of the factors that it does not have yet
    auto operator<=>(const Gain&) const = default;
  };
  Gain gain(std::size_t factor, int value, const std::vector<int>& row) const;
  bool is_open(std::size_t factor, int value, std::size_t other, int other_value) const {
    return is_open(id(factor, value), id(other, other_value));
  }

  /// Closes all pairs of the values that a row has. When no pair is open any more, all pairs open again,
  /// except those that were left out.
  void cover(const std::vector<int>& row);

  /// How many times all pairs have been covered.
  int covers() const { return covers_; }

 private:
  struct Pairs {
    std::vector<char> open;           // by two values; a value is numbered over all factors
    std::vector<int> open_of_factor;  // by value and factor: the open pairs of the value with that factor
    std::size_t left = 0;
  };
  std::size_t id(std::size_t factor, int value) const {
    return first_[factor] + static_cast<std::size_t>(value);
  }
  bool is_open(std::size_t a, std::size_t b) const { return now_.open[a * ids_ + b] != 0; }
  void close(Pairs& pairs, std::size_t factor, int value, std::size_t other, int other_value) const;

  std::vector<std::size_t> first_;  // the id of each factor's value 0
  std::size_t ids_ = 0;
  Pairs all_;
  Pairs now_;
  int covers_ = 0;
};

}  // namespace verify
