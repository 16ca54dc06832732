#pragma once

/// Warnings as they stand below a result: each a paragraph of its own.

#include <string>
#include <vector>

#include "sim/layout/warning.h"

namespace verify {

std::string warnings_text(const std::vector<sim::Warning>& warnings);

}  // namespace verify
