#include "verify/run/live_layout.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::size_t kMostShown = 5;  // differences

bool is_judged(const sim::GuestGroup& group) {
  const std::string kind = kind_of_description(group.name);
  return !kind.empty() && kind != "embd" && kind != "pos_embd";
}

}  // namespace

std::optional<JudgedLayout> live_layout(const std::vector<sim::GuestGroup>& groups, int ranks,
                                        std::optional<sim::Layout> given) {
  GroupDump made{.form = DumpForm::flight_recorder};
  for (const sim::GuestGroup& group : groups)
    if (is_judged(group)) made.groups.push_back({group.name, group.members});
  if (given && !made.groups.empty()) return judged_layout(made, std::move(*given));
  return inferred_layout(made, ranks);
}

std::string live_layout_text(const JudgedLayout& judged) {
  const GroupComparison& comparison = judged.comparison;
  std::string text = fmt::format(
      "layout  {}, from the program's {}\n        {} of {} have the members that Megatron gives them\n",
      sizes_text(judged.layout), judged.is_inferred ? "groups" : "arguments",
      comparison.groups - comparison.differing, counted(comparison.groups, "group"));
  std::size_t shown = 0;
  for (const GroupDifference& difference : comparison.differences) {
    if (difference.what == GroupDifference::What::missing) continue;
    if (++shown > kMostShown) break;
    text += fmt::format("warning {} of '{}' is no group of this layout{}{}\n", ranks_text(difference.ranks),
                        sim::printable_text(difference.description),
                        difference.explanation.empty() ? "" : ": ", difference.explanation);
  }
  if (comparison.differing > static_cast<std::int64_t>(kMostShown))
    text += fmt::format("and {} more\n", comparison.differing - static_cast<std::int64_t>(kMostShown));
  return text;
}

}  // namespace verify
