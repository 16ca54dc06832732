#pragma once

/// The main job: a GPT trained on real text with a scenario's own parallel sizes on virtual ranks, beside one
/// device.
///
/// Calls   each rank makes those of the closed form (cases/gpt_calls.h), or the row does not hold.
/// Exact   losses, norms, gradients, states and parameters after all steps: in the field equal to one device,
///         in f32 within the spread of perturbed references (reference/perturbed.h).

#include "verify/checks/check_result.h"
#include "verify/checks/traced_run.h"
#include "verify/checks/trained_model.h"
#include "verify/checks/training_curve.h"
#include "verify/properties/bench.h"

namespace verify {

/// The second has what the first leaves in flight; all others are as the second.
inline constexpr std::int64_t kMostTracedSteps = 2;

struct Training {
  CheckResult check;
  TrainingCurve curve;
};

Training train_on_text(const TrainedModel& model, Bench& bench);

/// The first kMostTracedSteps steps once more, on a device that counts, in a world of virtual ranks with the
/// options of `world`.
TracedRun trace_training(const TrainedModel& model, const sim::WorldSpec& world);

}  // namespace verify
