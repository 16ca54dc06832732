#pragma once

/// Refusals whose sentences are rows of refusals.tsv. The code that refuses gives the row, the option and the
/// facts; the table says what was given, what must hold, and what to try.
///
/// Shapes  In a cell "{0}" stands for the option and "{1}", "{2}" for the facts in order, as fmt writes them.
///         A row is named by its code or, where a code has several, as "code/case".
/// Errors  A name without a row breaks an invariant (SIM_CHECK).

#include <fmt/format.h>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace verify {

sim::Refusal refusal_of_row(std::string_view name, const std::string& option, fmt::format_args facts);

/// Returns the refusal of this row.
template <typename... Facts>
sim::Refusal refusal_of(std::string_view name, const std::string& option, const Facts&... facts) {
  return refusal_of_row(name, option, fmt::make_format_args(option, facts...));
}

/// Throws it.
template <typename... Facts>
[[noreturn]] void refuse_by(std::string_view name, const std::string& option, const Facts&... facts) {
  sim::refuse(refusal_of(name, option, facts...));
}

}  // namespace verify
