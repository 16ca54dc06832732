#include "verify/backends/backend_options.h"

#include <array>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/mpi/mpi_wire.h"
#include "verify/backends/mpi_backend.h"

namespace verify {

namespace {

/// An option, and the backends that read it.
struct BackendOption {
  const char* name;
  bool mpi;
  bool nccl;
  bool cuda;
};

constexpr std::array<BackendOption, 9> kOptions = {{{"deadline", true, true, false},
                                                    {"message-bytes", true, true, false},
                                                    {"rank", true, true, false},
                                                    {"master-addr", true, true, false},
                                                    {"master-port", true, true, false},
                                                    {"mpi-reductions", true, false, false},
                                                    {"nccl-order", false, true, false},
                                                    {"ranks-per-gpu", false, true, false},
                                                    {"cuda-kernels", false, true, true}}};

bool reads(const BackendOption& option, const std::string& backend) {
  return (option.mpi && backend == "mpi") || (option.nccl && backend == "nccl") ||
         (option.cuda && backend == "cuda");
}

/// As the user asked for it.
std::string asked_by(const std::string& backend) {
  return backend == "cuda" ? "--device cuda" : "--backend " + backend;
}

}  // namespace

sim::Launch requested_launch(const Settings& settings) {
  if (backend_name(settings) == "cuda") return {};
  const auto given = [&](const char* name) -> std::optional<std::string> {
    if (!settings.has(name)) return std::nullopt;
    return settings.given(name).front();
  };
  sim::ExplicitLaunch launch{
      .rank = given("rank"), .master_addr = given("master-addr"), .master_port = given("master-port")};
  if (launch.rank) launch.world_size = given("world-size");
  return sim::detect_launch(launch, sim::environment_of_process());
}

std::string backend_name(const Settings& settings) {
  const std::string backend = settings.choice("backend");
  const std::string device = settings.choice("device");
  if (backend == "sim") return device == "cuda" ? "cuda" : "";
  const char* own_device = backend == "nccl" ? "cuda" : "cpu";
  if (!settings.has("device") || device == own_device) return backend;
  sim::refuse(
      {.code = "backend_device",
       .option = "--device " + device,
       .numbers = "given with --backend " + backend,
       .rule = "ranks over MPI compute on CPUs, ranks over NCCL on GPUs; virtual ranks on either",
       .hint = fmt::format("--backend {} without --device, or --backend sim --device {}", backend, device)});
}

BackendRequest backend_request(const Settings& settings, std::uint64_t configuration) {
  const std::string name = backend_name(settings);
  const bool has_own_order =
      name == "nccl" || (name == "mpi" && settings.choice("mpi-reductions") == "native");
  if (has_own_order && settings.has("reduction-order") && settings.choice("reduction-order") != "nccl_ring")
    refuse_without_effect("reduction-order", asked_by(name));
  if (name == "mpi") sim::require_mpi();
  constexpr std::int64_t kDeadline = 60;
  return {.name = name,
          .launch = requested_launch(settings),
          .configuration = configuration,
          .deadline = std::chrono::seconds(settings.number("deadline").value_or(kDeadline)),
          .any_order = settings.choice(name == "nccl" ? "nccl-order" : "mpi-reductions") ==
                       (name == "nccl" ? "any" : "native"),
          .ranks_per_gpu = static_cast<int>(settings.number("ranks-per-gpu").value_or(1)),
          .vendor_kernels = settings.choice("cuda-kernels") == "vendor"};
}

void check_backend_options(const Settings& given, const std::string& backend, const std::string& command) {
  for (const BackendOption& option : kOptions) {
    const bool is_of_groups = command == "groups" && std::string_view(option.name) == "rank";
    const bool is_of_replay = command == "check" && std::string_view(option.name) == "message-bytes";
    if (given.has(option.name) && !is_of_groups && (is_of_replay || !reads(option, backend)))
      refuse_without_effect(option.name, backend.empty() ? command : command + " " + asked_by(backend));
  }
}

std::unique_ptr<Backend> open_backend(const BackendRequest& request, const OpenBackend& open_gpu,
                                      std::ostream& err) {
  if (request.launch.rank == 0 && request.launch.world_size > 1)
    err << "shardproof: " << sim::text_of(request.launch) << "\n" << std::flush;
  if (request.name == "mpi") return open_mpi_backend(request);
  if (open_gpu) return open_gpu(request);
  sim::refuse({.code = "backend_unavailable",
               .option = asked_by(request.name),
               .numbers = "a program that was linked without GPU backends",
               .rule = "a backend is there when the program is built",
               .hint = "shardproof itself, or --backend mpi"});
}

std::string launched(int processes) { return processes == 1 ? "" : fmt::format("mpirun -n {} ", processes); }

}  // namespace verify
