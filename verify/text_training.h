#pragma once

/// The main job: a reduced GPT of a scenario's kind, trained on real text with the scenario's own parallel sizes on virtual ranks,
/// beside one device.
///
/// Shapes  worlds of up to kMostTrainingRanks: replicas are folded first, then stages, then tensor-parallel ranks, and the row says so.
///         Context-parallel ranks count as replicas; experts and Megatron's other orders are not trained. One layer a stage, sequences
///         of a few bytes.
/// Errors  training_text: a text that cannot be read, or is none (sim/model/text_corpus.h).
/// Exact   losses, norms, gradients, states and parameters after all steps: in the field equal to one device, in f32 within the spread of
///         perturbed references (reference/perturbed.h).

#include <optional>

#include "verify/bench.h"
#include "verify/layout_checks.h"
#include "verify/settings.h"
#include "verify/training_curve.h"

namespace verify {

inline constexpr int kMostTrainingRanks = 256;
inline constexpr std::int64_t kTrainIters = 20;

struct Training {
  CheckResult check;
  TrainingCurve curve;
};

Training train_on_text(const Settings& settings, const sim::Layout& layout, Bench& bench);

/// The text that is asked for, or this project's own; refuses one that cannot be read.
std::string training_text(const Settings& settings);

}  // namespace verify
