#pragma once

/// The name closest to a misspelt one, by edit distance; empty when none is close.

#include <string>
#include <vector>

namespace verify {

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace verify
