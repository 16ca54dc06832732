// This file replaces mpi_wire.cpp in a build without MPI.

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"

namespace sim {

void require_mpi() {
  refuse({.code = "backend_unavailable",
          .option = "--backend mpi",
          .numbers = "this program was built without MPI",
          .rule = "a backend is available if its library was there when the program was built",
          .hint = "install libopenmpi-dev and openmpi-bin and build again, or use --backend sim"});
}

std::unique_ptr<Wire> open_mpi_wire(std::size_t) {
  require_mpi();
  return nullptr;
}

}  // namespace sim
