#pragma once

/// replay on a backend (backend.h): every process proves the scenario on virtual ranks, as replay does
/// (replay.h). Where that holds, its ranks run on the backend too, and are held against virtual ones:
///
///   B collectives      every operation in every kind of group (random_calls.h)
///   B bandwidth        collectives in the groups of tp, cp, dp, ep and pp are timed, and no element of a
///                      result is wrong (bandwidth_round.h); of more than one process
///   B training D       the training that replay does on virtual ranks (trained_model.h), in dtype D: f32,
///                      and the field on CPUs or bf16 on GPUs. Where sums have no known order, f32 alone,
///                      within the bounds of its reference
///
/// Calls   every process makes the same ones; rank 0 has the rows of all, the others their own.
/// Errors  message_bytes: a message that is too large, or less than none; backend_world: as many processes as
///         ranks; option_without_effect; those of open_backend.h and backend.h. What replay refuses is in
///         the report.

#include "verify/backends/backend.h"
#include "verify/options/scenario.h"
#include "verify/replay/replay.h"

namespace verify {

struct BackendReplay {
  ScenarioReport report;
  int exit_code = 0;   // the same on every process
  bool speaks = true;  // this is rank 0
  int processes = 1;
  std::unique_ptr<Backend> backend;  // closed when rank 0 has spoken; null where nothing had to run there
};

/// Steps that are trained unless train-iters says otherwise.
inline constexpr int kBackendTrainIters = 2;

BackendReplay replay_on_backend(const Scenario& scenario, const OpenBackend& open_gpu, std::ostream& err);

}  // namespace verify
