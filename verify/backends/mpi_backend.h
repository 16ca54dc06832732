#pragma once

/// The backend "mpi": this process is one rank and computes on its CPU. The processes of its world form the
/// cluster of sim/mpi/cluster.h.
///
/// Errors  those of sim/mpi/cluster.h; backend_unavailable in a program that was built without MPI.

#include "verify/backends/backend.h"

namespace verify {

std::unique_ptr<Backend> open_mpi_backend(const BackendRequest& request);

}  // namespace verify
