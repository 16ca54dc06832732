#pragma once

/// Places the nodes of a graph without circles in rows, so that its edges can be drawn from each row to the
/// rows below it. An edge that passes a row of other nodes has a bend there, and no node is in its way.
///
/// Exact   the same graph has the same drawing on every machine.
/// Source  K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System
///         Structures", 1981: barycentres order a row; the positions in a row are an isotonic regression.

#include <utility>
#include <vector>

namespace test {

struct LayeredGraph {
  std::vector<int> rows;                   // by node; row 0 is drawn at the bottom
  std::vector<std::pair<int, int>> edges;  // from a node to one in a lower row
};

struct DrawingSizes {
  double width;       // of the drawing
  double node_width;  // of each node
  double node_gap;    // at least, between two nodes of a row
  double bend_gap;    // at least, between a bend and its neighbours
};

struct LayeredDrawing {
  std::vector<double> nodes;               // the middle of each node
  std::vector<std::vector<double>> bends;  // by edge: where it passes the rows between, from top to bottom
};

LayeredDrawing layered_drawing(const LayeredGraph& graph, const DrawingSizes& sizes);

}  // namespace test
