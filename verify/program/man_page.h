#pragma once

/// The manual page of a program, in the language of man(7), made from the tables of commands
/// (command_info.h) and options (option_vocabulary.h). CMake writes it when the program is linked, and
/// installs it as share/man/man1/shardproof.1.

#include <string>

#include "verify/program/command_info.h"

namespace verify {

std::string man_page(const ProgramInfo& program);

}  // namespace verify
