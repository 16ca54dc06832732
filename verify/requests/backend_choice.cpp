#include "verify/requests/backend_choice.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

const BackendKind* kind_named(const std::string& name) {
  const auto found = std::ranges::find(backend_kinds(), name, &BackendKind::name);
  return found == backend_kinds().end() ? nullptr : &*found;
}

sim::Launch launch_of(const Settings& settings) {
  sim::Environment options;
  for (const std::string name : {"rank", "world-size", "master-addr", "master-port"}) {
    if (settings.has(name)) options["--" + name] = settings.given(name).front();
  }
  if (!options.contains("--rank")) options.erase("--world-size");  // it may be that of a layout
  return sim::detect_launch(options, sim::environment_of_process());
}

std::vector<std::int64_t> message_bytes(const Settings& settings) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::vector<std::int64_t> sizes = {4096, 1 << 20};
  if (settings.has("message-bytes")) sizes = settings.numbers("message-bytes");
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > kMost) refuse_by("message_bytes", "--message-bytes", size, kMost);
  }
  std::erase(sizes, 0);
  return sizes;
}

/// The processes of check --spread mpi. It is no row of backend_kinds(), because its ranks are virtual.
constexpr BackendKind kSpreadOverMpi = {.name = "mpi",
                                        .asked_by = "--spread mpi",
                                        .device = "cpu",
                                        .ranks_are_processes = true,
                                        .has_field = true,
                                        .has_own_order = false,
                                        .reader = Reader::spread};

}  // namespace

const std::vector<BackendKind>& backend_kinds() {
  static const std::vector<BackendKind> kinds = {
      {.name = "mpi",
       .asked_by = "--backend mpi",
       .device = "cpu",
       .ranks_are_processes = true,
       .has_field = true,
       .has_own_order = false,
       .reader = Reader::mpi},
      {.name = "nccl",
       .asked_by = "--backend nccl",
       .device = "cuda",
       .ranks_are_processes = true,
       .has_field = false,
       .has_own_order = true,
       .reader = Reader::nccl},
      {.name = "cuda",
       .asked_by = "--device cuda",
       .device = "cuda",
       .ranks_are_processes = false,
       .has_field = false,
       .has_own_order = false,
       .reader = Reader::cuda},
  };
  return kinds;
}

const BackendKind* backend_kind(const Settings& settings) {
  const std::string backend = settings.choice("backend");
  const std::string device = settings.choice("device");
  if (backend == "sim") return device == "cpu" ? nullptr : kind_named(device);
  const BackendKind* kind = kind_named(backend);
  if (!settings.has("device") || device == kind->device) return kind;
  refuse_by("backend_device", "--device " + device, backend);
}

BackendChoice backend_choice(const Settings& settings) {
  BackendChoice choice{.kind = backend_kind(settings), .message_bytes = message_bytes(settings)};
  if (choice.kind == nullptr) return choice;
  choice.any_order = settings.choice("nccl-order") == "any";
  if (choice.kind->has_own_order && settings.has("reduction-order") &&
      settings.choice("reduction-order") != "nccl_ring")
    refuse_without_effect("reduction-order", choice.kind->asked_by);
  if (choice.kind->ranks_are_processes) choice.launch = launch_of(settings);
  choice.deadline = settings.number("deadline").value_or(choice.deadline);
  choice.ranks_per_gpu = static_cast<int>(settings.number("ranks-per-gpu").value_or(1));
  choice.vendor_kernels = settings.choice("cuda-kernels") == "vendor";
  return choice;
}

bool names_a_backend(const CommandLine& line) {
  return line.settings.has_any_of(kBackendSection) || line.settings.has_any_of(kProcessSection);
}

BackendChoice spread_choice(const CommandLine& line) {
  const Settings& settings = line.settings;
  BackendChoice choice;
  if (settings.choice("spread") == "none") return choice;
  if (const BackendKind* kind = backend_kind(settings))
    refuse_by("spread_backend", kSpreadOverMpi.asked_by, kind->asked_by);
  choice.kind = &kSpreadOverMpi;
  choice.launch = launch_of(settings);
  choice.deadline = settings.number("deadline").value_or(choice.deadline);
  return choice;
}

namespace {

bool runs_on_backends(Reader command) { return overlap(command, Reader::replay | Reader::check); }

bool is_read_by_backend(const Settings& given, const OptionInfo& option, Reader command,
                        const BackendKind& backend) {
  return overlap(option.readers, backend.reader) && overlap(option.backend_commands, command) &&
         (option.backend_beside.empty() || given.has(option.backend_beside));
}

}  // namespace

std::vector<OptionInfo> options_of(Reader command) {
  std::vector<OptionInfo> options;
  for (const OptionInfo& option : option_vocabulary()) {
    const bool is_on_a_backend = runs_on_backends(command) && overlap(option.readers, kEveryBackend) &&
                                 overlap(option.backend_commands, command);
    if (overlap(option.readers, command) || is_on_a_backend) options.push_back(option.as_read_by(command));
  }
  return options;
}

void require_read_by(const Settings& settings, Reader readers, const std::string& command) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (settings.has(option.name) && !overlap(option.readers, readers))
      refuse_without_effect(option.name, command);
  }
}

void require_read_by(const CommandLine& line, Reader command) {
  require_read_by(line.settings, runs_on_backends(command) ? command | kEveryBackend : command, line.command);
}

void require_read_on(const CommandLine& line, Reader command, const BackendKind* backend) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (!line.settings.has(option.name) || overlap(option.readers, command)) continue;
    if (backend != nullptr && is_read_by_backend(line.settings, option, command, *backend)) continue;
    refuse_without_effect(option.name, backend == nullptr
                                           ? line.command
                                           : fmt::format("{} {}", line.command, backend->asked_by));
  }
}

void require_no_virtual_ranks(const Scenario& scenario, const BackendKind& backend) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.needs_virtual_ranks && scenario.settings.has(option.name))
      refuse_without_effect(option.name, fmt::format("replay on {}", backend.name));
  }
}

}  // namespace verify
