#pragma once

/// Refuses options of the command line that the command does not read, because they would silently have no
/// effect. Options of a scenario are not judged here: one scenario serves several commands and backends.
///
/// Errors  option_without_effect: an option that neither the command nor its backend reads.

#include "verify/options/backend_choice.h"
#include "verify/options/command_line.h"
#include "verify/options/option_vocabulary.h"

namespace verify {

/// Refuses an option of the command line that the command does not read. Where the command runs on backends,
/// options of any backend pass; require_read_on() judges them once the backend is known.
void require_read_by(const CommandLine& line, Reader command);

/// Refuses an option of the command line that neither the command nor `backend` reads. A null `backend`
/// stands for virtual ranks on the CPU.
void require_read_on(const CommandLine& line, Reader command, const BackendKind* backend);

}  // namespace verify
