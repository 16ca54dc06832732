#pragma once

/// Evaluates the whole-number arithmetic of $((...)).
///
/// Exact   + - * / % and brackets, with the precedence of the shell. The result is empty for an operation
///         that is none of these, an unknown name, a division by zero, or a number that does not fit into 64
///         bits.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verify {

/// Returns the value of a variable, where it is known to be a whole number.
using ShellNumber = std::function<std::optional<std::int64_t>(const std::string& name)>;

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, const ShellNumber& number_of);

}  // namespace verify
