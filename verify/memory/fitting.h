#pragma once

/// What would help a run that does not fit: changes of its options, each with the memory that was counted for
/// it.
///
/// Calls   Changes are tried one at a time, those first that cost little time: sequence parallelism, no mask
///         of the data loader, ZeRO-1, further recomputed modules, the first 1, 2, 4, ... layers of each
///         stage, all layers, no virtual stages, half of the microbatch, and two, four or eight times as many
///         pipeline, context, tensor and expert ranks. Of a kind, the smallest change that fits is told.
///         Where no change fits alone, up to three pairs of changes are told that do. A change is left out
///         that the run has already, that the layout, Megatron or the attention of context parallelism
///         refuses, that no longer keeps documents apart, or that saves less than a hundredth and does not
///         make the run fit.
/// Exact   The figures are those that the changed run itself has. A run of --from that gives no batch has
///         another one then, as Megatron takes it for the changed layout.

#include <string>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/options/scenario.h"

namespace verify {

struct Remedy {
  std::string options;  // as on the command line: "--sequence-parallel"; "no --option" is left out
  std::int64_t peak_bytes = 0;
  std::size_t stage = 0;  // the one that holds most then
  bool fits = false;
};

/// Returns what would help: first what fits, in the order above, then the others, what saves most first.
std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report);

}  // namespace verify
