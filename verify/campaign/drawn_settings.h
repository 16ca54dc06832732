#pragma once

/// The settings that a campaign draws for one case and one property, one after another: worlds that use all
/// axes, and options in all pairs.
///
/// Shapes  One world in ten has groups of one rank. The others take turns: in the first, one axis has more
///         than one rank, in the next two axes do, up to as many as --max-world allows. The axes are the
///         dimensions with is_an_axis, and the ranks beside them (tensor-parallel ones of a layer,
///         data-parallel ones of a training). A dimension has at most four classes. Each number of a short
///         range is one; of a longer range its least number is one, because it is often a corner (no bucket,
///         no expert), and the others are thirds of the rest. All pairs of classes of two dimensions are
///         covered before the next round begins. The dtype, the ranks of an axis and the replicas count as
///         dimensions here. A pair is covered when both of its classes have an effect
///         (Dimension::most_needs). Within its class a number is drawn uniformly.
/// Exact   the settings are a function of the seed, the names of case and property, the dtypes and the
///         largest world. Each factor has a stream of random numbers of its own.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/keyed_random.h"
#include "verify/cases/case.h"

namespace verify {

// The pairs of values that rows of a test plan still have to cover. A defect that shows only with two
// options together is found by every plan that covers all pairs of their values. Such a plan has far fewer
// rows than there are combinations (all-pairs testing).
//
// Shapes  a row has one value for each factor. Factor f has the values 0 to values[f] - 1.
// Source  Cohen et al. 1997, The AETG system: an approach to testing based on combinatorial design.

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

class DrawnSettings {
 public:
  DrawnSettings(const Case& the_case, const std::string& property, std::vector<sim::DType> dtypes,
                std::uint64_t seed, int max_world);

  CaseSetting next();
  /// Returns how many times all pairs have been covered.
  int covers() const { return cover_.covers(); }

 private:
  /// The numbers from `least` to `most`.
  struct Range {
    std::int64_t least;
    std::int64_t most;

    int classes() const;
    Range numbers_of(int a_class) const;
    int class_of(std::int64_t number) const;
  };
  /// A number of a setting, and the stream that it is drawn with.
  struct Factor {
    Range range;
    sim::KeyedRandom random;
    std::size_t needs;  // the axis that its last class needs; the factor itself if it needs none
  };
  /// The numbers of the first factors: the ranks beside the axes, the replicas, and the axes.
  struct World {
    std::vector<std::int64_t> numbers;
    int group_size = 1;
    bool fits = true;           // in the largest world
    std::vector<int> row = {};  // the classes of the numbers, and none of the other factors
  };

  void add_factor(const std::string& name, Range range);
  void add_dimension(const Dimension& dimension);
  void add_worlds(World world, int max_world);
  void keep_worlds_that_fit();
  bool counts(std::size_t factor, int a_class, std::size_t other, const World& world) const;
  void leave_out_impossible_pairs();
  const World& drawn_world() const;
  bool has_effect(std::size_t factor, int a_class, const World& world) const;
  PairCover::Gain gain(std::size_t factor, int a_class, const World& world,
                       const std::vector<int>& row) const;
  void fill(const World& world, std::vector<int>& row) const;
  void cover(const World& world, std::vector<int> row);
  std::int64_t drawn_number(std::size_t factor, int a_class) const;

  Ranks ranks_;
  std::vector<sim::DType> dtypes_;
  sim::KeyedRandom random_;
  sim::KeyedRandom random_of_worlds_;
  sim::KeyedRandom random_of_seeds_;
  std::vector<Dimension> dimensions_;  // the axes first
  std::size_t axes_ = 0;
  std::vector<Factor> factors_;              // those of a world, the dtype, and the other dimensions
  std::vector<std::vector<World>> by_axes_;  // by the number of axes that have more than one rank, from none
  PairCover cover_;
  std::uint64_t number_ = 0;  // of the next run
};

}  // namespace verify
