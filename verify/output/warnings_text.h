#pragma once

/// The warnings below a result as text, one paragraph for each.

#include <string>
#include <vector>

#include "sim/layout/warning.h"

namespace verify {

std::string warnings_text(const std::vector<sim::Warning>& warnings);

}  // namespace verify
