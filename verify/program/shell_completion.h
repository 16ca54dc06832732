#pragma once

/// Scripts with which bash and zsh complete a command line of the program, made from the tables of commands
/// (command_info.h) and options (option_vocabulary.h): commands, the options that a command reads, their
/// values where all of them are known, and scenario files. CMake writes them when the program is linked, and
/// installs them where the shells look for them.
///
/// Exact   The scripts hold all words themselves: they call no program and evaluate no text.

#include <string>

#include "verify/program/command_info.h"

namespace verify {

std::string bash_completion(const ProgramInfo& program);
std::string zsh_completion(const ProgramInfo& program);

}  // namespace verify
