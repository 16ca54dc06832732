#pragma once

/// The backend that the user asks for, with its options. The table of kinds holds what this program knows
/// about each backend, apart from the code of the backend (verify/backends).
///
///   mpi    Ranks are processes, and each computes on its CPU.
///   nccl   Ranks are processes, and each computes on a GPU.
///   cuda   All ranks are virtual ranks of this process and share one GPU.
///
/// The runs of check may be spread over processes instead (--spread mpi): these are started as those of a
/// backend, and their ranks are virtual.
///
/// Errors  spread_backend: --spread together with a backend; backend_device: a backend together with a
///         device on which it does not compute; option_without_effect: a reduction order for a backend that
///         adds in its own order; message_bytes: a message size that is negative or too large; those of
///         settings.h and of sim/launch/launch.h.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/launch/launch.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

struct BackendKind {
  const char* name;
  const char* asked_by;      // the option that selects it, as it is written
  const char* device;        // the device on which its ranks compute
  bool ranks_are_processes;  // if not, all ranks are in this process
  bool has_field;            // its device can compute in the field
  bool has_own_order;        // it adds in its own order, whatever --reduction-order says
  Reader reader;             // the reader that marks its options
};

const std::vector<BackendKind>& backend_kinds();

struct BackendChoice {
  const BackendKind* kind = nullptr;  // null: virtual ranks on the CPU, no backend
  sim::Launch launch = {};            // the rank of this process; the default if all ranks are in it
  std::int64_t deadline = 60;         // seconds
  bool any_order = false;             // NCCL chooses the order of sums
  int ranks_per_gpu = 1;
  bool vendor_kernels = false;
  std::vector<std::int64_t> message_bytes;  // message sizes at which collectives are timed
};

/// Returns only the kind of the backend; null for virtual ranks on the CPU.
const BackendKind* backend_kind(const CommandLine& line);
const BackendKind* backend_kind(const Scenario& scenario);
/// Whether the command line has an option of the section "Backends" or "This process".
bool names_a_backend(const CommandLine& line);

/// Returns the backend with its options, and the rank of this process where ranks are processes.
BackendChoice backend_choice(const CommandLine& line);
BackendChoice backend_choice(const Scenario& scenario);

/// Returns what connects the processes over which --spread divides the runs of check. Its kind is null where
/// all runs are in this process.
BackendChoice spread_choice(const CommandLine& line);

}  // namespace verify
