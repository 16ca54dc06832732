#pragma once

/// Ranks of which each waits for the next one, and which of them to look at.
///
/// Where all ranks of one pipeline stage have begun another number of microbatches than the other stages,
/// they are named. Otherwise a rank is named alone that is held by a message between odd
/// places, while another one waits for a message of it. Otherwise ranks are named alone that
/// have not come to a collective in which more ranks wait for them, and are ahead of the ranks at their place
/// of other groups of the kind that holds them. Otherwise ranks of the shortest circle are named alone where
/// they wait in a call for the larger part of its members, which are all held in one way, and where others
/// wait for them, and mostly for nobody else, in a collective; or else where they depart from the calls of
/// their pipeline stage (odd_programs.h). Where ranks of a circle of two have counterparts in other groups,
/// held in the same calls and by each other, all of them are named.

#include <cstddef>
#include <vector>

#include "verify/inspect/suspects.h"

namespace verify {

/// Judges the components of the graph that are circles. Nothing is said of one with a rank that may have lost
/// the call that holds it.
void add_circle_suspects(const Evidence& know, const std::vector<std::vector<std::size_t>>& components,
                         Suspects& suspects);

}  // namespace verify
