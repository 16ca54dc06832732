#pragma once

/// What a rank holds with a vocabulary whose size is not known: a count with a chosen size, and what further
/// entries take.
///
/// Shapes  Entries are padded to multiples of `padding`, the divisor times tp, and memory grows in these
///         steps. Only the stages with the embedding, its copy or the output layer depend on them.
/// Calls   Counts the memory anew for each size that it looks at.
/// Exact   Each moment of a step holds an amount that is linear in the padded entries. What a stage holds
///         most is the largest of them, so that it grows faster and faster: by at least as much as from half
///         of the chosen size to that size, and by at most as much as from seven to eight times as many,
///         which bounds all sizes between. Two things are not linear: the padding of the buffers of ZeRO-1,
///         and a matrix that happens to have the shape of another one, with which it shares a placeholder
///         (fixed_memory.h). Half of the size may be such a shape, so that three quarters are asked, too.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// The vocabulary that a run must have room for to fit without knowing it. The bound is chosen: published
/// tokenizers have up to 262,144 entries.
inline constexpr std::int64_t kLargestVocabulary = 300'000;

/// The most entries for which it is asked whether a run fits.
inline constexpr std::int64_t kMostEntries = std::int64_t{1} << 20;

struct VocabularyLaw {
  /// What a stage takes more for each 1,000 entries, in bytes.
  struct Growth {
    std::size_t stage = 0;
    std::int64_t least = 0, most = 0;
  };
  std::int64_t entries = 0;  // the chosen ones, padded
  std::int64_t padding = 1;
  std::vector<Growth> growth = {};              // of the stages that depend on the vocabulary
  std::optional<std::int64_t> fits_up_to = {};  // entries; 0: it fits with none; absent: it is not judged

  /// Whether the run fits with every vocabulary (true) or with none (false).
  std::optional<bool> fits() const;
};

/// Returns the law of a request whose vocabulary is the chosen one.
VocabularyLaw vocabulary_law(const ScenarioRequest& request);

}  // namespace verify
