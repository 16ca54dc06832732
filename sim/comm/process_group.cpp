#include "sim/comm/process_group.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/check.h"

namespace sim {

int ProcessGroup::place_of(int rank) const {
  const auto found = std::find(members.begin(), members.end(), rank);
  SIM_CHECK(found != members.end());
  return static_cast<int>(found - members.begin());
}

std::string short_text_of(const ProcessGroup& group) {
  return fmt::format("{}[{}]", group.kind, group.index);
}

std::string text_of(const ProcessGroup& group) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(group.members.size(), kShown);
  const auto first = group.members.begin();
  std::string text = fmt::format("{}[{}] = {{{}", group.kind, group.index,
                                 fmt::join(first, first + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < group.members.size()) {
    text += fmt::format(", ... {}: {} ranks", group.members.back(), group.members.size());
  }
  return text + "}";
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(ranks.size(), kShown);
  const auto first = ranks.begin();
  const std::string list =
      fmt::format("{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) return fmt::format("ranks {}, ... ({} ranks)", list, ranks.size());
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list);
}

}  // namespace sim
