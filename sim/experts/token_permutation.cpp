#include "sim/experts/token_permutation.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> begins(sizes.size() + 1);
  for (std::size_t i = 0; i < sizes.size(); ++i) begins[i + 1] = begins[i] + sizes[i];
  return begins;
}

RowOrder order_of(const RoutingMap& map, const std::vector<std::vector<std::int64_t>>& tokens_by_expert,
                  Device& device) {
  RowOrder order{.tokens = map.tokens(), .experts = map.experts()};
  std::vector<std::int32_t> prob_ids;
  for (std::size_t e = 0; e < tokens_by_expert.size(); ++e) {
    order.rows_per_expert.push_back(static_cast<std::int64_t>(tokens_by_expert[e].size()));
    for (const std::int64_t t : tokens_by_expert[e]) {
      order.sorted_indices.push_back(static_cast<std::int32_t>(t));
      prob_ids.push_back(static_cast<std::int32_t>(t * map.experts() + static_cast<std::int64_t>(e)));
    }
  }
  const auto rows = static_cast<std::int64_t>(prob_ids.size());
  order.token_ids = device_ids(device, {rows}, order.sorted_indices);
  order.prob_ids = device_ids(device, {rows}, prob_ids);
  return order;
}

/// Returns the order of this many rows of each expert, whose tokens are not known.
RowOrder order_of_counted(const RoutingMap& map, std::vector<std::int64_t> rows_per_expert, Device& device) {
  RowOrder order{.tokens = map.tokens(), .experts = map.experts()};
  order.rows_per_expert = std::move(rows_per_expert);
  const Shape rows = {begins_of(order.rows_per_expert).back()};
  order.token_ids = device.empty(DType::i32, rows);
  order.prob_ids = device.empty(DType::i32, rows);
  return order;
}

/// Returns the tokens of an expert and then the others, both in ascending order.
std::vector<std::int64_t> routed_first(const RoutingMap& map, std::int64_t expert) {
  std::vector<std::int64_t> tokens = map.tokens_of(expert);
  for (std::int64_t t = 0; t < map.tokens(); ++t) {
    if (!map.at(t, expert)) tokens.push_back(t);
  }
  return tokens;
}

void require_rows(const Tensor& rows, const RowOrder& order, const char* user) {
  require_inputs({&rows}, user);
  require_shapes(rows.shape().dimensions() == 2 && rows.shape()[0] == order.rows(), {&rows, &order.token_ids},
                 user, "there is one row for each copy of a token");
}

void require_tokens(const Tensor& x, const RowOrder& order, const char* user) {
  require_inputs({&x}, user);
  require_shapes(x.shape().dimensions() == 2 && x.shape()[0] == order.tokens, {&x}, user,
                 "there is one row for each token of the routing map");
}

void require_chunks(const Tensor& rows, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& order) {
  require_own(rows, "sort_chunks_by_idxs");
  std::vector<bool> is_named(sizes.size());
  bool fits = order.size() == sizes.size() && rows.shape().dimensions() >= 1;
  std::int64_t sum = 0;
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) {
    const auto chunk = static_cast<std::size_t>(order[i]);  // a negative number becomes a large one
    fits = sizes[i] >= 0 && chunk < sizes.size() && !is_named[chunk];
    if (fits) is_named[chunk] = true;
    sum += sizes[i];
  }
  fits = fits && sum == rows.shape()[0];
  if (fits) return;
  refuse({.code = "chunk_order",
          .option = "sort_chunks_by_idxs",
          .numbers = fmt::format("rows {}, {} chunks of {} rows together, an order of {}",
                                 text_of(rows.shape()), sizes.size(), begins_of(sizes).back(), order.size()),
          .rule = "the chunks are all rows, and the order names each chunk once",
          .hint = "one size for each chunk, and a permutation of their numbers"});
}

}  // namespace

RowOrder row_order(const RoutingMap& map, Device& device) {
  if (map.is_counted()) return order_of_counted(map, map.tokens_per_expert(), device);
  std::vector<std::vector<std::int64_t>> tokens;
  for (std::int64_t e = 0; e < map.experts(); ++e) tokens.push_back(map.tokens_of(e));
  return order_of(map, tokens, device);
}

RowOrder padded_row_order(const RoutingMap& map, std::int64_t capacity, Device& device) {
  if (capacity < 0 || capacity > map.tokens()) {
    refuse({.code = "capacity_above_tokens",
            .option = "pad_to_capacity",
            .numbers = fmt::format("a capacity of {} for {} tokens", capacity, map.tokens()),
            .rule = "an expert's buffer is filled with different tokens, so it holds at most all of them",
            .hint = "a smaller capacity factor, or a capacity without padding"});
  }
  if (map.is_counted()) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(map.experts()), capacity);
    return order_of_counted(map, std::move(rows), device);
  }
  std::vector<std::vector<std::int64_t>> tokens;
  for (std::int64_t e = 0; e < map.experts(); ++e) {
    tokens.push_back(routed_first(map, e));
    tokens.back().resize(static_cast<std::size_t>(capacity));
  }
  return order_of(map, tokens, device);
}

Tensor permute(const Tensor& x, const RowOrder& order) {
  require_tokens(x, order, "permute");
  return lookup(x, order.token_ids, 0);
}

Tensor permute_backward(const Tensor& grad_rows, const RowOrder& order) {
  return unpermute(grad_rows, order);
}

Tensor permute_probs(const Tensor& probs, const RowOrder& order) {
  require_tokens(probs, order, "permute_probs");
  require_shapes(probs.shape()[1] == order.experts, {&probs}, "permute_probs",
                 "there is one probability for each token and expert");
  return take_elements(probs, order.prob_ids);
}

Tensor permute_probs_backward(const Tensor& grad_row_probs, const RowOrder& order) {
  return put_elements(grad_row_probs, order.prob_ids, order.tokens, order.experts);
}

Tensor unpermute(const Tensor& rows, const RowOrder& order) {
  require_rows(rows, order, "unpermute");
  Tensor sums = filled(rows.device(), sum_dtype(rows.dtype()), {order.tokens, rows.shape()[1]}, 0);
  add_to_rows(rows, order.token_ids, 0, sums);
  return cast(sums, rows.dtype());
}

Tensor unpermute_backward(const Tensor& grad, const RowOrder& order) { return permute(grad, order); }

Tensor unpermute_weighted(const Tensor& rows, const Tensor& probs, const RowOrder& order) {
  require_rows(rows, order, "unpermute_weighted");
  return unpermute(scaled_rows(rows, permute_probs(probs, order)), order);
}

WeightedGrads unpermute_weighted_backward(const Tensor& rows, const Tensor& probs, const Tensor& grad,
                                          const RowOrder& order) {
  const Tensor grad_weighted = unpermute_backward(grad, order);
  return {scaled_rows(grad_weighted, permute_probs(probs, order)),
          permute_probs_backward(row_dots(grad_weighted, rows), order)};
}

Tensor sort_chunks_by_idxs(const Tensor& rows, const std::vector<std::int64_t>& split_sizes,
                           const std::vector<std::int64_t>& sorted_idxs) {
  require_chunks(rows, split_sizes, sorted_idxs);
  Tensor sorted = rows.device().empty(rows.dtype(), rows.shape());
  if (!rows.device().has_elements(rows.dtype())) {  // one copy does for all chunks
    copy(rows, sorted);
    return sorted;
  }
  const std::vector<std::int64_t> begins = begins_of(split_sizes);
  std::int64_t place = 0;
  for (const std::int64_t chunk : sorted_idxs) {
    const auto i = static_cast<std::size_t>(chunk);
    Tensor target = sorted.rows(place, place + split_sizes[i]);
    if (split_sizes[i] > 0) copy(rows.rows(begins[i], begins[i + 1]), target);
    place += split_sizes[i];
  }
  return sorted;
}

Tensor sort_chunks_by_idxs_backward(const Tensor& grad_rows, const std::vector<std::int64_t>& split_sizes,
                                    const std::vector<std::int64_t>& sorted_idxs) {
  require_chunks(grad_rows, split_sizes, sorted_idxs);
  std::vector<std::int64_t> sorted_sizes, places(sorted_idxs.size());
  for (const std::int64_t chunk : sorted_idxs) {
    places[static_cast<std::size_t>(chunk)] = std::ssize(sorted_sizes);
    sorted_sizes.push_back(split_sizes[static_cast<std::size_t>(chunk)]);
  }
  return sort_chunks_by_idxs(grad_rows, sorted_sizes, places);
}

RoutingMap pad_routing_map(const RoutingMap& map, std::int64_t multiple) {
  if (multiple < 1) {
    refuse({.code = "routing_map",
            .option = "pad_routing_map",
            .numbers = fmt::format("a multiple of {}", multiple),
            .rule = "tokens of an expert are padded to a multiple of at least 1",
            .hint = "16 or 32, as the kernels of quantised experts need"});
  }
  RoutingMap padded = map;
  const std::vector<std::int64_t> counts = map.tokens_per_expert();
  for (std::int64_t e = 0; e < map.experts(); ++e) {
    const std::int64_t count = counts[static_cast<std::size_t>(e)];
    std::int64_t missing = (multiple - count % multiple) % multiple;
    for (std::int64_t t = 0; t < map.tokens() && missing > 0; ++t) {
      if (map.at(t, e)) continue;
      padded.set(t, e, true);
      --missing;
    }
  }
  return padded;
}

}  // namespace sim
