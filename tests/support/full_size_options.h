#pragma once

/// Drawn worlds, and dense models for them, whose steps run at full size.

#include <cstdint>
#include <string>

#include "verify/options/case_options.h"

namespace test {

/// Draws a world of up to 3 pipeline ranks and of 3 to 5 replicas, and a model for it.
verify::NamedValues full_size_options(std::uint64_t seed);

/// Returns the options as words of a command line.
std::string text_of(const verify::NamedValues& options);

}  // namespace test
