#pragma once

/// Returns standard output and standard error of this process, with colours and progress if they are
/// terminals.

#include "verify/output/output.h"

namespace verify {

/// It must be called once, before anything is written.
Output terminal_output();

}  // namespace verify
