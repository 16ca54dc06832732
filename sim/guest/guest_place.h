#pragma once

/// Where a value that a guest publishes lies in the whole one, which ranks hold in parts.
///
/// Shapes  what is published are the elements from `begin` on, row by row, of a block. The block has the
///         shape `shape`, and lies at `offset` in a tensor of the shape `whole`. All three have a number for
///         each dimension, at most kMostDimensions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sim {

inline constexpr std::size_t kMostDimensions = 16;

struct GuestPlace {
  std::string kind;       // what the program says that it is, such as "gradient"
  std::int64_t step = 0;  // of the program, from 0
  std::vector<std::int64_t> whole = {}, offset = {}, shape = {};
  std::int64_t begin = 0;
};

}  // namespace sim
