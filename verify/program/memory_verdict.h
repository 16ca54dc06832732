#pragma once

/// The answer of the command memory: what was counted, whether it fits, and the sentences that say so.
///
/// Calls   A run whose vocabulary is not known fits if it does with every vocabulary of up to 300,000 entries
///         (vocabulary_law.h).

#include <optional>
#include <string>
#include <vector>

#include "verify/memory/assumed_sizes.h"
#include "verify/memory/fitting.h"
#include "verify/memory/vocabulary_law.h"
#include "verify/output/json.h"

namespace verify {

struct MemoryAnswer {
  Scenario scenario;
  ScenarioRequest request;
  MemoryReport report;
  std::vector<AssumedSize> assumed;
  std::optional<VocabularyLaw> law;  // absent: the vocabulary is known
  std::vector<Remedy> remedies;      // empty if the run fits, or is not judged

  std::optional<bool> fits() const;
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

}  // namespace verify
