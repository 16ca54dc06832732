#pragma once

/// What the command memory answers: what was counted, whether it fits, and the sentences that say so; what it
/// says of an allocation that failed; and layouts of one job, the best first (--sweep).
///
/// Calls   A run whose vocabulary is not known fits if it does with every vocabulary of up to 300,000 entries
///         (vocabulary_law.h).
///         Of a failed allocation: with a rank in the text, its stage alone is looked at. A tensor is told by
///         name where its size is the one that PyTorch asked for, never more than three; where the text says
///         how much was in tensors, only of a phase in which a rank may have so much, if there are such. That
///         pieces may be joined is told only where what is counted fits.
/// Errors  out_of_memory_rank: a rank that the run does not have; those of out_of_memory.h;
///         option_without_effect: an option of a sweep without --sweep; missing_option: a sweep without a
///         world or a global batch; those of sweep.h and machine.h, all at once.

#include <optional>
#include <string>
#include <vector>

#include "verify/memory/assumed_sizes.h"
#include "verify/memory/fitting.h"
#include "verify/memory/single_tensors.h"
#include "verify/memory/vocabulary_law.h"
#include "verify/output/json.h"
#include "verify/program/commands.h"
#include "verify/requests/out_of_memory.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"

namespace verify {

struct MemoryAnswer {
  Scenario scenario;
  ScenarioRequest request;
  MemoryReport report;
  std::vector<AssumedSize> assumed;
  std::optional<VocabularyLaw> law;  // absent: the vocabulary is known
  std::vector<Remedy> remedies;      // empty if the run fits, or is not judged
  std::vector<Remedy> room;          // what a run that fits has room for

  std::optional<bool> fits() const;
  /// Returns the arguments that leave it open whether the run fits; empty where it is not judged.
  std::vector<AccountedArgument> doubtful() const;
};

/// Counts the memory of a request, with what would help if it does not fit.
MemoryAnswer memory_answer(Scenario scenario, ScenarioRequest request, const AssumedSizes& assumed);

/// Returns whether the run fits, which ranks hold most and when, and what would help; "" if it is not judged.
/// `has_failed`: it ran out of memory.
std::string verdict_text(const MemoryAnswer& answer, bool has_failed);

/// Returns what was taken for sizes that are not given, as lines; "" if all are given.
std::string assumed_text(const std::vector<AssumedSize>& assumed);
std::string law_text(const VocabularyLaw& law);
Json assumed_json(const std::vector<AssumedSize>& assumed);
Json law_json(const VocabularyLaw& law);

// An allocation that failed: which tensor of the run has its size, where the memory of the GPU was, and how
// that compares with what is counted.

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

/// Refuses options of a sweep where none is asked for.
void require_no_sweep(const Settings& settings);

/// Runs the sweep that the command line asks for. Returns kFalsified if memory is judged and no layout fits.
int run_memory_sweep(const Call& call, const Scenario& scenario, const AssumedSizes& assumed);

}  // namespace verify
