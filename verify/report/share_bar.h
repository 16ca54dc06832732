#pragma once

/// One line of a bar chart as inline SVG: parts side by side, each as long as its share of the whole.
///
/// Shapes  there are at most four parts; their colours are the classes part0 to part3 of report_style.h.

#include <cstdint>
#include <string>
#include <vector>

namespace verify {

std::string share_bar(const std::vector<std::int64_t>& parts, std::int64_t whole);

}  // namespace verify
