#pragma once

/// A NCCL that is played between processes of one machine: rank 0's has the server (played_server.h), the id
/// of a world says where it listens, and each process, that one too, connects to it.
///
///   gpu::NcclClusterSpec spec;
///   spec.open = [] { return test::open_played_processes({}); };
///
/// Shapes  devices are of this machine's processor. There are so many GPUs on a host; NCCL_HOSTID makes hosts
///         of processes, as in NCCL, and NCCL_MULTI_RANK_GPU_ENABLE lets them share one.
/// Calls   what a group reads is sent when it is put; what it writes is there when its event, or any other of
///         the process, says so.
/// Errors  where the others are told of a process that ended: a failed state, in NCCL's words. Where not:
///         none.

#include <memory>

#include "gpu/nccl/nccl_library.h"
#include "tests/gpu/played/played_faults.h"

namespace test {

struct PlayedProcesses {
  PlayedFaults faults = {};
  bool tells_of_ends = true;
  int gpus = 1;
  int version = 22'809;  // as NCCL numbers it
};

std::unique_ptr<gpu::NcclLibrary> open_played_processes(PlayedProcesses spec);

}  // namespace test
