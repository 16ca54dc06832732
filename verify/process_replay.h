#pragma once

/// replay --backend mpi: this process is one rank of the scenario's layout. It runs its part with the other processes, simulates the
/// whole world by itself, and holds what it published and called against its simulated twin, bit for bit.
///
///   mpi collectives      every operation in every kind of group (random_calls.h)
///   mpi training f32     the training that replay does on virtual ranks (trained_model.h), in f32
///   mpi training field   the same in the field
///
/// Calls   every process makes the same ones; rank 0 has the rows of all, the others their own.
/// Errors  one_scenario; backend_world: as many processes as ranks; option_without_effect; those of sim/cluster/cluster.h. Rank 0 says what
///         all are refused: the others hold their tongue for a while, since the first process to end ends all.

#include <memory>

#include "sim/cluster/cluster.h"
#include "verify/command_line.h"
#include "verify/replay.h"

namespace verify {

struct ProcessReplay {
  ScenarioReport report;
  int exit_code = 0;                      // the same on every process
  std::unique_ptr<sim::Cluster> cluster;  // closed when rank 0 has spoken
  bool speaks() const { return cluster->rank() == 0; }
};

/// Steps that are trained unless train-iters says otherwise.
inline constexpr int kProcessTrainIters = 2;

ProcessReplay replay_on_processes(const CommandLine& line);

}  // namespace verify
