#pragma once

/// A wire between the processes of MPI_COMM_WORLD. It uses only non-blocking sends and probes, and neither
/// collectives nor further communicators of MPI, so that every wait for a process that does not answer can
/// have a deadline.
///
/// Shapes  a letter of any length is sent in pieces of at most `most_piece` bytes, because counts of MPI have
///         31 bits.
/// Calls   a process opens it once, because MPI can be started only once. A wire that is destroyed without
///         close() ends all processes.
/// Errors  backend_unavailable: this program was built without MPI.
/// Source  MPI 3.1, sections 3.5 (order of messages), 3.7 and 3.8.

#include <cstddef>
#include <memory>
#include <string>

#include "sim/mpi/wire.h"

namespace sim {

inline constexpr std::size_t kMostPiece = std::size_t{1} << 30;

/// Refuses if this program was built without MPI. `asked_by` is the option that asks for it.
void require_mpi(const std::string& asked_by);

/// Returns the name and the version of the MPI library, such as "Open MPI v4.1.4"; "" if this program was
/// built without MPI. MPI need not be started.
std::string mpi_library();

/// Starts MPI, which waits for all processes without a deadline. They should have met before (cluster.h).
std::unique_ptr<Wire> open_mpi_wire(std::size_t most_piece = kMostPiece);

}  // namespace sim
