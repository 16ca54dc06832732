#pragma once

/// Finds the calls of a run that are given the same input as the call before them, as a buffer is that the
/// program has not filled anew. What reaches the group is compared, so that a planted fault is seen.
///
/// Shapes  The call before is the rank's latest one at the same site, in the same group and of the same form.
/// Exact   Inputs are compared byte by byte. Not compared are inputs of few elements, counts, and numbers
///         that are all zero, which may well be the same again, and a backward pass with a forward one, which
///         repeats the calls of the forward pass where activations are recomputed.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "verify/properties/bench.h"

namespace verify {

struct RepeatedInput {
  std::string site;
  std::string kind;     // of the group
  std::int64_t call;    // its number among the rank's calls at the site in its group, from 0
  std::set<int> ranks;  // those on which this is the first such call
};

/// How many elements an input has at least that is compared.
struct ComparedInputs {
  std::int64_t least_numbers = 2;
  std::int64_t least_ids = 0;  // of whole numbers that are broadcast; 0: they are not compared
};

/// Runs the case, and returns the first repeated input of each site and rank, in the order of the sites.
std::vector<RepeatedInput> repeated_inputs(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                           const ComparedInputs& compared = {});

}  // namespace verify
