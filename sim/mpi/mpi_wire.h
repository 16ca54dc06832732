#pragma once

/// The processes of MPI_COMM_WORLD as a wire. Everything goes by non-blocking sends and probes; no collective
/// and no communicator of MPI is used, so that a process that does not answer can be waited for with a
/// deadline. (MPI's own reductions: native_reductions.h.)
///
/// Shapes  letters of any length go in pieces of `most_piece` bytes at most: counts of MPI are of 31 bits.
/// Calls   once a process: MPI can be started once. A wire that goes without close() ends all processes.
/// Errors  backend_unavailable: this program was built without MPI.
/// Source  MPI 3.1, sections 3.5 (order of messages), 3.7 and 3.8.

#include <cstddef>
#include <memory>

#include "sim/mpi/wire.h"

namespace sim {

inline constexpr std::size_t kMostPiece = std::size_t{1} << 30;

/// Refuses where there is no MPI.
void require_mpi();

/// Starts MPI, which waits for all processes: they should have met before (cluster.h).
std::unique_ptr<Wire> open_mpi_wire(std::size_t most_piece = kMostPiece);

}  // namespace sim
