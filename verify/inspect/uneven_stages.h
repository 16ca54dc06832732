#pragma once

/// Pipeline stages that have another number of microbatches than the other stages.
///
/// A stage begins a microbatch with a message from the stage before it, and passes it on to the next one. In
/// a step that ends, all stages begin equally many. One with one more or one less holds its neighbours in a
/// message that has no other half, while others go on to the end of the step.
///
/// Exact   Messages are counted from the last collective that ranks of all stages have completed, or from the
///         begin of a dump that has every call, to the call that holds the rank. All ranks of a stage, in all
///         pipelines, must have one number, and all stages but one, too: of two stages both are named.
///         Nothing is found where a dump does not tell its number, where a stage has begun none, or where
///         early dumps are among them.
/// Calls   Such numbers are seen, too, in the midst of a step that hangs for another reason, so this only
///         tells apart ranks that wait for each other in a circle.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/inspect/suspects.h"

namespace verify {

struct UnevenStages {
  std::vector<int> ranks;  // of the odd stage, or of both stages of a pipeline of two
  std::string text;  // "ranks 4 to 7, stage 1 of the pipeline, have begun 5 microbatches since ..., and the
                     // other stages 4"
};

std::optional<UnevenStages> uneven_stages(const Evidence& know);

}  // namespace verify
