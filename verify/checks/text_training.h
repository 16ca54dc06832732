#pragma once

/// Trains a GPT on real text with the parallel sizes of a scenario on virtual ranks, and compares the
/// training with that of one device.
///
/// Calls   Each rank must make the calls of the closed form (cases/gpt_calls.h); otherwise the row does
///         not hold.
/// Exact   Losses, norms, gradients, states and parameters after all steps: in the field they equal those
///         of one device; in f32 they are within the spread of perturbed references (reference/perturbed.h).

#include <vector>

#include "verify/checks/check_result.h"
#include "verify/checks/proved_settings.h"
#include "verify/checks/traced_run.h"
#include "verify/checks/trained_model.h"
#include "verify/faults/fault.h"
#include "verify/properties/bench.h"

namespace verify {

/// The number of steps that are traced. The second step waits for what the first leaves in flight, and
/// all later steps are like the second.
inline constexpr std::int64_t kMostTracedSteps = 2;

struct TextTraining {
  CheckResult check;
  TrainingCurve curve;
};

/// A training that is `proved` does not run again.
TextTraining train_on_text(const TrainedModel& model, Bench& bench, ProvedSettings& proved);

/// Runs the first kMostTracedSteps steps again with the faults that are planted, on a counting device, in a
/// world of virtual ranks with the options of `world`. Calls that have a fault here are not counted as met.
TracedRun trace_training(const TrainedModel& model, const sim::WorldSpec& world, std::vector<Fault> faults);

}  // namespace verify
