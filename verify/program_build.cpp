#include "verify/program_build.h"

#include "sim/mpi/mpi_wire.h"

namespace verify {

// CMake found these versions, and says why something was not found (verify/CMakeLists.txt). MPI names its
// own.
Build program_build() {
  return {.commit = commit_of_program(),
          .parts = {{"compiler", BUILT_WITH_COMPILER},
                    {"Boost", BUILT_WITH_BOOST},
                    {"fmt", BUILT_WITH_FMT},
                    {"Eigen", BUILT_WITH_EIGEN},
                    {"nlohmann_json", BUILT_WITH_JSON},
                    {"MPI", sim::mpi_library(), "CMake found no MPI"},
                    {"CUDA", BUILT_WITH_CUDA, BUILT_WITHOUT_CUDA},
                    {"NCCL", BUILT_WITH_NCCL, BUILT_WITHOUT_NCCL}}};
}

}  // namespace verify
