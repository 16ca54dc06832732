// This file replaces mpi_wire.cpp in a build without MPI.

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"

namespace sim {

void require_mpi() {
  refuse({.code = "backend_unavailable",
          .option = "--backend mpi",
          .numbers = "built without MPI",
          .rule = "a backend is there when the program is built",
          .hint = "install libopenmpi-dev and openmpi-bin, and build again; or --backend sim"});
}

std::string mpi_library() { return ""; }

std::unique_ptr<Wire> open_mpi_wire(std::size_t) {
  require_mpi();
  return nullptr;
}

}  // namespace sim
