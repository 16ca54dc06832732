#pragma once

/// The commands of a program that proves the layers of another project (verify/prove.h), as help shows them.
/// The examples are of the project's own first case.

#include <string>

#include "verify/program/command_info.h"

namespace verify {

/// `called` is the program as a shell finds it. There must be a case.
ProgramInfo project_program(const std::string& called, const CaseList& cases);

}  // namespace verify
