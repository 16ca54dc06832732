#pragma once

/// The backend that the user asks for, with its options, and the options that a command reads on it. The
/// table of kinds holds what this program knows about each backend, apart from the code of the backend
/// (verify/backends).
///
///   mpi    Ranks are processes, and each computes on its CPU.
///   nccl   Ranks are processes, and each computes on a GPU.
///   cuda   All ranks are virtual ranks of this process and share one GPU.
///
/// The runs of check may be spread over processes instead (--spread mpi): these are started as those of a
/// backend, and their ranks are virtual.
///
/// Options of the command line that the command does not read are refused, because they would silently have
/// no effect. One scenario serves several commands and backends, so most options of a scenario are not
/// judged.
///
/// Errors  spread_backend: --spread together with a backend; backend_device: a backend together with a device
///         on which it does not compute; option_without_effect: an option that neither the command nor its
///         backend reads, or a reduction order for a backend that adds in its own order; message_bytes: a
///         message size that is negative or too large; those of settings.h and of sim/launch/launch.h.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/launch/launch.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

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
const BackendKind* backend_kind(const Settings& settings);
/// Whether the command line has an option of the section "Backends" or "This process".
bool names_a_backend(const CommandLine& line);

/// Returns the backend with its options, and the rank of this process where ranks are processes.
BackendChoice backend_choice(const Settings& settings);

/// Returns what connects the processes over which --spread divides the runs of check. Its kind is null where
/// all runs are in this process.
BackendChoice spread_choice(const CommandLine& line);

/// Returns the options that a command reads, itself or on one of its backends, as it reads them.
std::vector<OptionInfo> options_of(Reader command);

/// Refuses an option of the command line that the command does not read. Where the command runs on backends,
/// options of any backend pass; require_read_on() judges them once the backend is known.
void require_read_by(const CommandLine& line, Reader command);

/// Refuses an option that none of these readers reads, whether a scenario or the command line gives it.
void require_read_by(const Settings& settings, Reader readers, const std::string& command);

/// Refuses an option of the command line that neither the command nor `backend` reads. A null `backend`
/// stands for virtual ranks on the CPU.
void require_read_on(const CommandLine& line, Reader command, const BackendKind* backend);

/// Refuses an option of the scenario that needs virtual ranks: it would have no effect on a backend.
void require_no_virtual_ranks(const Scenario& scenario, const BackendKind& backend);

}  // namespace verify
