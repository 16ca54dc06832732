#pragma once

/// Which backend the user asks for, and with which options. The table of kinds is what this program knows of
/// each backend beside its code (verify/backends).
///
///   mpi    ranks are processes, each on its CPU
///   nccl   ranks are processes, each on a GPU
///   cuda   all ranks are virtual ones of this process, on one GPU
///
/// Errors  backend_device: a backend on a device that it does not compute on; option_without_effect: a
///         reduction order where the backend has its own; message_bytes: a message that is too large, or less
///         than none; those of sim/launch/launch.h.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/launch/launch.h"
#include "verify/options/command_line.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/scenario.h"

namespace verify {

struct BackendKind {
  const char* name;
  const char* asked_by;      // the options that ask for it
  const char* device;        // what its ranks compute on
  bool ranks_are_processes;  // else all are in this process
  bool has_field;            // its device computes in the field
  bool has_own_order;        // sums are added in its own order, whatever --reduction-order says
  Reader reader;             // who reads its options
  const char* order_option;  // whose second word leaves the order of sums open; "" where there is none
  const char* any_order;     // that word
};

const std::vector<BackendKind>& backend_kinds();

struct BackendChoice {
  const BackendKind* kind = nullptr;  // null: virtual ranks on the CPU, without a backend
  sim::Launch launch = {};            // who this process is; nothing where all ranks are here
  std::int64_t deadline = 60;         // seconds
  bool any_order = false;             // sums in the order that MPI or NCCL takes
  int ranks_per_gpu = 1;
  bool vendor_kernels = false;
  std::vector<std::int64_t> message_bytes;  // sizes that collectives are timed at
};

/// The kind that is asked for, alone; null for virtual ranks on the CPU.
const BackendKind* backend_kind(const CommandLine& line);
const BackendKind* backend_kind(const Scenario& scenario);
/// Whether an option of backends or of this process is on the command line.
bool names_a_backend(const CommandLine& line);

/// The backend with its options, and who this process is.
BackendChoice backend_choice(const CommandLine& line);
BackendChoice backend_choice(const Scenario& scenario);

}  // namespace verify
