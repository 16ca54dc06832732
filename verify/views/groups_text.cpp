#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/views/groups_view.h"

namespace verify {

namespace {

constexpr int kLargestDrawnWorld = 128;

std::string abbreviated(const sim::GroupKind& kind, int group) {
  constexpr int kShown = 6;
  std::vector<int> members;
  for (int i = 0; i < std::min(kind.size(), kShown); ++i) members.push_back(kind.member(group, i));
  std::string text = fmt::format("{}", fmt::join(members, " "));
  if (kind.size() > kShown + 1) text += " ..";
  if (kind.size() > kShown) text += fmt::format(" {}", kind.member(group, kind.size() - 1));
  return text;
}

std::string headline(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  const int last = layout.first_rank + layout.grid_size - 1;
  std::string text = counted(layout.grid_size, "rank");
  if (layout.first_rank != 0) text += fmt::format(" ({} to {})", layout.first_rank, last);
  if (layout.rules == sim::RuleBook::legacy) {
    text += fmt::format(": tp {}, dp {}, pp {}; rules legacy", layout.tp, layout.dp, layout.pp);
  } else {
    text += fmt::format(": tp {}, cp {}, dp {}, pp {}; experts: etp {}, ep {}, edp {}; order {}", layout.tp,
                        layout.cp, layout.dp, layout.pp, layout.etp, layout.ep, layout.edp, layout.order);
  }
  const int node_count = nodes.node_of(last) - nodes.node_of(layout.first_rank) + 1;
  return text + fmt::format("; {} of {}\n", counted(node_count, "node"), counted(nodes.gpus_per_node, "GPU"));
}

std::string kind_table(const std::vector<const sim::GroupKind*>& kinds, const sim::NodePlacement& nodes) {
  TextTable table({"kind", ">groups", ">ranks each", ">cross a node", "first group"});
  for (const sim::GroupKind* kind : kinds) {
    table.row(kind->name(), kind->count(), kind->size(), nodes.groups_crossing_node(*kind),
              abbreviated(*kind, 0));
  }
  return table.text();
}

/// Returns the coordinates on the axes that have more than one rank, such as "tp0 dp1 pp0".
std::string coordinates_text(const sim::RankGrid& grid, int rank) {
  const sim::PerAxis<int> coordinates = grid.coordinates_of(rank);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sim::kAxisNames.size(); ++i) {
    const auto axis = static_cast<sim::Axis>(i);
    if (grid.size(axis) > 1) parts.push_back(fmt::format("{}{}", sim::kAxisNames[i], coordinates[axis]));
  }
  return parts.empty() ? "of one rank" : fmt::format("{}", fmt::join(parts, " "));
}

std::string rank_table(const sim::Layout& layout, const std::vector<const sim::GroupKind*>& kinds,
                       const sim::NodePlacement& nodes, int rank) {
  std::string text = fmt::format("rank {}: node {}, GPU {}, dense grid {}", rank, nodes.node_of(rank),
                                 nodes.gpu_of(rank), coordinates_text(layout.dense, rank));
  if (layout.ep > 1 || layout.etp != layout.tp) {
    text += fmt::format(", expert grid {} (tp is etp, dp is edp)", coordinates_text(layout.expert, rank));
  }
  TextTable table({"kind", ">group", ">place", "members"});
  for (const sim::GroupKind* kind : kinds) {
    const auto place = kind->place_of(rank);
    if (place) {
      table.row(kind->name(), place->group, fmt::format("{} of {}", place->position, kind->size()),
                abbreviated(*kind, place->group));
    } else {
      table.row(kind->name(), "-", "-", "not a member");
    }
  }
  return text + "\n\n" + table.text();
}

/// Returns the ranks node by node, each with its dense coordinates, and with `colour` coloured by pipeline
/// rank.
std::string rank_grid(const sim::Layout& layout, const sim::NodePlacement& nodes, bool colour) {
  constexpr std::array kColours = {fmt::terminal_color::cyan,  fmt::terminal_color::yellow,
                                   fmt::terminal_color::green, fmt::terminal_color::magenta,
                                   fmt::terminal_color::blue,  fmt::terminal_color::red};
  constexpr int kCellsPerLine = 8;
  std::size_t width = 0;
  std::vector<std::string> cells;
  for (int i = 0; i < layout.grid_size; ++i) {
    const int rank = layout.first_rank + i;
    cells.push_back(fmt::format("{:>3} {}", rank, cell_text(layout.dense, rank)));
    width = std::max(width, cells.back().size());
  }
  std::string text = fmt::format("\nranks by node, with their tp, cp, dp, pp coordinates{}\n",
                                 colour ? "; each pipeline rank has its colour" : "");
  for (int i = 0; i < layout.grid_size; ++i) {
    const int rank = layout.first_rank + i;
    const bool starts_node = i == 0 || nodes.gpu_of(rank) == 0;
    const bool starts_line = starts_node || nodes.gpu_of(rank) % kCellsPerLine == 0;
    if (starts_line) {
      text.erase(text.find_last_not_of(' ') + 1);
      if (i > 0) text += "\n";
      text += starts_node ? fmt::format("node {:>2}  ", nodes.node_of(rank)) : "         ";
    }
    const std::string cell = fmt::format("{:<{}}", cells[static_cast<std::size_t>(i)], width);
    const int stage = layout.dense.coordinates_of(rank)[sim::Axis::pp];
    const auto style = fmt::fg(kColours[static_cast<std::size_t>(stage) % kColours.size()]);
    text += (colour ? fmt::format(style, "{}", cell) : cell) + "  ";
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

std::string groups_text(const GroupsView& view, const sim::NodePlacement& nodes, bool colour) {
  std::string text = headline(view.layout, nodes) + "\n";
  if (view.rank) {
    text += rank_table(view.layout, view.kinds, nodes, *view.rank);
  } else {
    text += kind_table(view.kinds, nodes);
    if (view.layout.grid_size <= kLargestDrawnWorld) text += rank_grid(view.layout, nodes, colour);
  }
  return text + warnings_text(view.layout.warnings);
}

}  // namespace verify
