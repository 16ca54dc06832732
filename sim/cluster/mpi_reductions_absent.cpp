// In place of mpi_reductions.cpp where MPI was not found.

#include "sim/cluster/mpi_wire.h"
#include "sim/cluster/native_reductions.h"

namespace sim {

std::unique_ptr<NativeReductions> open_mpi_reductions() {
  require_mpi();
  return nullptr;
}

}  // namespace sim
