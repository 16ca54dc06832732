#pragma once

/// Assignments that arithmetic makes: those of ((...)), of `let`, and of the steps of a loop.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_words.h"

namespace verify {

/// Returns the variables that a command ((...)) assigns.
std::vector<std::string> names_assigned_in(const ShellCommand& command);

/// Returns the expressions that the commas outside of brackets part.
std::vector<std::string> parted_expressions(std::string_view expression);

/// An assignment with a plain sign, I = I + 1 for I++.
struct ArithmeticAssignment {
  ShellAssignment assignment;
  int behind = 0;  // what the value of the expression is above that of the variable: -1 for I++, 1 for I--
};

/// Returns NAME=expression, NAME+=expression, NAME++ and their like as an assignment; none where it assigns
/// in another way.
std::optional<ArithmeticAssignment> arithmetic_assignment(std::string_view written, int line);

}  // namespace verify
