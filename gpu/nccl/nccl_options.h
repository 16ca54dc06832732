#pragma once

/// How NCCL is asked to work, and the environment variables that make it do so: a pure function, since NCCL
/// reads them once, at its first call, and some of them differ from rank to rank.
///
///   exact           a ring, one channel, the Simple protocol, buffers of the size that
///                   sim/comm/reduction_order.h has in mind: sums are those of the order nccl_ring, bit for
///                   bit. Rings in the order of places are checked when a communicator is made
///                   (nccl_channel.h).
///   any             NCCL chooses: the order of sums is not known. All that it may choose is connected
///                   beforehand.
///   ranks_per_gpu   1: each rank has a GPU. More: processes take turns on one. NCCL has a switch for that
///                   since 2.30; before, each rank has to look like a host of its own, and only the network
///                   is between them.
///
/// Exact   a variable without a value is one that has to be absent.
/// Errors  nccl_options: no rank a GPU, or no time to wait.
/// Source  NCCL 2.28.9: init.cc (duplicate GPUs), misc/utils.cc (NCCL_HOSTID), enqueue.cc; NCCL 2.30,
///         environment variables.

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace gpu {

enum class NcclOrder { exact, any };

struct NcclOptions {
  NcclOrder order = NcclOrder::exact;
  int ranks_per_gpu = 1;
  std::chrono::milliseconds deadline{60'000};  // of every wait for others
};

void check(const NcclOptions& options);

/// As NCCL numbers it, from which on ranks may share a GPU.
inline constexpr int kNcclSharesGpus = 23'000;

using NcclEnvironment = std::map<std::string, std::optional<std::string>>;

/// `version`: of the NCCL that runs.
NcclEnvironment nccl_environment(const NcclOptions& options, int rank, int version);

/// Of this process. Before the first call of NCCL or CUDA, while there is one thread.
void set_environment(const NcclEnvironment& environment);

/// What has to be the same on all ranks, in words.
std::string text_of(const NcclOptions& options);

}  // namespace gpu
