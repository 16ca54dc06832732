#pragma once

/// Refuses options that nobody reads: given to a command, they would be silently without effect. Options of a
/// scenario are left alone, because a scenario is written for several commands and backends.
///
/// Errors  option_without_effect.

#include "verify/options/backend_choice.h"
#include "verify/options/command_line.h"
#include "verify/options/option_vocabulary.h"

namespace verify {

/// Refuses an option of the command line that the command does not read. Options of backends pass where the
/// command runs on backends: require_read_on() judges them when the backend is known.
void require_read_by(const CommandLine& line, Reader command);

/// Refuses an option of backends that the one which is used does not read; null: ranks are virtual ones on
/// the CPU.
void require_read_on(const CommandLine& line, Reader command, const BackendKind* backend);

}  // namespace verify
