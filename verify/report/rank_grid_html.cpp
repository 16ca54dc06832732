#include "verify/report/rank_grid_html.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>

#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr int kColours = 8;  // the classes g0 to g7 of the style sheet
constexpr int kNodesOfALargeWorld = 8;

int drawn_ranks(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  if (layout.grid_size <= kMostDrawnRanks) return layout.grid_size;
  const std::int64_t of_nodes = std::int64_t{nodes.gpus_per_node} * kNodesOfALargeWorld;
  return static_cast<int>(std::min<std::int64_t>(of_nodes, kMostDrawnRanks));
}

std::string cell(const sim::Layout& layout, const sim::GroupKind* tp, int rank) {
  const auto place = tp != nullptr ? tp->place_of(rank) : std::nullopt;
  const std::string coordinates = cell_text(layout.dense, rank);
  return fmt::format("<span class=\"g{}\">{}{}</span>", place ? place->group % kColours : 0, rank,
                     coordinates.empty() ? "" : "<small>" + coordinates + "</small>");
}

}  // namespace

std::string rank_grid_html(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  const int drawn = drawn_ranks(layout, nodes);
  std::string html = fmt::format(
      "<p class=\"soft\">Each rank with its place on the axes tp (t), cp (c), dp (d) and pp (p) of more than "
      "one rank. Ranks of one colour on a node are one tp group; {} colours, which repeat.</p>\n",
      kColours);
  if (drawn < layout.grid_size)
    html +=
        fmt::format("<p>Only the first {} of {} are drawn.</p>\n", counted(drawn, "rank"), layout.grid_size);
  html += "<div class=\"nodes\">\n";
  const sim::GroupKind* tp = layout.find("tp");
  int node = -1;
  for (int rank = layout.first_rank; rank < layout.first_rank + drawn; ++rank) {
    if (nodes.node_of(rank) != node) {
      if (node >= 0) html += "</div></div>\n";
      node = nodes.node_of(rank);
      html += fmt::format("<div class=\"node\">node {}<div class=\"ranks\">", node);
    }
    html += cell(layout, tp, rank);
  }
  return html + "</div></div>\n</div>\n";
}

}  // namespace verify
