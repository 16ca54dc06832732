#pragma once

/// The main job: a reduced GPT of a scenario's kind, trained on real text with the scenario's own parallel sizes on virtual ranks,
/// beside one device.
///
/// Shapes  worlds of up to kMostTrainingRanks: replicas are folded first, then stages, then tensor-parallel ranks, and the row says so.
///         Context-parallel ranks count as replicas; experts and Megatron's other orders are not trained. One layer a stage, sequences
///         of a few bytes.
/// Errors  training_text: a text that cannot be read, or is none (sim/model/text_corpus.h); train_iters: more steps than 1,000.
/// Exact   losses, norms, gradients, states and parameters after all steps: in the field equal to one device, in f32 within the spread of
///         perturbed references (reference/perturbed.h).

#include <optional>

#include "verify/bench.h"
#include "verify/layout_checks.h"
#include "verify/settings.h"
#include "verify/traced_run.h"
#include "verify/training_curve.h"

namespace verify {

inline constexpr int kMostTrainingRanks = 256;
/// The second has what the first leaves in flight; all others are as the second.
inline constexpr std::int64_t kMostTracedSteps = 2;
#ifdef SHARDPROOF_SANITIZED
inline constexpr std::int64_t kTrainIters = 2;  // a step takes thirty times as long
#else
inline constexpr std::int64_t kTrainIters = 20;
#endif

struct Training {
  CheckResult check;
  TrainingCurve curve;
};

Training train_on_text(const Settings& settings, const sim::Layout& layout, Bench& bench);

/// The first kMostTracedSteps of these steps once more, on a device that counts, in the world of virtual ranks that is asked for.
TracedRun trace_training(const Settings& settings, const sim::Layout& layout);

/// Of the text that is asked for, or of this project's own: before any work.
void check_training_text(const Settings& settings);
/// Steps that are asked for.
std::int64_t train_iters(const Settings& settings);

}  // namespace verify
