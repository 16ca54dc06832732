#include "tests/house/room_picture.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>

#include "tests/house/layered_drawing.h"
#include "tests/house/picture.h"
#include "tests/house/rooms.h"

namespace test {

namespace {

constexpr double kMargin = 12, kHead = 62, kFoot = 20, kBoxWidth = 148, kBoxHeight = 40, kPitch = 76;
constexpr double kTip = 1;  // between the tip of an arrow and its box

using Counts = std::map<std::string, std::map<std::string, int>>;

struct Arrow {
  std::size_t from;
  std::size_t to;
  int includes;
};

/// The rooms, their rows, and the arrows that no others imply.
struct Graph {
  std::vector<Room> rooms;
  std::vector<int> rows;
  std::vector<Arrow> arrows;
};

/// Returns everything that a room includes, directly or through others.
std::set<std::string> reached_from(const Counts& counts, const std::string& room) {
  std::set<std::string> reached;
  const std::function<void(const std::string&)> visit = [&](const std::string& at) {
    if (!counts.contains(at)) return;
    for (const auto& [included, count] : counts.at(at)) {
      if (reached.insert(included).second) visit(included);
    }
  };
  visit(room);
  return reached;
}

Graph graph_of(const std::vector<SourceFile>& files) {
  const Counts counts = include_counts(files);
  Graph graph;
  std::map<std::string, std::set<std::string>> reached;
  std::map<std::string, std::size_t> places;
  for (const Room& room : rooms()) {
    if (room.folder == "tests") continue;
    places[room.folder] = graph.rooms.size();
    graph.rooms.push_back(room);
    reached[room.folder] = reached_from(counts, room.folder);
  }
  graph.rows.resize(graph.rooms.size());
  for (std::size_t i = 0; i < graph.rooms.size(); ++i) {
    // The table names each room after those that it includes, so their rows are known.
    const auto known = counts.find(graph.rooms[i].folder);
    if (known == counts.end()) continue;
    for (const auto& [included, includes] : known->second) {
      const std::size_t to = places.at(included);
      graph.rows[i] = std::max(graph.rows[i], graph.rows[to] + 1);
      const bool is_implied = std::any_of(known->second.begin(), known->second.end(), [&](const auto& other) {
        return reached[other.first].contains(included);
      });
      if (!is_implied) graph.arrows.push_back({i, to, includes});
    }
  }
  return graph;
}

/// Where an arrow leaves its upper box and enters its lower one.
struct Ports {
  std::vector<double> from;
  std::vector<double> to;
};

/// Spreads the ends of arrows over the side of each box, in the order of where the arrows go.
void spread(const std::vector<std::size_t>& ends, double middle, const std::vector<double>& toward,
            std::vector<double>& ports) {
  constexpr double kApart = 18, kInset = 14;
  std::vector<std::size_t> ordered = ends;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](std::size_t a, std::size_t b) { return toward[a] < toward[b]; });
  const auto gaps = static_cast<double>(ordered.size()) - 1;
  const double apart = gaps > 0 ? std::min(kApart, (kBoxWidth - 2 * kInset) / gaps) : 0;
  for (std::size_t i = 0; i < ordered.size(); ++i)
    ports[ordered[i]] = middle + apart * (static_cast<double>(i) - gaps / 2);
}

Ports ports_of(const Graph& graph, const LayeredDrawing& drawing) {
  const std::size_t arrows = graph.arrows.size();
  Ports ports{std::vector<double>(arrows), std::vector<double>(arrows)};
  std::vector<double> toward_lower(arrows), toward_upper(arrows);
  for (std::size_t i = 0; i < arrows; ++i) {
    const std::vector<double>& bends = drawing.bends[i];
    toward_lower[i] = bends.empty() ? drawing.nodes[graph.arrows[i].to] : bends.front();
    toward_upper[i] = bends.empty() ? drawing.nodes[graph.arrows[i].from] : bends.back();
  }
  for (std::size_t box = 0; box < graph.rooms.size(); ++box) {
    std::vector<std::size_t> leaving, entering;
    for (std::size_t i = 0; i < arrows; ++i) {
      if (graph.arrows[i].from == box) leaving.push_back(i);
      if (graph.arrows[i].to == box) entering.push_back(i);
    }
    spread(leaving, drawing.nodes[box], toward_lower, ports.from);
    spread(entering, drawing.nodes[box], toward_upper, ports.to);
  }
  return ports;
}

class Page {
 public:
  explicit Page(const Graph& graph)
      : graph_(graph), highest_(*std::max_element(graph.rows.begin(), graph.rows.end())) {}

  double height() const { return kHead + highest_ * kPitch + kBoxHeight + kFoot; }
  double top_of(int row) const { return kHead + (highest_ - row) * kPitch; }

  std::string arrow(const Arrow& arrow, double from, const std::vector<double>& bends, double to) const {
    int row = graph_.rows[arrow.from];
    double x = from, y = top_of(row) + kBoxHeight;
    std::string path = fmt::format("M{:.1f} {:.1f}", x + kMargin, y);
    const auto curve_to = [&](double next_x, double next_y) {
      const double middle = (y + next_y) / 2;
      path += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x + kMargin, middle, next_x + kMargin,
                          middle, next_x + kMargin, next_y);
      x = next_x;
      y = next_y;
    };
    for (const double bend : bends) {
      --row;
      curve_to(bend, top_of(row));
      y += kBoxHeight;
      path += fmt::format("V{:.1f}", y);
    }
    curve_to(to, top_of(graph_.rows[arrow.to]) - kTip);
    const char* width = arrow.includes < 10 ? "few" : arrow.includes < 20 ? "some" : "many";
    return fmt::format("<path class=\"{}\" marker-end=\"url(#tip)\" d=\"{}\"/>\n", width, path);
  }

  std::string box(std::size_t room, double x) const {
    const std::string& folder = graph_.rooms[room].folder;
    const std::string family =
        folder == "verify/reference" ? "reference" : folder.substr(0, folder.find('/'));
    const double top = top_of(graph_.rows[room]), middle = x + kMargin;
    return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"5\"/>\n",
                       family, middle - kBoxWidth / 2, top, kBoxWidth, kBoxHeight) +
           picture_text(middle, top + 17, "name centred", folder) +
           picture_text(middle, top + 32, "soft centred", graph_.rooms[room].holds);
  }

 private:
  const Graph& graph_;
  int highest_;
};

std::string legend() {
  return picture_text(kMargin, 24, "title", "The rooms of shardproof") +
         picture_text(kMargin, 42, "soft",
                      "An arrow leads from a room to one whose headers it includes; arrows that others imply "
                      "are left out.") +
         picture_text(kMargin, 56, "soft",
                      "Width of an arrow: fewer than 10 #include lines, 10 to 19, 20 or more.");
}

}  // namespace

std::string room_picture(const std::vector<SourceFile>& files) {
  const Graph graph = graph_of(files);
  LayeredGraph layered{.rows = graph.rows, .edges = {}};
  for (const Arrow& arrow : graph.arrows)
    layered.edges.emplace_back(static_cast<int>(arrow.from), static_cast<int>(arrow.to));
  const LayeredDrawing drawing = layered_drawing(
      layered,
      {.width = kPictureWidth - 2 * kMargin, .node_width = kBoxWidth, .node_gap = 13, .bend_gap = 11});
  const Ports ports = ports_of(graph, drawing);
  const Page page(graph);
  std::string drawn = legend();
  for (std::size_t i = 0; i < graph.arrows.size(); ++i)
    drawn += page.arrow(graph.arrows[i], ports.from[i], drawing.bends[i], ports.to[i]);
  for (std::size_t room = 0; room < graph.rooms.size(); ++room) drawn += page.box(room, drawing.nodes[room]);
  return picture(page.height(), "The rooms of shardproof, and which of them include which", drawn);
}

}  // namespace test
