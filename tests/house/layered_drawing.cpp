#include "tests/house/layered_drawing.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace test {

namespace {

/// A node of the graph, or the bend of an edge.
struct Place {
  int row = 0;
  bool is_bend = false;
  double x = 0;
  std::vector<std::size_t> above = {};
  std::vector<std::size_t> below = {};
};

class Drawing {
 public:
  Drawing(const LayeredGraph& graph, const DrawingSizes& sizes) : sizes_(sizes) {
    for (const int row : graph.rows) places_.push_back({.row = row});
    for (const auto& [from, to] : graph.edges)
      bends_.push_back(add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to)));
    const int highest = graph.rows.empty() ? 0 : *std::max_element(graph.rows.begin(), graph.rows.end());
    rows_.resize(static_cast<std::size_t>(highest) + 1);
    for (std::size_t i = 0; i < places_.size(); ++i) row_of(i).push_back(i);
  }

  LayeredDrawing drawn() {
    order_rows();
    place_rows();
    LayeredDrawing drawing;
    for (const Place& place : places_) {
      if (!place.is_bend) drawing.nodes.push_back(place.x);
    }
    for (const std::vector<std::size_t>& bends : bends_) {
      drawing.bends.emplace_back();
      for (const std::size_t bend : bends) drawing.bends.back().push_back(places_[bend].x);
    }
    return drawing;
  }

 private:
  using Row = std::vector<std::size_t>;

  Row& row_of(std::size_t place) { return rows_[static_cast<std::size_t>(places_[place].row)]; }

  std::vector<std::size_t> add_edge(std::size_t from, std::size_t to) {
    std::vector<std::size_t> bends;
    std::size_t upper = from;
    for (int row = places_[from].row - 1; row >= places_[to].row; --row) {
      const bool is_end = row == places_[to].row;
      const std::size_t lower = is_end ? to : places_.size();
      if (!is_end) {
        places_.push_back({.row = row, .is_bend = true});
        bends.push_back(lower);
      }
      places_[upper].below.push_back(lower);
      places_[lower].above.push_back(upper);
      upper = lower;
    }
    return bends;
  }

  // ---- the order in each row

  /// Writes the position of every place in its row to x.
  void number_rows() {
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) places_[row[i]].x = static_cast<double>(i);
    }
  }

  double mean_x(const std::vector<std::size_t>& neighbours, double otherwise) const {
    if (neighbours.empty()) return otherwise;
    double sum = 0;
    for (const std::size_t neighbour : neighbours) sum += places_[neighbour].x;
    return sum / static_cast<double>(neighbours.size());
  }

  void sort_row(Row& row, bool by_those_above) {
    std::vector<double> keys(places_.size());
    for (const std::size_t place : row)
      keys[place] = mean_x(by_those_above ? places_[place].above : places_[place].below, places_[place].x);
    std::stable_sort(row.begin(), row.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
    for (std::size_t i = 0; i < row.size(); ++i) places_[row[i]].x = static_cast<double>(i);
  }

  /// Returns the number of crossings between the edges of two places of a row, of which `left` is left.
  int crossings(std::size_t left, std::size_t right) const {
    int count = 0;
    for (const auto& neighbours : {&Place::above, &Place::below}) {
      for (const std::size_t a : places_[left].*neighbours) {
        for (const std::size_t b : places_[right].*neighbours) count += places_[a].x > places_[b].x ? 1 : 0;
      }
    }
    return count;
  }

  int all_crossings() const {
    int count = 0;
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        for (std::size_t j = i + 1; j < row.size(); ++j) count += crossings(row[i], row[j]);
      }
    }
    return count / 2;  // each is seen from both of its rows
  }

  /// Exchanges neighbours of a row as long as that removes crossings.
  void exchange_neighbours() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (Row& row : rows_) {
        for (std::size_t i = 0; i + 1 < row.size(); ++i) {
          if (crossings(row[i], row[i + 1]) <= crossings(row[i + 1], row[i])) continue;
          std::swap(row[i], row[i + 1]);
          std::swap(places_[row[i]].x, places_[row[i + 1]].x);
          is_better = true;
        }
      }
    }
  }

  void order_rows() {
    constexpr int kSweeps = 24;
    number_rows();
    std::vector<Row> best = rows_;
    int fewest = all_crossings();
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      if (sweep % 2 == 0) {
        for (std::size_t i = rows_.size(); i-- > 0;) sort_row(rows_[i], true);
      } else {
        for (Row& row : rows_) sort_row(row, false);
      }
      exchange_neighbours();
      if (const int count = all_crossings(); count < fewest) {
        fewest = count;
        best = rows_;
      }
    }
    rows_ = best;
  }

  // ---- the positions in each row

  double half_width(std::size_t place) const { return places_[place].is_bend ? 0 : sizes_.node_width / 2; }

  /// Returns the least distance between the middles of two neighbours.
  double distance(std::size_t left, std::size_t right) const {
    const bool has_bend = places_[left].is_bend || places_[right].is_bend;
    return half_width(left) + half_width(right) + (has_bend ? sizes_.bend_gap : sizes_.node_gap);
  }

  /// Moves the places of a row as near as possible to where they want to be, with the sum of squares as the
  /// measure, in their order and with their distances.
  void place_row(const Row& row, const std::vector<double>& wanted) {
    struct Block {
      double sum = 0;
      double count = 0;
      double mean() const { return sum / count; }
    };
    std::vector<double> offsets(row.size());
    for (std::size_t i = 1; i < row.size(); ++i) offsets[i] = offsets[i - 1] + distance(row[i - 1], row[i]);
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < row.size(); ++i) {
      blocks.push_back({wanted[i] - offsets[i], 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() >= blocks.back().mean()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().count += last.count;
      }
    }
    const double least = half_width(row.front());
    const double most = sizes_.width - half_width(row.back()) - offsets.back();
    std::size_t i = 0;
    for (const Block& block : blocks) {
      for (double n = 0; n < block.count; ++n, ++i)
        places_[row[i]].x = std::max(least, std::min(block.mean(), most)) + offsets[i];
    }
  }

  void place_rows() {
    constexpr int kSweeps = 60;
    for (const Row& row : rows_) {
      std::vector<double> spread;
      for (std::size_t i = 0; i < row.size(); ++i)
        spread.push_back(sizes_.width * (static_cast<double>(i) + 0.5) / static_cast<double>(row.size()));
      if (!row.empty()) place_row(row, spread);
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const Row& row = rows_[sweep % 2 == 0 ? i : rows_.size() - 1 - i];
        if (row.empty()) continue;
        std::vector<double> wanted;
        for (const std::size_t place : row) {
          const double x = places_[place].x;
          wanted.push_back((mean_x(places_[place].above, x) + mean_x(places_[place].below, x)) / 2);
        }
        place_row(row, wanted);
      }
    }
  }

  DrawingSizes sizes_;
  std::vector<Place> places_;
  std::vector<std::vector<std::size_t>> bends_;  // by edge
  std::vector<Row> rows_;
};

}  // namespace

LayeredDrawing layered_drawing(const LayeredGraph& graph, const DrawingSizes& sizes) {
  return Drawing(graph, sizes).drawn();
}

}  // namespace test
