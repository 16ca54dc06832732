#pragma once

/// Refuses options of the command line that the command does not read, because they would silently have no
/// effect. One scenario serves several commands and backends, so most options of a scenario are not judged.
///
/// Errors  option_without_effect: an option that neither the command nor its backend reads.

#include <string>
#include <vector>

#include "verify/requests/backend_choice.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

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
