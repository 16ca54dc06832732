#pragma once

/// The ends of a directed graph: its strongly connected components from which no edge leads out.
///
/// Shapes  edges[n] has the nodes to which edges of node n lead.
/// Exact   Components come in the order of their smallest nodes, and their nodes ascend.
/// Source  Tarjan 1972, as Boost.Graph has it.

#include <cstddef>
#include <vector>

namespace verify {

using Edges = std::vector<std::vector<std::size_t>>;

std::vector<std::vector<std::size_t>> final_components(const Edges& edges);

/// Returns the components of several nodes from which no other one of several nodes is reached.
std::vector<std::vector<std::size_t>> final_circles(const Edges& edges);

/// Returns the nodes below `ranks` on a shortest circle of a component, ascending. Nodes from `ranks` on are
/// calls, which stand between ranks.
std::vector<int> shortest_circle(const Edges& edges, const std::vector<std::size_t>& component,
                                 std::size_t ranks);

}  // namespace verify
