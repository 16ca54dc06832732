#pragma once

/// A setting of a case: how many ranks it runs on, its dtype, its seed, its sizes, and the special value or
/// the part of a training that it is about. Everything that a run of a case depends on is in its setting.
///
/// Shapes  Dimensions are drawn from their ranges, and all combinations are valid: a size that must be a
///         multiple of the group's size is given per rank. A failing case can therefore shrink one number at
///         a time.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sim/optimizer/checkpoint_store.h"
#include "sim/tensor/dtype.h"
#include "verify/cases/dimensions.h"
#include "verify/cases/scenario_traits.h"

namespace sim {
class TextCorpus;
}

namespace verify {

/// One number of a case, with its range. A flag ranges from 0 to 1.
struct Dimension {
  std::string name;
  std::int64_t least;
  std::int64_t most;
  bool is_a_rank = false;  // the number is given per rank; the whole is group_size times as large
  /// Returns the value for a scenario. The number is drawn where this is null or returns nothing.
  std::optional<std::int64_t> (*at)(const ScenarioTraits& traits) = nullptr;
  /// Whether the number is the size of a parallel axis of the group, such as tp. Groups are drawn so that all
  /// axes divide them. In any other group, the case uses the largest divisor that does not exceed the number.
  bool is_an_axis = false;
  /// The axis that must have several ranks for the greatest number to have an effect (for an interleaved
  /// schedule: pp); "" if there is none.
  std::string most_needs = "";
};

/// A special value that replaces one element of some of the drawn inputs. `large` scales all elements of
/// those inputs. Special values are for floats only.
enum class Special { none, nan, infinity, minus_infinity, large };

/// A part of a training that stops and resumes. It runs the steps from `first` up to, but not including,
/// `last`, and loads the state from the store unless `first` is 0.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool saves = true;
  std::shared_ptr<sim::CheckpointStore> store;
  bool operator==(const Stretch&) const = default;
};

/// The process group that the ranks of a setting form: a tensor-parallel group, a data-parallel
/// group, or a world of its own layout.
enum class Ranks : std::uint8_t { tensor_parallel, data_parallel, world };

struct CaseSetting {
  int group_size = 1;                    // ranks of the group that the layer is divided over
  int replicas = 1;                      // replicas of the group, with the same inputs
  Ranks ranks = Ranks::tensor_parallel;  // the same as Case::ranks()
  sim::DType dtype = sim::DType::field;
  std::uint64_t seed = 0;
  Dimensions dimensions;
  Special special = Special::none;
  std::optional<Stretch> stretch = std::nullopt;          // none: the whole training
  std::shared_ptr<const sim::TextCorpus> text = nullptr;  // the training text; null: drawn tokens

  bool operator==(const CaseSetting&) const = default;
  std::int64_t operator[](std::string_view name) const { return dimensions.at(name); }
  /// Returns a number that only some settings have, or `otherwise`.
  std::int64_t fixed(std::string_view name, std::int64_t otherwise) const {
    const auto known = dimensions.find(name);
    return known == dimensions.end() ? otherwise : known->second;
  }
  /// Returns the whole size of a dimension that is given per rank.
  std::int64_t whole(std::string_view name) const { return group_size * (*this)[name]; }
};

/// Returns "tp", "dp" or "world".
const char* name_of(Ranks ranks);

/// Returns the setting as text: "tp 4, f32, seed 7, hidden 3, ...".
std::string text_of(const CaseSetting& setting);

// The largest divisor of a number that does not exceed another one: how a drawn size becomes one that
// divides the world.

inline int largest_divisor(std::int64_t of, std::int64_t most) {
  auto divisor = static_cast<int>(std::clamp<std::int64_t>(most, 1, of));
  while (of % divisor != 0) --divisor;
  return divisor;
}

}  // namespace verify
