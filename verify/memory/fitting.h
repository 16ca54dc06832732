#pragma once

/// What would help a run that does not fit: changes of its options, each with the memory that was counted for
/// it.
///
/// Calls   sequence parallelism, recomputation, ZeRO-1, twice tp, half of the microbatch, and two, four or
///         eight times as many pipeline, context and expert ranks are tried, one at a time. A change that the
///         run has already, or that the layout or Megatron refuses, is left out, and so is one that saves
///         less than a hundredth and does not make the run fit.
/// Exact   The figures are those that the changed run itself has.

#include <string>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/options/scenario.h"

namespace verify {

struct Remedy {
  std::string options;  // as on the command line: "--sequence-parallel"
  std::int64_t peak_bytes = 0;
  std::size_t stage = 0;  // the one that holds most then
  bool fits = false;
};

/// Returns what would help, the change that saves most first.
std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report);

}  // namespace verify
