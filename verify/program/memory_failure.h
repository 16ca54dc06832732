#pragma once

/// What the command memory says of an allocation that failed: which tensor of the run has its size, where the
/// memory of the GPU was, and how that compares with what is counted.
///
/// Calls   With a rank in the text, its stage alone is looked at. A tensor is told by name where its size is
///         the one that PyTorch asked for, never more than three; where the text says how much was in
///         tensors, only of a phase in which a rank may have so much, if there are such. That pieces may be
///         joined is told only where what is counted fits.
/// Errors  out_of_memory_rank: a rank that the run does not have; those of out_of_memory.h.

#include <optional>
#include <string>
#include <vector>

#include "verify/memory/single_tensors.h"
#include "verify/output/json.h"
#include "verify/requests/out_of_memory.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// A tensor, and the stages whose ranks have it.
struct StagedTensor {
  SingleTensor tensor;
  std::vector<std::size_t> stages;
};

struct MemoryFailure {
  OutOfMemory said;
  std::optional<std::size_t> stage;   // that of the rank which says it, or the only one with such a tensor
  std::vector<StagedTensor> tensors;  // those that have its size
  std::vector<StagedTensor> nearest;  // the next smaller and the next larger one, where none has it
};

/// Returns the failure that a text tells of a run.
MemoryFailure memory_failure(const OutOfMemory& said, const ScenarioRequest& request,
                             const MemoryReport& report);

/// Returns the sentences about it, as lines.
std::string text_of(const MemoryFailure& failure, const MemoryReport& report);
Json json_of(const MemoryFailure& failure);

}  // namespace verify
