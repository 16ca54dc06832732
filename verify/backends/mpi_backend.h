#pragma once

/// The backend "mpi": this process is one rank, on its CPU, and its world's processes are those of
/// sim/mpi/cluster.h.
///
/// Errors  those of sim/mpi/cluster.h; backend_unavailable in a program that was built without MPI.
/// Exact   in any order, reductions of f64, f32 and i32 are MPI's own.

#include "verify/backends/backend.h"

namespace verify {

std::unique_ptr<Backend> open_mpi_backend(const BackendRequest& request);

}  // namespace verify
