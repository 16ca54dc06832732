// In place of mpi_reductions.cpp where MPI was not found.

#include "sim/mpi/mpi_wire.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

std::unique_ptr<NativeReductions> open_mpi_reductions() {
  require_mpi();
  return nullptr;
}

}  // namespace sim
