#include "sim/experts/token_dropping.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/experts/row_operations.h"
#include "sim/experts/top_choices.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

/// Returns the tokens of an expert in the order in which it keeps them.
/// `probs` are null if the position decides.
std::vector<std::int64_t> in_order(const RoutingMap& map, const HostScores* probs, std::int64_t expert) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(map.tokens()));
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto unrouted =
      std::stable_partition(tokens.begin(), tokens.end(), [&](std::int64_t t) { return map.at(t, expert); });
  if (probs != nullptr) {
    std::stable_sort(tokens.begin(), unrouted, [&](std::int64_t a, std::int64_t b) {
      return probs->is_larger(a * map.experts() + expert, b * map.experts() + expert);
    });
  }
  return tokens;
}

/// Returns how many tokens each expert keeps, where it is not known which.
RoutingMap counted_kept(const RoutingMap& map, std::int64_t capacity, const TokenDroppingConfig& config) {
  std::vector<std::int64_t> counts = map.tokens_per_expert();
  for (std::int64_t& count : counts)
    count = std::min(capacity, config.pad_to_capacity ? map.tokens() : count);
  return RoutingMap::counted(map.tokens(), std::move(counts));
}

}  // namespace

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t topk, std::int64_t experts, double factor) {
  if (!(factor > 0) || std::isinf(factor)) {
    refuse({.code = "expert_capacity",
            .option = "capacity_factor",
            .numbers = fmt::format("a factor of {}", factor),
            .rule = "an expert keeps its share of the tokens times a factor above 0",
            .hint = "1 or more; no capacity keeps all tokens"});
  }
  const double share = static_cast<double>(tokens * topk) / static_cast<double>(experts);
  constexpr double kMost = 0x1p62;  // more tokens than any rank has
  return static_cast<std::int64_t>(std::min(std::ceil(share * factor), kMost));
}

TokenDroppingForward drop_tokens(const Routing& routing, std::int64_t topk,
                                 const TokenDroppingConfig& config) {
  const RoutingMap& map = routing.map;
  require_inputs({&routing.probs}, "drop_tokens");
  require_shapes(routing.probs.shape() == Shape{map.tokens(), map.experts()}, {&routing.probs}, "drop_tokens",
                 "there is one probability for each token and expert");
  const std::int64_t capacity = expert_capacity(map.tokens(), topk, map.experts(), config.capacity_factor);
  if (map.is_counted()) {
    RoutingMap kept = counted_kept(map, capacity, config);
    const Tensor mask = kept.tensor(routing.probs.device());
    return {{masked(mask, routing.probs), std::move(kept)}, {mask}};
  }
  std::optional<HostScores> probs;
  if (config.drop_policy == DropPolicy::probs) probs.emplace(routing.probs);
  RoutingMap kept(map.tokens(), map.experts());
  for (std::int64_t e = 0; e < map.experts(); ++e) {
    const std::vector<std::int64_t> tokens = in_order(map, probs ? &*probs : nullptr, e);
    for (std::int64_t i = 0; i < std::min(capacity, map.tokens()); ++i)
      kept.set(tokens[static_cast<std::size_t>(i)], e, true);
  }
  if (!config.pad_to_capacity) kept = kept & map;
  const Tensor mask = kept.tensor(routing.probs.device());
  return {{masked(mask, routing.probs), std::move(kept)}, {mask}};
}

Tensor drop_tokens_backward(const TokenDroppingSaved& saved, const Tensor& grad_probs) {
  return masked(saved.mask, grad_probs);
}

}  // namespace sim
