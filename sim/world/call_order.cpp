#include "sim/world/call_order.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace sim {

namespace {

/// An edge of the graph: one rank makes call `from` immediately before call `to`.
struct Step {
  int from;
  int to;
  const RankCalls* rank;
  std::size_t first;  // numbers of calls of the rank
  std::size_t second;
};

struct Graph {
  int nodes = 0;
  std::vector<Step> steps;
};

bool is_in_graph(const CallRecord& form) {
  return !is_point_to_point(form.operation) && form.group->size() > 1;
}

/// Builds the graph of all calls. A node is a collective, which is a group and a sequence number.
Graph graph_of(std::span<const RankCalls> ranks) {
  Graph graph;
  std::map<const ProcessGroup*, std::vector<int>> nodes;  // only looked up, never iterated
  for (const RankCalls& rank : ranks) {
    std::vector<std::vector<int>*> of_forms;  // null for calls that are no collectives
    for (const CallRecord& form : rank.calls.forms())
      of_forms.push_back(is_in_graph(form) ? &nodes[form.group] : nullptr);
    std::size_t previous = 0;
    int previous_node = -1;
    std::size_t next = 0;
    rank.calls.for_first(rank.calls.size(), [&](std::size_t form, std::int64_t sequence) {
      const std::size_t call = next++;
      std::vector<int>* of_group = of_forms[form];
      if (of_group == nullptr) return;
      const auto at = static_cast<std::size_t>(sequence);
      if (of_group->size() <= at) of_group->resize(at + 1, -1);
      int& node = (*of_group)[at];
      if (node < 0) node = graph.nodes++;
      if (previous_node >= 0) graph.steps.push_back({previous_node, node, &rank, previous, call});
      previous = call;
      previous_node = node;
    });
  }
  return graph;
}

bool uses_several_groups(std::span<const RankCalls> ranks) {
  for (const RankCalls& rank : ranks) {
    const ProcessGroup* first = nullptr;
    for (const CallRecord& form : rank.calls.forms()) {
      if (!is_in_graph(form)) continue;
      if (first == nullptr) first = form.group;
      if (form.group != first) return true;
    }
  }
  return false;
}

/// The steps by the node at which they begin, and in their order.
class Leaving {
 public:
  explicit Leaving(const Graph& graph)
      : ends_(static_cast<std::size_t>(graph.nodes) + 1, 0), steps_(graph.steps.size()) {
    for (const Step& step : graph.steps) ++ends_[static_cast<std::size_t>(step.from) + 1];
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    std::vector<std::size_t> next(ends_.begin(), ends_.end() - 1);
    for (const Step& step : graph.steps) steps_[next[static_cast<std::size_t>(step.from)]++] = &step;
  }
  std::span<const Step* const> operator[](int node) const {
    const std::size_t begin = ends_[static_cast<std::size_t>(node)];
    return std::span(steps_).subspan(begin, ends_[static_cast<std::size_t>(node) + 1] - begin);
  }
  std::size_t nodes() const { return ends_.size() - 1; }

 private:
  std::vector<std::size_t> ends_;  // the steps of node i end at number i + 1
  std::vector<const Step*> steps_;
};

/// Returns the nodes that no topological order can place: those on cycles, and those reachable from cycles.
std::vector<int> unplaced(const Graph& graph, const Leaving& steps) {
  std::vector<int> waits(static_cast<std::size_t>(graph.nodes), 0);
  for (const Step& step : graph.steps) ++waits[static_cast<std::size_t>(step.to)];
  std::vector<int> free;
  for (int node = 0; node < graph.nodes; ++node) {
    if (waits[static_cast<std::size_t>(node)] == 0) free.push_back(node);
  }
  while (!free.empty()) {
    const int node = free.back();
    free.pop_back();
    for (const Step* step : steps[node]) {
      if (--waits[static_cast<std::size_t>(step->to)] == 0) free.push_back(step->to);
    }
  }
  std::vector<int> rest;
  for (int node = 0; node < graph.nodes; ++node) {
    if (waits[static_cast<std::size_t>(node)] > 0) rest.push_back(node);
  }
  return rest;
}

/// Returns the nodes of one cycle. Each unplaced node has a step from another unplaced node to it, so a walk
/// backwards must return to a node that it has visited.
std::vector<int> some_cycle(const Graph& graph, const std::vector<int>& nodes) {
  std::vector<int> before(static_cast<std::size_t>(graph.nodes), -1);
  std::vector<bool> is_unplaced(static_cast<std::size_t>(graph.nodes), false);
  for (const int node : nodes) is_unplaced[static_cast<std::size_t>(node)] = true;
  for (const Step& step : graph.steps) {
    int& known = before[static_cast<std::size_t>(step.to)];
    if (known < 0 && is_unplaced[static_cast<std::size_t>(step.from)]) known = step.from;
  }
  std::vector<std::ptrdiff_t> position(static_cast<std::size_t>(graph.nodes), -1);
  std::vector<int> walk;
  int node = nodes.front();
  while (position[static_cast<std::size_t>(node)] < 0) {
    position[static_cast<std::size_t>(node)] = std::ssize(walk);
    walk.push_back(node);
    node = before[static_cast<std::size_t>(node)];
    SIM_CHECK(node >= 0);
  }
  return {walk.begin() + position[static_cast<std::size_t>(node)], walk.end()};
}

/// Returns the shortest path from a node back to itself; empty if there is none. The steps that it examines
/// are subtracted from `budget`.
std::vector<const Step*> shortest_cycle_through(int start, const Leaving& steps, std::int64_t& budget) {
  std::vector<const Step*> came_by(steps.nodes(), nullptr);
  budget -= static_cast<std::int64_t>(steps.nodes() / 8);  // the cost of allocating `came_by`
  std::vector<int> queue = {start};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const Step* step : steps[queue[next]]) {
      --budget;
      if (step->to == start) {
        std::vector<const Step*> cycle = {step};
        while (cycle.back()->from != start)
          cycle.push_back(came_by[static_cast<std::size_t>(cycle.back()->from)]);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (came_by[static_cast<std::size_t>(step->to)] != nullptr) continue;
      came_by[static_cast<std::size_t>(step->to)] = step;
      queue.push_back(step->to);
    }
  }
  return {};
}

/// Returns the shortest cycle. In a very large graph it returns a short cycle, which need not be the
/// shortest.
std::vector<const Step*> shortest_cycle(const Graph& graph, const std::vector<int>& nodes,
                                        const Leaving& steps) {
  std::vector<int> starts = some_cycle(graph, nodes);
  starts.insert(starts.end(), nodes.begin(), nodes.end());
  std::vector<const Step*> best;
  std::int64_t budget = 20'000'000;  // steps
  for (const int start : starts) {
    if (best.size() == 2 || (budget <= 0 && !best.empty())) break;
    std::vector<const Step*> cycle = shortest_cycle_through(start, steps, budget);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
  }
  return best;
}

}  // namespace

std::optional<Finding> find_call_cycle(std::span<const RankCalls> ranks) {
  if (!uses_several_groups(ranks)) return std::nullopt;
  const Graph graph = graph_of(ranks);
  const Leaving steps(graph);
  const std::vector<int> rest = unplaced(graph, steps);
  if (rest.empty()) return std::nullopt;
  const std::vector<const Step*> cycle = shortest_cycle(graph, rest, steps);
  Finding finding{
      .code = "potential_deadlock",
      .rule = "all ranks make the calls of several groups in one common order",
      .hint = "wait() before the call of the other group, or make the calls in the same order on every rank"};
  std::vector<int> who;
  for (const Step* step : cycle) {
    const RankCalls& rank = *step->rank;
    who.push_back(rank.rank);
    add_facts(finding, facts_of(rank.calls[step->first], rank.rank, "first makes"));
    add_facts(finding, facts_of(rank.calls[step->second], rank.rank, "then makes"));
  }
  std::sort(who.begin(), who.end());
  who.erase(std::unique(who.begin(), who.end()), who.end());
  finding.sentence =
      fmt::format("{} make calls of several groups in different orders; this run completed, others may hang",
                  text_of_ranks(who));
  return finding;
}

}  // namespace sim
