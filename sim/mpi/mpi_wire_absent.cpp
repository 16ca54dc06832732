// This file replaces mpi_wire.cpp in a build without MPI.

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"

namespace sim {

void require_mpi(const std::string& asked_by) {
  refuse({.code = "backend_unavailable",
          .option = asked_by,
          .numbers = "built without MPI",
          .rule = "a backend is there when the program is built",
          .hint = "install libopenmpi-dev and openmpi-bin, and build again; or do without " + asked_by});
}

std::unique_ptr<Wire> open_mpi_wire(std::size_t) {
  require_mpi("open_mpi_wire");
  return nullptr;
}

}  // namespace sim
