#pragma once

/// Standard output and standard error of this process: colours and progress where they are a terminal.

#include "verify/output/output.h"

namespace verify {

/// To be called once, before anything is written.
Output terminal_output();

}  // namespace verify
