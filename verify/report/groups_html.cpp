#include "verify/report/groups_html.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/output/markup.h"
#include "verify/output/phrases.h"
#include "verify/output/table_rows.h"
#include "verify/report/html_table.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

constexpr int kGroupColours = 8;  // of page.css

/// Returns what the groups of a kind send; "" if the kind has no row.
std::string sentence_about(const std::string& kind) {
  static const std::vector<TextRow> rows = rows_of_table(
#include "group_kinds.tsv.inc"
  );
  const auto row = std::ranges::find_if(rows, [&](const TextRow& one) { return one.at(0) == kind; });
  return row == rows.end() ? "" : std::string(row->at(1));
}

/// How many ranks are drawn: all of them, or those of the first whole nodes.
int ranks_to_draw(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  if (layout.grid_size <= kMostDrawnRanks) return layout.grid_size;
  return std::max(nodes.gpus_per_node, kMostDrawnRanks / nodes.gpus_per_node * nodes.gpus_per_node);
}

std::string grid_of(const sim::Layout& layout, const sim::NodePlacement& nodes, const sim::GroupKind& kind,
                    int drawn) {
  const int columns = std::min(nodes.gpus_per_node, 16);
  std::string html;
  int node = -1;
  for (int rank = layout.first_rank; rank < layout.first_rank + drawn; ++rank) {
    if (nodes.node_of(rank) != node) {
      if (node >= 0) html += "</div>\n";
      node = nodes.node_of(rank);
      html += fmt::format("<div class=\"lattice\" style=\"--columns: {}\" title=\"node {}\">", columns, node);
    }
    const auto place = kind.place_of(rank);
    const std::string colour = place ? fmt::format("g{}", place->group % kGroupColours) : "none";
    const std::string title = place ? fmt::format("group {}", place->group) : "in no group";
    html += fmt::format("<span class=\"{}\" title=\"rank {}, {}\">{}</span>", colour, rank, title, rank);
  }
  return html + "</div>\n";
}

std::string card(const sim::Layout& layout, const sim::NodePlacement& nodes, const sim::GroupKind& kind,
                 int drawn) {
  const int crossing = nodes.groups_crossing_node(kind);
  const std::string across = crossing == 0 ? "none crosses a node" : fmt::format("{} cross nodes", crossing);
  return fmt::format("<div class=\"kind\">\n<h3>{}: {} of {}, {}</h3>\n{}<p>{}</p>\n</div>\n",
                     markup_text(kind.name()), counted(kind.count(), "group"), counted(kind.size(), "rank"),
                     across, grid_of(layout, nodes, kind, drawn), markup_text(sentence_about(kind.name())));
}

}  // namespace

std::string groups_html(const sim::Layout& layout, const sim::NodePlacement& nodes,
                        const std::vector<const sim::GroupKind*>& kinds) {
  const int drawn = ranks_to_draw(layout, nodes);
  std::string html = fmt::format(
      "<h1>The groups of {}</h1>\n<p>tp {}, cp {}, dp {}, pp {}; experts: etp {}, ep {}, edp {}; {} GPUs in "
      "a "
      "node. A row of squares is a node. Ranks of one colour are one group; {} colours repeat.</p>\n",
      counted(layout.grid_size, "rank"), layout.tp, layout.cp, layout.dp, layout.pp, layout.etp, layout.ep,
      layout.edp, nodes.gpus_per_node, kGroupColours);
  if (drawn < layout.grid_size)
    html += fmt::format("<p>The first {} of {} are drawn.</p>\n", counted(drawn, "rank"), layout.grid_size);
  html += "<div class=\"kinds\">\n";
  for (const sim::GroupKind* kind : kinds)
    if (kind->size() > 1) html += card(layout, nodes, *kind, drawn);
  return page_html("shardproof: groups", html + "</div>\n");
}

}  // namespace verify
