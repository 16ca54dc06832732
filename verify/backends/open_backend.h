#pragma once

/// Opens the backend that is asked for (verify/options/backend_choice.h).
///
/// Errors  backend_unavailable: a backend that this program was built without; those of the backends.

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "verify/backends/backend.h"

namespace verify {

/// Refuses a backend that this program was built without, before any work.
void require_built(const BackendChoice& choice);

/// `open_gpu`: null in a program without GPU backends. Rank 0 says on `err` who told the processes who they
/// are.
std::unique_ptr<Backend> open_backend(const BackendRequest& request, const OpenBackend& open_gpu,
                                      std::ostream& err);

/// What a line that starts this many processes begins with; "" for one.
std::string launched(int processes);

}  // namespace verify
