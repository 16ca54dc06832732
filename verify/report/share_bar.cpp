#include "verify/report/share_bar.h"

#include <cstddef>
#include <fmt/format.h>

namespace verify {

std::string share_bar(const std::vector<std::int64_t>& parts, std::int64_t whole) {
  constexpr double kLength = 1000;
  std::string svg =
      "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  double x = 0;
  for (std::size_t i = 0; i < parts.size() && whole > 0; ++i) {
    const double length = kLength * static_cast<double>(parts[i]) / static_cast<double>(whole);
    if (parts[i] > 0)
      svg +=
          fmt::format("<rect class=\"part{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"10\"/>", i, x, length);
    x += length;
  }
  return svg + "</svg>";
}

}  // namespace verify
