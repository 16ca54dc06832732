#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "sim/base/error.h"
#include "verify/options/nearest_name.h"
#include "verify/options/requests.h"
#include "verify/options/scenario.h"
#include "verify/program/commands.h"
#include "verify/views/groups_view.h"

namespace verify {

namespace {

/// Kinds that exist only with several optimizer instances or hierarchical context parallelism, and what
/// stands for them in a layout without.
std::string kind_it_would_alias(const std::string& name) {
  if (name == "intra-dp-cp") return "dp-cp";
  if (name == "intra-edp" || name == "inter-edp") return "edp";
  return name.starts_with("hcp-L") ? "cp" : "";
}

std::vector<const sim::GroupKind*> selected_kinds(const Settings& settings, const sim::Layout& layout) {
  std::vector<const sim::GroupKind*> selected;
  const std::vector<std::string> names = settings.texts("kind");
  for (const sim::GroupKind& kind : layout.kinds) {
    if (names.empty() || std::find(names.begin(), names.end(), kind.name()) != names.end())
      selected.push_back(&kind);
  }
  for (const std::string& name : names) {
    if (layout.find(name) != nullptr) continue;
    std::vector<std::string> present;
    for (const sim::GroupKind& kind : layout.kinds) present.push_back(kind.name());
    const bool exists = sim::is_kind_name(name);
    const std::string nearest = exists ? kind_it_would_alias(name) : nearest_name(name, present);
    sim::refuse(
        {.code = exists ? "absent_kind" : "unknown_kind",
         .option = "--kind",
         .numbers = fmt::format("'{}'", name),
         .rule = exists ? fmt::format("this layout has no such kind; it has {}", fmt::join(present, ", "))
                        : "a group kind of the layout",
         .hint = nearest.empty() ? "shardproof list" : "--kind " + nearest});
  }
  return selected;
}

std::optional<int> selected_rank(const Settings& settings, const sim::Layout& layout) {
  const std::optional<std::int64_t> rank = settings.number("rank");
  if (!rank) return std::nullopt;
  const std::int64_t last = layout.first_rank + layout.grid_size - 1;
  if (*rank >= layout.first_rank && *rank <= last) return static_cast<int>(*rank);
  sim::refuse({.code = "rank_outside_grid",
               .option = "--rank",
               .numbers = fmt::format("{}", *rank),
               .rule = fmt::format("the ranks of this layout are {} to {}", layout.first_rank, last),
               .hint = fmt::format("--rank {}", layout.first_rank)});
}

}  // namespace

int run_groups(const CommandLine& line, const Output& output) {
  const Settings settings = single_scenario(line);
  const sim::Layout layout = requested_layout(settings);
  const GroupsView view{layout, selected_kinds(settings, layout), selected_rank(settings, layout)};
  if (settings.choice("format") == "json") {
    write_groups_json(output.out, view);
  } else {
    output.out << groups_text(view, node_placement(settings), output.colour);
  }
  return kVerified;
}

}  // namespace verify
