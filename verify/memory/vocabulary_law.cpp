#include "verify/memory/vocabulary_law.h"

#include <algorithm>

#include "verify/memory/scenario_memory.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

MemoryReport with_entries(const ScenarioRequest& request, std::int64_t entries) {
  ScenarioRequest changed = request;
  changed.model.config.vocab_size = entries;
  return scenario_memory(changed);
}

/// Returns the most entries with which a request fits, a multiple of the padding; 0 if it fits with none.
std::int64_t most_that_fit(const ScenarioRequest& request, std::int64_t padding) {
  std::int64_t fits = 0, too_many = std::max<std::int64_t>(kMostEntries / padding, 1) + 1;  // of the padding
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (with_entries(request, middle * padding).fits().value_or(false) ? fits : too_many) = middle;
  }
  return fits * padding;
}

}  // namespace

std::optional<bool> VocabularyLaw::fits() const {
  if (!fits_up_to || (*fits_up_to > 0 && *fits_up_to < kLargestVocabulary)) return std::nullopt;
  return *fits_up_to > 0;
}

VocabularyLaw vocabulary_law(const ScenarioRequest& request) {
  const sim::GptConfig& shape = request.model.config;
  const auto padded = [&](std::int64_t entries) {
    return *padded_vocabulary(entries, request.layout.tp, shape.make_vocab_size_divisible_by);
  };
  constexpr std::int64_t kOneLess = 7, kMost = 8, kOfText = 1'000;
  VocabularyLaw law{.entries = padded(shape.vocab_size), .padding = padded(1)};
  const std::int64_t half = padded(law.entries / 2), more_than_half = padded(law.entries * 3 / 4);
  const MemoryReport one = with_entries(request, law.entries), of_half = with_entries(request, half),
                     of_more = with_entries(request, more_than_half),
                     seven = with_entries(request, kOneLess * law.entries),
                     eight = with_entries(request, kMost * law.entries);
  for (std::size_t stage = 0; stage < one.stages.size(); ++stage) {
    const auto growth = [&](const MemoryReport& from, const MemoryReport& to, std::int64_t entries) {
      return (to.stages[stage].peak_bytes() - from.stages[stage].peak_bytes()) * kOfText / entries;
    };
    const std::int64_t most = growth(seven, eight, law.entries);
    std::int64_t least = half < law.entries ? growth(of_half, one, law.entries - half) : 0;
    if (more_than_half < law.entries)
      least = std::min(least, growth(of_more, one, law.entries - more_than_half));
    if (most != 0) law.growth.push_back({stage, std::min(least, most), std::max(least, most)});
  }
  if (one.gpu_memory && one.has_activations) law.fits_up_to = most_that_fit(request, law.padding);
  return law;
}

}  // namespace verify
