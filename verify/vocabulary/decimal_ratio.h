#pragma once

/// Reads a decimal number such as "2.5", also with an exponent, as an exact ratio in lowest terms.

#include <optional>
#include <string_view>

#include "sim/tensor/kernel_parameters.h"

namespace verify {

/// Returns the number; nothing where the text is none, or where its ratio needs more than 31 bits.
std::optional<sim::Ratio> decimal_ratio(std::string_view text);

}  // namespace verify
