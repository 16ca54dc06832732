#pragma once

/// Collective calls that are made wrongly at one site: what layers get wrong, and the grammar of
/// verify/faults cannot say.
///
/// Calls   All ranks make the wrong call together, so the world runs on and only the values are wrong. The
///         exception is skipped_without_rows.

#include <string>

#include "sim/world/simulate.h"

namespace test {

enum class CallFault {
  left_out_where_full,   // an all_reduce of `full` elements is not made
  over_half,             // the sum over only the lower or the upper half of the group
  without_last,          // the sum without the last member's term
  halves_interleaved,    // an all_gather's blocks of the lower and of the upper half take turns
  gathered,              // an all_reduce becomes an all_gather of each rank's first n-th
  summed,                // an all_gather becomes an all_reduce, so that each block is the sum of all
  skipped_without_rows,  // a rank that receives no row of an uneven exchange does not make the call
};

struct FaultyCall {
  std::string site;
  CallFault fault;
  std::string group = "tp";  // the kind of group that has the fault
  std::int64_t full = -1;    // the number of elements for left_out_where_full
};

/// Runs the program on a rank whose calls have the fault.
void run_with_fault(const FaultyCall& fault, sim::Rank& rank, const sim::RankProgram& program);

}  // namespace test
