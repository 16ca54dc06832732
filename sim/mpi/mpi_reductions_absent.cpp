// This file replaces mpi_reductions.cpp in a build without MPI.

#include "sim/mpi/mpi_wire.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

std::unique_ptr<NativeReductions> open_mpi_reductions() {
  require_mpi("open_mpi_reductions");
  return nullptr;
}

}  // namespace sim
