#pragma once

/// The order in which a checkpoint keeps the elements of a parameter: part by part, as the ranks that share
/// the parameter hold them. A parameter that is not cut is one part.
///
/// Shapes  element e of part p of a parameter that is cut into n parts is element p (count / n) + e of this
///         order, count being the number of elements of the whole. Parts are cut as parameter.h says.
/// Exact   Every order is a permutation of the elements of the whole.

#include <vector>

#include "sim/optimizer/buffer_layout.h"
#include "sim/parallel/parameter.h"

namespace sim {

class PartOrder {
 public:
  /// Whether a parameter can be cut into this many parts.
  static bool exists(const Parameter& parameter, std::int64_t parts);
  PartOrder(const Parameter& parameter, std::int64_t parts);

  /// A place, and the number of elements from there on that follow one another in both orders.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  /// Returns where an element of this order lies in the whole, and the other way round.
  Run in_whole(std::int64_t element) const;
  Run from_whole(std::int64_t element) const;
  bool operator==(const PartOrder&) const = default;

 private:
  std::int64_t part_count() const { return rows_ * columns_ / parts_; }

  // A cut of rows is a cut of all elements as one row. Block b of part p is block b parts + p of the whole.
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 0;
  std::int64_t parts_ = 1;
  std::int64_t block_ = 1;  // columns of a block
};

/// Returns which elements of `to` are those of a range of `from`, in the order of the range.
std::vector<ElementRange> translated(const PartOrder& from, ElementRange range, const PartOrder& to);

}  // namespace sim
