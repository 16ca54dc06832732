#include "verify/backends/open_backend.h"

#include <cstring>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"
#include "verify/backends/mpi_backend.h"

namespace verify {

namespace {

bool is_mpi(const BackendChoice& choice) { return std::strcmp(choice.kind->name, "mpi") == 0; }

}  // namespace

void require_built(const BackendChoice& choice) {
  if (is_mpi(choice)) sim::require_mpi();
}

std::unique_ptr<Backend> open_backend(const BackendRequest& request, const OpenBackend& open_gpu,
                                      std::ostream& err) {
  const BackendChoice& choice = request.choice;
  if (choice.launch.rank == 0 && choice.launch.world_size > 1)
    err << "shardproof: " << sim::text_of(choice.launch) << "\n" << std::flush;
  if (is_mpi(choice)) return open_mpi_backend(request);
  if (open_gpu) return open_gpu(request);
  sim::refuse({.code = "backend_unavailable",
               .option = choice.kind->asked_by,
               .numbers = "a program that was linked without GPU backends",
               .rule = "a backend is there when the program is built",
               .hint = "shardproof itself, or --backend mpi"});
}

std::string launched(int processes) { return processes == 1 ? "" : fmt::format("mpirun -n {} ", processes); }

}  // namespace verify
