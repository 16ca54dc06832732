#include "verify/inspect/strong_components.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>

namespace verify {

namespace {

constexpr std::size_t kUnseen = ~std::size_t{0};
constexpr std::size_t kMostBeginnings = 64;  // of circles that are compared

class Tarjan {
 public:
  explicit Tarjan(const Edges& edges)
      : edges_(edges),
        number_(edges.size(), kUnseen),
        low_(edges.size()),
        component_(edges.size(), kUnseen) {}

  std::vector<std::vector<std::size_t>> run() {
    for (std::size_t node = 0; node < edges_.size(); ++node) {
      if (number_[node] == kUnseen) visit(node);
    }
    std::vector<std::vector<std::size_t>> ends;
    for (std::vector<std::size_t>& nodes : components_) {
      const bool is_end = std::ranges::all_of(nodes, [&](std::size_t node) {
        return std::ranges::all_of(edges_[node],
                                   [&](std::size_t to) { return component_[to] == component_[node]; });
      });
      std::ranges::sort(nodes);
      if (is_end) ends.push_back(std::move(nodes));
    }
    std::ranges::sort(ends);
    return ends;
  }

 private:
  struct Step {
    std::size_t node;
    std::size_t edge = 0;
  };

  void visit(std::size_t first) {
    begin(first);
    while (!path_.empty()) {
      const std::size_t node = path_.back().node;
      if (path_.back().edge == edges_[node].size()) {
        end(node);
        continue;
      }
      const std::size_t to = edges_[node][path_.back().edge++];
      if (number_[to] == kUnseen) {
        begin(to);
      } else if (component_[to] == kUnseen) {
        low_[node] = std::min(low_[node], number_[to]);
      }
    }
  }

  void begin(std::size_t node) {
    number_[node] = low_[node] = next_++;
    open_.push_back(node);
    path_.push_back({node});
  }

  void end(std::size_t node) {
    path_.pop_back();
    if (!path_.empty()) low_[path_.back().node] = std::min(low_[path_.back().node], low_[node]);
    if (low_[node] != number_[node]) return;
    std::vector<std::size_t>& nodes = components_.emplace_back();
    for (bool more = true; more;) {
      more = open_.back() != node;
      component_[open_.back()] = components_.size() - 1;
      nodes.push_back(open_.back());
      open_.pop_back();
    }
  }

  const Edges& edges_;
  std::vector<std::size_t> number_, low_, component_;
  std::vector<std::size_t> open_;
  std::vector<Step> path_;
  std::vector<std::vector<std::size_t>> components_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> final_components(const Edges& edges) { return Tarjan(edges).run(); }

std::vector<std::vector<std::size_t>> final_circles(const Edges& edges) {
  // Nodes from which no circle is reached go, the ends first.
  std::vector<std::vector<std::size_t>> before(edges.size());
  std::vector<std::size_t> left(edges.size()), ends;
  for (std::size_t node = 0; node < edges.size(); ++node) {
    for (const std::size_t to : edges[node]) before[to].push_back(node);
    left[node] = edges[node].size();
    if (left[node] == 0) ends.push_back(node);
  }
  std::vector<bool> goes(edges.size());
  while (!ends.empty()) {
    const std::size_t node = ends.back();
    ends.pop_back();
    goes[node] = true;
    for (const std::size_t from : before[node]) {
      if (--left[from] == 0) ends.push_back(from);
    }
  }
  Edges kept(edges.size());
  for (std::size_t node = 0; node < edges.size(); ++node) {
    std::ranges::copy_if(edges[node], std::back_inserter(kept[node]),
                         [&](std::size_t to) { return !goes[node] && !goes[to]; });
  }
  std::vector<std::vector<std::size_t>> circles = final_components(kept);
  std::erase_if(circles, [](const auto& nodes) { return nodes.size() == 1; });
  return circles;
}

std::vector<int> shortest_circle(const Edges& edges, const std::vector<std::size_t>& component,
                                 std::size_t ranks) {
  std::vector<int> best;
  std::size_t begun = 0;
  for (const std::size_t first : component) {
    if (first >= ranks || begun++ == kMostBeginnings) break;
    std::map<std::size_t, std::size_t> before;  // by node, the node from which it was reached
    std::deque<std::size_t> next = {first};
    while (!next.empty() && !before.contains(first)) {
      const std::size_t node = next.front();
      next.pop_front();
      for (const std::size_t to : edges[node]) {
        if (before.try_emplace(to, node).second) next.push_back(to);
      }
    }
    if (!before.contains(first)) continue;
    std::vector<int> circle;
    std::size_t node = first;
    do {
      if (node < ranks) circle.push_back(static_cast<int>(node));
      node = before.at(node);
    } while (node != first);
    if (best.empty() || circle.size() < best.size()) best = std::move(circle);
  }
  std::ranges::sort(best);
  return best;
}

}  // namespace verify
