#include "sim/experts/token_order.h"

#include "sim/experts/token_rows.h"

namespace sim {

ExpertOrder expert_order(const RoutingMap& map, std::int64_t first, std::int64_t count) {
  ExpertOrder order;
  for (std::int64_t e = first; e < first + count; ++e) {
    const std::size_t before = order.tokens.size();
    for (std::int64_t t = 0; t < map.tokens(); ++t) {
      if (!map.at(t, e)) continue;
      order.tokens.push_back(t);
      order.entries.push_back(t * map.experts() + e);
    }
    order.of_expert.push_back(static_cast<std::int64_t>(order.tokens.size() - before));
  }
  return order;
}

Tensor taken_entries(const Tensor& matrix, const std::vector<std::int64_t>& entries) {
  return taken_rows(matrix.reshaped({matrix.count(), 1}), entries);
}

Tensor added_entries(const Tensor& values, const std::vector<std::int64_t>& entries, std::int64_t rows,
                     std::int64_t columns) {
  return added_rows(values, entries, rows * columns).reshaped({rows, columns});
}

std::vector<std::int64_t> inverse_of(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

}  // namespace sim
