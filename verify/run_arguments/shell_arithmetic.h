#pragma once

/// The arithmetic of a shell, as in $((NODES * 8)), ((I++)) and `let I=2`.
///
/// Exact   There is no number where a name has none, where a number does not fit into 64 bits or begins with
///         0, for elements of arrays, and for operations on bits. A name that is assigned where nobody knows
///         whether that is computed is assigned no number.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verify {

struct ArithmeticNames {
  std::function<std::optional<std::string>(const std::string& name)> value;  // none: it is not known
  std::function<void(const std::string& name, std::optional<std::int64_t> number)> assign;
};

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, const ArithmeticNames& names);

}  // namespace verify
