#include "sim/comm/split_parts.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <tuple>

namespace sim {

std::vector<SplitPart> split_parts(const std::vector<ColorAndKey>& by_place) {
  std::vector<std::tuple<int, int, int>> order;  // color, key, place
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    const auto& [color, key] = by_place[place];
    if (color >= 0) order.emplace_back(color, key, static_cast<int>(place));
  }
  std::sort(order.begin(), order.end());
  std::vector<SplitPart> parts;
  for (const auto& [color, key, place] : order) {
    if (parts.empty() || parts.back().color != color) parts.push_back({color, {}});
    parts.back().places.push_back(place);
  }
  return parts;
}

int index_of(const std::vector<SplitPart>& parts, int color) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const SplitPart& part) { return part.color == color; });
  return static_cast<int>(found - parts.begin());
}

std::string split_name(const ProcessGroup& group, std::int64_t sequence) {
  return fmt::format("{}.split{}", short_text_of(group), sequence);
}

}  // namespace sim
