#include "sim/experts/topk_routing.h"

#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/experts/top_choices.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"
#include "sim/tensor/softmax.h"

namespace sim {

namespace {

/// Each rule has its own option, so that all broken rules are reported together.
[[noreturn]] void refuse_routing(std::string option, std::string numbers, const char* rule,
                                 const char* hint) {
  refuse({.code = "topk_routing",
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = hint});
}

void require_groups(const TopKRoutingConfig& config, std::int64_t experts, const std::string& user) {
  const std::int64_t groups = config.num_groups, survivors = config.group_topk;
  if (groups == 0 && survivors == 0) return;
  if (groups < 1 || experts % groups != 0) {
    refuse_routing(user + " num_groups", fmt::format("{} experts in {} groups", experts, groups),
                   "the groups divide the experts evenly", "a divisor of the number of experts");
  }
  if (survivors < 1 || survivors > groups) {
    refuse_routing(user + " group_topk", fmt::format("{} of {} groups", survivors, groups),
                   "from 1 to all of the groups survive", "group_topk of at most num_groups");
  }
  const std::int64_t width = experts / groups;
  if (config.topk / survivors > width || config.topk > survivors * width) {
    refuse_routing(user + " group_topk",
                   fmt::format("{} experts of {} groups of {}", config.topk, survivors, width),
                   "the surviving groups have the experts that score a group, and those that a token takes",
                   "a larger group_topk, fewer groups, or a smaller topk");
  }
}

/// Whether the chosen scores are divided by their sum.
bool divides(const TopKRoutingConfig& config) {
  return config.score_function != ScoreFunction::softmax && config.topk > 1;
}
/// Whether a softmax is taken over the chosen logits alone.
bool is_after_choice(const TopKRoutingConfig& config) {
  return config.score_function == ScoreFunction::softmax && !config.pre_softmax;
}

std::vector<std::int64_t> row_elements(const HostScores& scores, std::int64_t row) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(scores.columns()));
  std::iota(elements.begin(), elements.end(), row * scores.columns());
  return elements;
}

/// Returns the elements of a row of scores whose groups survive.
std::vector<std::int64_t> surviving(const HostScores& group_scores, const TopKRoutingConfig& config,
                                    std::int64_t row, std::int64_t experts) {
  const std::vector<std::int64_t> groups =
      group_scores.largest(row_elements(group_scores, row), config.group_topk);
  std::vector<bool> survives(static_cast<std::size_t>(config.num_groups));
  for (const std::int64_t group : groups)
    survives[static_cast<std::size_t>(group % config.num_groups)] = true;
  std::vector<std::int64_t> elements;
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t group = e / (experts / config.num_groups);
    if (survives[static_cast<std::size_t>(group)]) elements.push_back(row * experts + e);
  }
  return elements;
}

/// Chooses experts in turn, without a look at the scores.
RoutingMap balanced_map(const Tensor& ranked, std::int64_t topk) {
  const bool has_scores = ranked.device().has_elements(ranked.dtype());
  return (has_scores ? RoutingMap::in_turn : RoutingMap::counted_in_turn)(rows_of(ranked), columns_of(ranked),
                                                                          topk);
}

RoutingMap chosen_map(const Tensor& ranked, const TopKRoutingConfig& config) {
  if (config.force_load_balancing) return balanced_map(ranked, config.topk);
  const HostScores scores(ranked);
  const std::int64_t experts = scores.columns();
  const bool has_groups = config.num_groups > 0;
  const HostScores groups =
      has_groups ? scores.group_scores(config.num_groups, config.topk / config.group_topk) : scores;
  RoutingMap map(scores.rows(), experts);
  for (std::int64_t t = 0; t < scores.rows(); ++t) {
    std::vector<std::int64_t> candidates =
        has_groups ? surviving(groups, config, t, experts) : row_elements(scores, t);
    for (const std::int64_t element : scores.largest(std::move(candidates), config.topk))
      map.set(t, element % experts, true);
  }
  return map;
}

/// Returns the chosen elements of each token as i32 [T, k], in the order of the experts.
Tensor chosen_ids(const RoutingMap& map, std::int64_t topk, Device& device) {
  if (map.is_counted()) return device.empty(DType::i32, {map.tokens(), topk});
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < map.chosen().size(); ++i) {
    if (map.chosen()[i] != 0) ids.push_back(static_cast<std::int32_t>(i));
  }
  return device_ids(device, {map.tokens(), topk}, ids);
}

/// Returns the scores by which experts are chosen.
Tensor with_bias(const Tensor& scores, const Tensor& expert_bias) {
  if (expert_bias.is_none()) return scores;
  return add_bias(cast(scores, sum_dtype(scores.dtype())), expert_bias);
}

}  // namespace

void require_topk_routing(const TopKRoutingConfig& config, std::int64_t experts, const std::string& user) {
  Refusals refusals;
  refusals.keep([&] {
    if (config.topk >= 1 && config.topk <= experts) return;
    refuse_routing(user + " topk", fmt::format("{} of {} experts", config.topk, experts),
                   "a token goes to at least one expert, and at most to all of them",
                   "topk from 1 to the number of experts");
  });
  refusals.keep([&] { require_groups(config, experts, user); });
  refusals.throw_if_any();
}

RoutingMap topk_map(const Tensor& scores, std::int64_t topk, bool force_load_balancing) {
  return chosen_map(scores, {.topk = topk, .force_load_balancing = force_load_balancing});
}

TopKRoutingForward topk_routing(const Tensor& logits, const TopKRoutingConfig& config,
                                const Tensor& expert_bias) {
  require_inputs({&logits}, "topk_routing");
  require_shapes(logits.shape().dimensions() == 2, {&logits}, "topk_routing", "logits are [T, E]");
  require_topk_routing(config, logits.shape()[1], "topk_routing");
  if (!expert_bias.is_none() && config.score_function == ScoreFunction::softmax) {
    refuse_routing("topk_routing expert_bias", "an expert bias with softmax",
                   "a bias is added to scores that do not depend on each other",
                   "the score function sigmoid or sqrtsoftplus");
  }
  const std::int64_t tokens = logits.shape()[0], experts = logits.shape()[1];
  TopKRoutingSaved saved{.config = config, .logits = logits};
  if (is_after_choice(config)) {
    RoutingMap map = chosen_map(logits, config);
    saved.mask = map.tensor(logits.device());
    saved.ids = chosen_ids(map, config.topk, logits.device());
    saved.scores = softmax(take_elements(logits, saved.ids), 1, {});
    const Tensor probs = put_elements(saved.scores, saved.ids, tokens, experts);
    return {{scale(probs, config.scaling_factor), std::move(map)}, std::move(saved)};
  }
  saved.scores = scores_of(config.score_function, logits);
  RoutingMap map = chosen_map(with_bias(saved.scores, expert_bias), config);
  saved.mask = map.tensor(logits.device());
  Tensor probs = masked(saved.mask, saved.scores);
  if (divides(config)) {
    const NormalizedRows normalized = normalized_rows(probs);
    saved.inverses = normalized.inverses;
    probs = normalized.rows;
  }
  return {{scale(probs, config.scaling_factor), std::move(map)}, std::move(saved)};
}

Tensor topk_routing_backward(const TopKRoutingSaved& saved, const Tensor& grad_probs) {
  require_inputs({&saved.logits, &grad_probs}, "topk_routing_backward");
  require_same_shape(saved.logits, grad_probs, "topk_routing_backward");
  const std::int64_t tokens = grad_probs.shape()[0], experts = grad_probs.shape()[1];
  const TopKRoutingConfig& config = saved.config;
  Tensor grad = scale(masked(saved.mask, grad_probs), config.scaling_factor);
  if (is_after_choice(config)) {
    const Tensor chosen = softmax_backward(saved.scores, take_elements(grad, saved.ids), 1);
    return put_elements(chosen, saved.ids, tokens, experts);
  }
  if (divides(config)) {
    const Tensor kept = masked(saved.mask, saved.scores);
    grad = masked(saved.mask, normalized_rows_backward(kept, saved.inverses, grad));
  }
  return scores_backward(config.score_function, saved.logits, saved.scores, grad);
}

}  // namespace sim
