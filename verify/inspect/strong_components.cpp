#include "verify/inspect/strong_components.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <deque>
#include <map>

namespace verify {

namespace {

constexpr std::size_t kMostBeginnings = 64;  // of circles that are compared

/// Returns the components from which no other one is reached that counts.
template <typename Counts>
std::vector<std::vector<std::size_t>> final_ones(const Edges& edges, const Counts& counts) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(edges.size());
  for (std::size_t node = 0; node < edges.size(); ++node)
    for (const std::size_t to : edges[node]) boost::add_edge(node, to, graph);
  std::vector<std::size_t> component(edges.size());
  const std::size_t number = boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  std::vector<std::vector<std::size_t>> nodes(number);
  for (std::size_t node = 0; node < edges.size(); ++node) nodes[component[node]].push_back(node);
  std::vector<bool> leads_to_one(number);  // itself, or another one that it reaches
  std::vector<std::vector<std::size_t>> found;
  for (std::size_t one = 0; one < number; ++one) {  // a component has a larger number than what it reaches
    bool is_end = true;
    for (const std::size_t node : nodes[one])
      for (const std::size_t to : edges[node])
        is_end = is_end && (component[to] == one || !leads_to_one[component[to]]);
    leads_to_one[one] = !is_end || counts(nodes[one]);
    if (is_end && counts(nodes[one])) found.push_back(nodes[one]);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<std::vector<std::size_t>> final_components(const Edges& edges) {
  return final_ones(edges, [](const auto&) { return true; });
}

std::vector<std::vector<std::size_t>> final_circles(const Edges& edges) {
  return final_ones(edges, [](const auto& nodes) { return nodes.size() > 1; });
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
