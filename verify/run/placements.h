#pragma once

/// The ways in which ranks may hold a value in parts, if only the shape of each part is known. An axis may be
/// cut among the ranks of groups of the program, and the values of several forwards may be theirs.
///
/// Shapes  an axis of the whole that is k times as long as that of a part is cut into k parts: contiguous
///         ones, the chunks r and 2k-1-r of 2k, as context parallelism cuts, r and k+r, as gated layers do,
///         or every k-th element, as samplers deal samples. A cut of the second kind may be cut once more, as
///         sequence parallelism does.
/// Exact   a rank's part is its place in its group, or in the group of those of two kinds of groups. Each way
///         has all parts on some rank.

#include <cstdint>
#include <map>
#include <vector>

#include "sim/guest/guest_program.h"

namespace verify {

/// The part of each rank that holds a value; all numbers below the number of parts occur.
using PartOfRank = std::map<int, std::int64_t>;

enum class CutAs { contiguous, mirrored, halves, interleaved };

struct AxisCut {
  CutAs as = CutAs::contiguous;
  std::int64_t parts = 1;
  PartOfRank part;  // empty where the axis is whole
};

/// Which forwards of the reference those of a rank are: one in so many is its own.
struct ForwardsOfRank {
  std::int64_t parts = 1;
  PartOfRank part;
  std::int64_t together = 1;    // forwards of a microbatch
  bool are_contiguous = false;  // the first rank has the first ones, and not each rank one in turn
};

struct Placement {
  std::vector<std::vector<AxisCut>> axes;  // the cuts of each axis, the first one of the whole
  ForwardsOfRank forwards;

  /// Returns the places in the whole of a rank's elements, row by row.
  std::vector<std::int64_t> places(int rank, const std::vector<std::int64_t>& whole) const;
  /// Returns the number in the reference of a rank's forward; `count` is that of the rank's forwards.
  std::int64_t forward(int rank, std::int64_t number, std::int64_t count) const;
  /// Returns by what gradients may be multiplied where each rank has the mean over its part of the tokens.
  std::vector<std::int64_t> factors() const;
};

/// Returns the placements of parts of this shape on these ranks, the likeliest first. A rank has one in
/// `forwards` of the reference's forwards, of `count` that are its own.
std::vector<Placement> placements_of(const std::vector<std::int64_t>& whole,
                                     const std::vector<std::int64_t>& part, std::int64_t forwards,
                                     std::int64_t count, const std::vector<int>& ranks,
                                     const std::vector<sim::GuestGroup>& groups);

}  // namespace verify
