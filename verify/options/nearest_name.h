#pragma once

/// Finds the candidate closest to a misspelt name by edit distance. The result is empty when none is close.

#include <string>
#include <vector>

namespace verify {

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace verify
