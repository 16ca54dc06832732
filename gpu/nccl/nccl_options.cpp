#include "gpu/nccl/nccl_options.h"

#include <cstdlib>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace gpu {

void check(const NcclOptions& options) {
  if (options.ranks_per_gpu >= 1 && options.deadline.count() > 0) return;
  sim::refuse({.code = "nccl_options",
               .option = "NCCL",
               .numbers = fmt::format("there are {} ranks on a GPU, and the deadline is {} ms",
                                      options.ranks_per_gpu, options.deadline.count()),
               .rule = "a GPU has at least one rank, and the deadline is positive",
               .hint = "--ranks-per-gpu 1 --deadline 60"});
}

NcclEnvironment nccl_environment(const NcclOptions& options, int rank, int version) {
  // Each communicator has its own stream, and no stream may block another.
  NcclEnvironment all = {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  // These variables override the configuration of a communicator: calls do not block, and calls of
  // different groups progress independently.
  for (const char* name :
       {"NCCL_COMM_BLOCKING", "NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_LAUNCH_ORDER_IMPLICIT"})
    all[name] = "0";
  if (options.order == NcclOrder::exact) {
    for (const char* name : {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"})
      all[name] = "1";
    for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_PAT_ENABLE"}) all[name] = "0";
    for (const char* name : {"NCCL_TUNER_CONFIG_FILE", "NCCL_CTA_POLICY"}) all[name] = std::nullopt;
    all["NCCL_TUNER_PLUGIN"] = "none";  // if it is absent, NCCL looks for a plugin
    all["NCCL_ALGO"] = "Ring";
    all["NCCL_PROTO"] = "Simple";
    all["NCCL_BUFFSIZE"] = std::to_string(4 << 20);
  } else {
    // Otherwise the hosts wait for each other in the first call of each algorithm.
    all["NCCL_RUNTIME_CONNECT"] = "0";
  }
  if (options.ranks_per_gpu == 1) return all;
  all["NCCL_NVLS_ENABLE"] = "0";
  if (version >= kNcclSharesGpus) {
    all["NCCL_MULTI_RANK_GPU_ENABLE"] = "1";
    all["NCCL_MAX_CTAS"] = "1";  // the kernels of all ranks must fit on the GPU
    return all;
  }
  for (const char* name : {"NCCL_MNNVL_ENABLE", "NCCL_RAS_ENABLE"}) all[name] = "0";
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"}) all[name] = "1";
  all["NCCL_HOSTID"] = fmt::format("rank-{}", rank);
  all["NCCL_NET"] = "Socket";
  all["NCCL_SOCKET_IFNAME"] = "=lo";  // "=": exactly this name
  all["NCCL_SOCKET_FAMILY"] = "AF_INET";
  return all;
}

void set_environment(const NcclEnvironment& environment) {
  for (const auto& [name, value] : environment) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

std::string text_of(const NcclOptions& options) {
  return fmt::format("{} order, {} ranks on a GPU", options.order == NcclOrder::exact ? "exact" : "any",
                     options.ranks_per_gpu);
}

}  // namespace gpu
