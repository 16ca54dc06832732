#pragma once

/// Values as Python prints them, as text.
///
/// Exact   [1, 2] and ['a', "b"] (and tuples) are several values, without quotes and brackets; every other
///         value is one, as it is printed. A nested list stays as it is printed.

#include <string>
#include <string_view>
#include <vector>

namespace verify {

std::vector<std::string> python_values(std::string_view printed);

}  // namespace verify
