#pragma once

/// Options for NCCL, and the environment variables that put them into effect. The variables are computed by a
/// pure function, since NCCL reads them only once, at its first call, and some differ from rank to rank.
///
///   exact           a ring, one channel, the Simple protocol, and buffers of the size that
///                   sim/comm/reduction_order.h assumes: sums are those of the order nccl_ring, bit for bit.
///                   When a communicator is made, nccl_channel.h checks that rings go through the places in
///                   order.
///   any             NCCL chooses, so the order of sums is not known. Everything that it may choose is
///                   connected beforehand.
///   ranks_per_gpu   1: each rank has a GPU. More: processes take turns on one GPU. NCCL has a switch for
///                   that since 2.30; before, each rank has to look like a separate host, and ranks are
///                   connected only by the network.
///
/// Exact   A variable without a value must be absent from the environment.
/// Errors  nccl_options: the number of ranks on a GPU or the deadline is not positive.
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
  std::chrono::milliseconds deadline{60'000};  // the limit of every wait for other ranks
};

void check(const NcclOptions& options);

/// The first version, as NCCL numbers versions, in which ranks may share a GPU.
inline constexpr int kNcclSharesGpus = 23'000;

using NcclEnvironment = std::map<std::string, std::optional<std::string>>;

/// Returns the environment of a rank. `version` is the version of the running NCCL.
NcclEnvironment nccl_environment(const NcclOptions& options, int rank, int version);

/// Sets the environment of this process. Call it before the first call of NCCL or CUDA, while the process
/// has one thread.
void set_environment(const NcclEnvironment& environment);

/// Returns, as text, the options that must be the same on all ranks.
std::string text_of(const NcclOptions& options);

}  // namespace gpu
