// gpu::open_nccl() of a program whose NCCL is played between processes. The variable SHARDPROOF_PLAYED says
// what goes wrong in it:
//
//   offset R     rank R sends the first block of each group of messages from the place of its second
//   killed R N   rank R is killed when it puts in its Nth group
//   hangs R N    rank R hangs when it puts in its Nth group
//   ring         sums start at place 0 for every element
//   silent       nobody is told of a process that ended
//
// It also says what kind of NCCL is played:
//
//   shares       ranks may share a GPU
//   gpus N       a host has N GPUs

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unistd.h>

#include "gpu/nccl/nccl_options.h"
#include "tests/gpu/played/played_processes.h"

namespace {

using Requests = std::vector<gpu::NcclRequest>;

void displace_first_send(Requests& requests) {
  gpu::NcclRequest* first = nullptr;
  for (gpu::NcclRequest& request : requests) {
    if (request.operation != gpu::NcclOperation::send) continue;
    if (first == nullptr) {
      first = &request;
    } else if (request.count == first->count) {
      first->from = request.from;
      return;
    }
  }
}

/// Hangs until somebody ends the process.
void hang() {
  for (;;) pause();
}

void fail(const std::string& how, Requests& requests, std::int64_t put, std::int64_t last_put) {
  if (how == "offset") displace_first_send(requests);
  if (put != last_put) return;
  if (how == "killed") raise(SIGKILL);
  if (how == "hangs") hang();
}

test::PlayedProcesses played(const std::string& words) {
  test::PlayedProcesses spec;
  std::istringstream stream(words);
  for (std::string how; stream >> how;) {
    if (how == "ring") {
      spec.faults.folds_by_rank = true;
    } else if (how == "silent") {
      spec.tells_of_ends = false;
    } else if (how == "shares") {
      spec.version = gpu::kNcclSharesGpus;
    } else if (how == "gpus") {
      stream >> spec.gpus;
    } else {
      int failing = 0;
      std::int64_t last_put = 0;
      stream >> failing;
      if (how != "offset") stream >> last_put;
      spec.faults.requests = [how, failing, last_put, put = std::int64_t{0}](int rank,
                                                                             Requests& requests) mutable {
        if (rank == failing) fail(how, requests, ++put, last_put);
      };
    }
  }
  return spec;
}

}  // namespace

std::unique_ptr<gpu::NcclLibrary> gpu::open_nccl() {
  const char* words = std::getenv("SHARDPROOF_PLAYED");
  return test::open_played_processes(played(words == nullptr ? "" : words));
}
