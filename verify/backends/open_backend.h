#pragma once

/// Opens the backend that is asked for (verify/requests/backend_choice.h). A table has a row for each kind of
/// backend that this library holds; `more` are the rows of the program, for the backends that it adds.
///
/// Errors  backend_unavailable: a backend that this program was built without; those of the backends.

#include <memory>
#include <ostream>
#include <string>

#include "verify/backends/backend.h"

namespace verify {

/// Refuses a backend whose library was absent when this program was built, before any work.
void require_built(const BackendChoice& choice, const BackendOpeners& more);

/// Opens the backend. Rank 0 writes to `err` which launcher gave the processes their ranks.
std::unique_ptr<Backend> open_backend(const BackendRequest& request, const BackendOpeners& more,
                                      std::ostream& err);

/// Returns the beginning of a command line that starts this many processes, "mpirun -n 4 "; "" for one
/// process.
std::string launched(int processes);

}  // namespace verify
