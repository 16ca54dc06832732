// This file replaces mpi_wire.cpp in a build without MPI.

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"

namespace sim {

void require_mpi(const std::string& asked_by) {
  refuse({.code = "backend_unavailable",
          .option = asked_by,
          .numbers = "this program was built without MPI",
          .rule = "a backend is available if its library was there when the program was built",
          .hint = "install libopenmpi-dev and openmpi-bin and build again, or leave out " + asked_by});
}

std::string mpi_library() { return ""; }

std::unique_ptr<Wire> open_mpi_wire(std::size_t) {
  require_mpi("open_mpi_wire");
  return nullptr;
}

}  // namespace sim
