#pragma once

/// Evaluates the whole-number arithmetic of $((...)) and ((...)), in which ${...} is replaced by its value.
///
/// Exact   + - * / % **, & | ^ << >>, comparisons, && || !, the choice ?: and brackets, with the precedence
///         of the shell.
///         The result is empty for an operation that is none of these, such as an assignment, an unknown
///         name, a division by zero, a negative power, or a number that does not fit into 64 bits. A number
///         has the base 8 behind a zero, and 16 behind "0x".

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

/// Returns the value of a variable, where it is known.
using ShellNumber = std::function<std::optional<std::string>(const std::string& name)>;

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, const ShellNumber& number_of);

/// Returns the variables that an expression assigns, steps up or steps down.
std::vector<std::string> names_assigned_by(std::string_view expression);

}  // namespace verify
