#include "verify/cell_text.h"

#include <cstddef>
#include <fmt/format.h>

namespace verify {

std::string cell_text(const sim::RankGrid& grid, int rank) {
  const sim::PerAxis<int> coordinates = grid.coordinates_of(rank);
  std::string text;
  for (const sim::Axis axis : {sim::Axis::tp, sim::Axis::cp, sim::Axis::dp, sim::Axis::pp}) {
    const char initial = sim::kAxisNames[static_cast<std::size_t>(axis)][0];
    if (grid.size(axis) > 1) text += fmt::format("{}{}", initial, coordinates[axis]);
  }
  return text;
}

}  // namespace verify
