#pragma once

/// From what the program shardproof was built: its commit, and what is compiled in. The libraries do not know
/// the commit, so that a new one recompiles one small file and links one program.

#include "verify/program/version.h"

namespace verify {

Build program_build();

/// The build defines it (verify/commit.cmake).
Commit commit_of_program();

}  // namespace verify
