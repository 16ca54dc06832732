#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "sim/base/error.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/commands.h"
#include "verify/counted.h"
#include "verify/nearest_name.h"
#include "verify/report_json.h"
#include "verify/requests.h"
#include "verify/text_table.h"

namespace verify {

namespace {

constexpr int kLargestDrawnWorld = 128;
constexpr std::size_t kFlushBytes = 1 << 16;

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
    const std::string nearest = nearest_name(name, present);
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

// ---- JSON -------------------------------------------------------------------------------------------------

/// The opening of the document: everything before "groups".
nlohmann::ordered_json json_head(const sim::Layout& layout, std::optional<int> rank) {
  nlohmann::ordered_json head = {{"world_size", layout.world_size}};
  if (layout.rules == sim::RuleBook::legacy) {
    head["rules"] = "legacy";
    head["order"] = layout.order;
    head["effective"] = {{"tp", layout.tp}, {"pp", layout.pp}, {"dp", layout.dp}};
    head["derived"] = {{"dp", layout.dp}};
  } else {
    head["rules"] = "megatron";
    head["order"] = layout.order;
    head["derived"] = {{"dp", layout.dp}, {"etp", layout.etp}, {"edp", layout.edp}};
  }
  if (rank) head["rank"] = *rank;
  return head;
}

/// Streams the lists group by group: a world of a million ranks never exists as one document in memory.
void write_groups(std::ostream& out, const sim::GroupKind& kind, std::optional<int> rank) {
  fmt::memory_buffer buffer;
  bool first = true;
  const auto flush = [&] {
    out.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    buffer.clear();
  };
  const auto append = [&](std::span<const int> members) {
    fmt::format_to(std::back_inserter(buffer), "{}[{}]", first ? "" : ",", fmt::join(members, ","));
    first = false;
  };
  buffer.push_back('[');
  if (rank) {
    if (const auto place = kind.place_of(*rank)) append(kind.members(place->group));
  } else {
    kind.for_each_group([&](int, std::span<const int> members) {
      append(members);
      if (buffer.size() >= kFlushBytes) flush();
    });
  }
  buffer.push_back(']');
  flush();
}

void write_json(std::ostream& out, const sim::Layout& layout, const std::vector<const sim::GroupKind*>& kinds,
                std::optional<int> rank) {
  std::string head = json_head(layout, rank).dump();
  head.pop_back();  // the closing brace
  out << head << ",\"groups\":{";
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    out << (i == 0 ? "" : ",") << nlohmann::json(kinds[i]->name()).dump() << ":";
    write_groups(out, *kinds[i], rank);
  }
  out << "},\"warnings\":" << warnings_json(layout.warnings).dump() << "}\n";
}

// ---- text -------------------------------------------------------------------------------------------------

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
  TextTable table({{"kind"},
                   {"groups", Align::right},
                   {"ranks each", Align::right},
                   {"cross a node", Align::right},
                   {"first group"}});
  for (const sim::GroupKind* kind : kinds) {
    table.add({kind->name(), fmt::format("{}", kind->count()), fmt::format("{}", kind->size()),
               fmt::format("{}", nodes.groups_crossing_node(*kind)), abbreviated(*kind, 0)});
  }
  return table.text();
}

/// "tp0 dp1 pp0": the axes of more than one rank.
std::string coordinates_text(const sim::RankGrid& grid, int rank) {
  const sim::PerAxis<int> coordinates = grid.coordinates_of(rank);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sim::kAxisNames.size(); ++i) {
    const auto axis = static_cast<sim::Axis>(i);
    if (grid.size(axis) > 1) parts.push_back(fmt::format("{}{}", sim::kAxisNames[i], coordinates[axis]));
  }
  return parts.empty() ? "of one rank" : fmt::format("{}", fmt::join(parts, " "));
}

/// "t0d1p0": the same in a cell's width.
std::string cell_text(const sim::RankGrid& grid, int rank) {
  const sim::PerAxis<int> coordinates = grid.coordinates_of(rank);
  std::string text;
  for (const sim::Axis axis : {sim::Axis::tp, sim::Axis::cp, sim::Axis::dp, sim::Axis::pp}) {
    const char initial = sim::kAxisNames[static_cast<std::size_t>(axis)][0];
    if (grid.size(axis) > 1) text += fmt::format("{}{}", initial, coordinates[axis]);
  }
  return text;
}

std::string rank_table(const sim::Layout& layout, const std::vector<const sim::GroupKind*>& kinds,
                       const sim::NodePlacement& nodes, int rank) {
  std::string text = fmt::format("rank {}: node {}, GPU {}, dense grid {}", rank, nodes.node_of(rank),
                                 nodes.gpu_of(rank), coordinates_text(layout.dense, rank));
  if (layout.ep > 1 || layout.etp != layout.tp) {
    text += fmt::format(", expert grid {} (tp is etp, dp is edp)", coordinates_text(layout.expert, rank));
  }
  TextTable table({{"kind"}, {"group", Align::right}, {"place", Align::right}, {"members"}});
  for (const sim::GroupKind* kind : kinds) {
    const auto place = kind->place_of(rank);
    if (place) {
      table.add({kind->name(), fmt::format("{}", place->group),
                 fmt::format("{} of {}", place->position, kind->size()), abbreviated(*kind, place->group)});
    } else {
      table.add({kind->name(), "-", "-", "not a member"});
    }
  }
  return text + "\n\n" + table.text();
}

/// The ranks node by node, each with its dense coordinates; on a terminal coloured by pipeline rank.
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
                                 colour ? "; one colour a pipeline rank" : "");
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

int run_groups(const CommandLine& line, const Output& output) {
  const Settings settings = single_scenario(line);
  const sim::Layout layout = requested_layout(settings);
  const sim::NodePlacement nodes = node_placement(settings);
  const auto kinds = selected_kinds(settings, layout);
  const std::optional<int> rank = selected_rank(settings, layout);
  if (settings.choice("format") == "json") {
    write_json(output.out, layout, kinds, rank);
    return kVerified;
  }
  output.out << headline(layout, nodes) << "\n";
  if (rank) {
    output.out << rank_table(layout, kinds, nodes, *rank);
  } else {
    output.out << kind_table(kinds, nodes);
    if (layout.grid_size <= kLargestDrawnWorld) output.out << rank_grid(layout, nodes, output.colour);
  }
  for (const sim::Warning& warning : layout.warnings) {
    output.out << fmt::format("\nwarning [{}] {}\n", warning.name, warning.message);
  }
  return kVerified;
}

}  // namespace verify
