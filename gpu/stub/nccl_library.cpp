// This file stands in for NCCL in a program that is built without it.

#include "gpu/nccl/nccl_library.h"

#include "sim/base/error.h"

namespace gpu {

std::unique_ptr<NcclLibrary> open_nccl() {
  sim::refuse({.code = "backend_unavailable",
               .option = "--backend nccl",
               .numbers = "this program was built without NCCL",
               .rule = "a program runs the backends with which it was built",
               .hint =
                   "install CUDA and NCCL (its header and library), configure with -DSHARDPROOF_GPU=ON, and "
                   "build again; or --backend mpi"});
}

}  // namespace gpu
