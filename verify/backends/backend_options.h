#pragma once

/// From settings to the backend they ask for: backend, device, deadline, mpi-reductions, nccl-order,
/// ranks-per-gpu, cuda-kernels, and who this process is (rank, master-addr, master-port; else what its
/// launcher says: sim/launch/launch.h).
///
/// Errors  backend_device: a backend on a device that it does not compute on; option_without_effect;
///         backend_unavailable; those of sim/launch/launch.h.

#include <cstdint>
#include <ostream>

#include "verify/backends/backend.h"
#include "verify/options/settings.h"

namespace verify {

/// "mpi", "nccl" or "cuda"; "" where all runs on virtual ranks on the CPU.
std::string backend_name(const Settings& settings);

/// Who this process is; nothing in it where all ranks are here.
sim::Launch requested_launch(const Settings& settings);

/// `configuration`: a hash of what has to be the same on every process.
BackendRequest backend_request(const Settings& settings, std::uint64_t configuration);

/// Refuses options that the backend, or none (""), does not read. `given`: on the command line; what a
/// scenario says of another backend than the one it runs on is left alone.
void check_backend_options(const Settings& given, const std::string& backend, const std::string& command);

/// `open_gpu`: null in a program without GPU backends. Rank 0 says on `err` who told the processes who they
/// are.
std::unique_ptr<Backend> open_backend(const BackendRequest& request, const OpenBackend& open_gpu,
                                      std::ostream& err);

/// What a line that runs so many processes begins with; "" for one.
std::string launched(int processes);

}  // namespace verify
