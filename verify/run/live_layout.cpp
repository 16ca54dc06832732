#include "verify/run/live_layout.h"

#include <algorithm>
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

std::vector<std::string> sentences_of_groups(const JudgedLayout& judged) {
  std::vector<std::string> sentences;
  for (const GroupDifference& difference : judged.comparison.differences) {
    if (difference.what == GroupDifference::What::missing) continue;
    sentences.push_back(fmt::format("{} of '{}' is no group of this layout{}{}", ranks_text(difference.ranks),
                                    sim::printable_text(difference.description),
                                    difference.explanation.empty() ? "" : ": ", difference.explanation));
  }
  return sentences;
}

std::string warnings_of_groups(const JudgedLayout& judged) {
  std::string text;
  const std::vector<std::string> sentences = sentences_of_groups(judged);
  for (std::size_t i = 0; i < std::min(kMostShown, sentences.size()); ++i)
    text += fmt::format("warning {}\n", sentences[i]);
  const std::int64_t differing = judged.comparison.differing, shown = kMostShown;
  if (differing > shown) text += fmt::format("and {} more\n", differing - shown);
  return text;
}

std::string live_layout_text(const JudgedLayout& judged) {
  const GroupComparison& comparison = judged.comparison;
  return fmt::format(
             "layout  {}, from the program's {}\n        {} of {} have the members that Megatron gives "
             "them\n",
             sizes_text(judged.layout), judged.is_inferred ? "groups" : "arguments",
             comparison.groups - comparison.differing, counted(comparison.groups, "group")) +
         warnings_of_groups(judged);
}

}  // namespace verify
