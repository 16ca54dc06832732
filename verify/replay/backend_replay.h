#pragma once

/// Replays a scenario on a backend (backend.h). First every process proves the scenario on virtual ranks, as
/// replay() does (replay.h). If every check holds, the ranks of the scenario also run on the backend B, and
/// are compared with virtual ranks:
///
///   B collectives      Every operation runs in every kind of group (random_calls.h).
///   B bandwidth        Collectives in the groups of tp, cp, dp, ep and pp are timed, and no element of a
///                      result is wrong (bandwidth_round.h). This row needs ranks that are processes.
///   B training D       The training that replay does on virtual ranks (trained_model.h) runs in dtype D:
///                      f32, and also the field on CPUs or bf16 on GPUs. If the order of sums or products is
///                      not known, only f32 runs, and its results must be within the bounds of the reference.
///
/// Calls   Every process makes the same calls. Rank 0 has the rows of all processes, the others only
///         their own.
/// Errors  message_bytes: a message size that is negative or too large; backend_world: the number of
///         processes is not the number of ranks; option_without_effect: an option that has an effect on
///         virtual ranks only; those of backend_choice.h, scenario_request.h, backend.h.
///         What replay refuses is in the report.

#include <functional>

#include "verify/backends/backend.h"
#include "verify/checks/traced_run.h"
#include "verify/replay/replay.h"
#include "verify/requests/scenario.h"

namespace verify {

struct BackendReplay {
  ScenarioReport report;
  int exit_code = 0;   // the same on every process
  bool speaks = true;  // this is rank 0
  int processes = 1;
  std::unique_ptr<Backend> backend;  // close it after rank 0 has written; null if nothing ran there
};

/// The number of steps to train if train-iters is not given.
inline constexpr int kBackendTrainIters = 2;

/// Takes what the ranks of this process did on the backend: in its first training, or in the collectives
/// where it does not train. Times count the calls of a rank, and a call that did not return has no end. Where
/// a program ends with an error, it is called with that program before all processes end.
using KeepRun = std::function<void(const TracedRun&)>;

/// Replays a scenario on the backend that it asks for. `backends` are those that the program adds to those of
/// this library. Rank 0 calls `before_step` before every step; every process calls `keep`, if there is one.
BackendReplay replay_on_backend(const Scenario& scenario, const BackendOpeners& backends, std::ostream& err,
                                const BeforeStep& before_step, const KeepRun& keep = {});

}  // namespace verify
