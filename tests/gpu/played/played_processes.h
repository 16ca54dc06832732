#pragma once

/// A NCCL that is played between processes of one machine. The process of rank 0 has the server
/// (played_server.h), the id of a world says where the server listens, and every process connects to it,
/// including that of rank 0.
///
///   gpu::NcclClusterSpec spec;
///   spec.open = [] { return test::open_played_processes({}); };
///
/// Shapes  Devices are those of this machine's processor. A host has `gpus` GPUs. As in NCCL, NCCL_HOSTID
///         makes hosts of processes, and NCCL_MULTI_RANK_GPU_ENABLE lets processes share a GPU.
/// Calls   What a group reads is sent when the group is put. What it writes is there when its event, or any
///         other event of the process, says so.
/// Errors  If the others are told of a process that ended, the state is failed, in NCCL's words. Otherwise
///         there is no error.

#include <memory>

#include "gpu/nccl/nccl_library.h"
#include "tests/gpu/played/played_faults.h"

namespace test {

struct PlayedProcesses {
  PlayedFaults faults = {};
  bool tells_of_ends = true;
  int gpus = 1;
  int version = 22'809;  // in the numbering of NCCL
};

std::unique_ptr<gpu::NcclLibrary> open_played_processes(PlayedProcesses spec);

}  // namespace test
