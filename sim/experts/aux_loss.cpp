#include "sim/experts/aux_loss.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

struct KindInfo {
  AuxLossKind kind;
  const char* name;
  bool over_data_parallel;  // counts are summed over tp-dp-cp, otherwise over tp-cp
  bool by_sequence;
};
constexpr KindInfo kKinds[] = {
    {AuxLossKind::aux_loss, "load_balancing_loss", false, false},
    {AuxLossKind::seq_aux_loss, "seq_load_balancing_loss", false, true},
    {AuxLossKind::global_aux_loss, "global_load_balancing_loss", true, false},
};

void require_config(const AuxLossConfig& config, const AuxLossInput& input) {
  const std::int64_t tokens = rows_of(input.logits);
  bool fits = input.batch_size >= 1 && tokens % input.batch_size == 0;
  for (const KindInfo& info : kKinds) {
    fits = fits && std::count_if(config.losses.begin(), config.losses.end(),
                                 [&](const AuxLoss& loss) { return loss.kind == info.kind; }) <= 1;
  }
  if (fits) return;
  refuse({.code = "aux_loss",
          .option = "aux_losses",
          .numbers = fmt::format("{} losses, {} tokens of {} sequences", config.losses.size(), tokens,
                                 input.batch_size),
          .rule = "each kind of loss is given once, and all sequences of the batch have the same length",
          .hint = "one coefficient for each kind, and the batch size of the logits"});
}

std::optional<Ratio> coefficient_of(AuxLossKind kind, const AuxLossConfig& config) {
  for (const AuxLoss& loss : config.losses) {
    if (loss.kind == kind && loss.coefficient.numerator != 0) return loss.coefficient;
  }
  return std::nullopt;
}

/// Returns the tokens of each expert, sequence by sequence: [batch E].
std::vector<std::int32_t> own_counts(const RoutingMap& map, std::int64_t batch) {
  if (batch == 1) {
    const std::vector<std::int64_t> all = map.tokens_per_expert();
    return {all.begin(), all.end()};
  }
  std::vector<std::int32_t> counts(static_cast<std::size_t>(batch * map.experts()));
  for (std::size_t i = 0; i < map.chosen().size(); ++i) counts[i % counts.size()] += map.chosen()[i];
  return counts;
}

std::int64_t sum_of(const std::vector<std::int32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

struct TokenCounts {
  Tensor tokens_per_expert;  // i32 [C], summed over the group
  Ratio local_tokens;        // of this rank, for per_token_loss
  Ratio total_tokens;        // of the group, in one sequence
};

/// Counts over the group. A token is a row of the map; where there is padding, it is topk choices.
TokenCounts counts_of(const RoutingMap& map, std::int64_t batch, bool has_padding,
                      const AuxLossConfig& config, Communicator& group, Device& device) {
  // A counted map does not know the sequence of a token.
  const bool are_known = batch == 1 || !map.is_counted();
  const std::vector<std::int32_t> own = are_known ? own_counts(map, batch) : std::vector<std::int32_t>();
  const Shape shape = {batch * map.experts()};
  TokenCounts counts{
      .tokens_per_expert = are_known ? device_ids(device, shape, own) : device.empty(DType::i32, shape),
      .local_tokens = {map.tokens(), 1},
      .total_tokens = {map.tokens() / batch * group.size(), 1}};
  if (group.size() > 1) group.all_reduce(counts.tokens_per_expert, ReduceOp::sum, "aux_loss.counts");
  if (has_padding) {
    const std::int64_t total = sum_of(host_ids(counts.tokens_per_expert));
    const std::int64_t local = config.counts_reduced_in_place ? total : sum_of(own);
    counts.total_tokens = lowest_terms({total, config.topk * batch});
    counts.local_tokens = lowest_terms({local, config.topk});
  }
  if (counts.total_tokens.numerator > 0) return counts;
  refuse(
      {.code = "no_valid_tokens",
       .option = "padding",
       .numbers = fmt::format("{} tokens on each of {} ranks", map.tokens(), group.size()),
       .rule = "an auxiliary loss is a mean over tokens that are no padding, of which there is at least one",
       .hint = "a batch with tokens, or no auxiliary loss for this microbatch"});
}

/// Returns the mean of the counts of all microbatches so far, with these.
Tensor running_mean(GlobalTokensPerExpert& so_far, const Tensor& counts, DType dtype) {
  so_far.tokens = so_far.tokens.is_none() ? counts : add(so_far.tokens, counts);
  ++so_far.microbatches;
  return scale(cast(so_far.tokens, dtype), {1, so_far.microbatches});
}

}  // namespace

Ratio lowest_terms(Ratio ratio) {
  const std::int64_t divisor = std::gcd(ratio.numerator, ratio.denominator);
  return divisor == 0 ? ratio : Ratio{ratio.numerator / divisor, ratio.denominator / divisor};
}

std::int64_t valid_tokens(const PaddingMask& padding, std::int64_t tokens) {
  if (padding.empty()) return tokens;
  if (static_cast<std::int64_t>(padding.size()) != tokens) {
    refuse({.code = "aux_loss",
            .option = "padding",
            .numbers = fmt::format("{} bytes for {} tokens", padding.size(), tokens),
            .rule = "a padding mask has one byte for each token",
            .hint = "the mask of this rank's tokens, or none"});
  }
  return std::count(padding.begin(), padding.end(), 0);
}

AuxScores scores_for_aux_loss(const AuxLossInput& input, const AuxLossConfig& config) {
  AuxScores result;
  result.logits = cast(input.logits, sum_dtype(input.logits.dtype()));
  result.all_scores = scores_of(config.score_function, result.logits);
  result.scores = result.all_scores;
  if (config.score_function != ScoreFunction::softmax) {
    NormalizedRows normalized = normalized_rows(result.all_scores);
    result.scores = std::move(normalized.rows);
    result.inverses = std::move(normalized.inverses);
  }
  result.map = topk_map(result.scores, config.topk, config.force_load_balancing);
  const std::int64_t tokens = result.map.tokens(), experts = result.map.experts();
  // Which choices are padding is known of pairs alone. A counted map is one in turn.
  if (result.map.is_counted() && !input.padding.empty())
    result.map = RoutingMap::in_turn(tokens, experts, config.topk);
  if (valid_tokens(input.padding, tokens) == tokens) return result;
  RoutingMap valid(tokens, experts);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t e = 0; e < experts; ++e)
      valid.set(t, e, input.padding[static_cast<std::size_t>(t)] == 0);
  }
  result.map = result.map & valid;
  result.valid = valid.tensor(result.logits.device());
  result.scores = masked(result.valid, result.scores);
  return result;
}

Tensor scores_for_aux_loss_backward(ScoreFunction function, const AuxScores& scores,
                                    const Tensor& grad_scores) {
  Tensor grad = scores.valid.is_none() ? grad_scores : masked(scores.valid, grad_scores);
  if (function != ScoreFunction::softmax)
    grad = normalized_rows_backward(scores.all_scores, scores.inverses, grad);
  return scores_backward(function, scores.logits, scores.all_scores, grad);
}

BalanceLoss switch_load_balancing_loss(const Tensor& scores, const Tensor& tokens_per_expert,
                                       Ratio total_tokens, std::int64_t topk, std::int64_t experts,
                                       Ratio coefficient) {
  const Ratio factor = lowest_terms({coefficient.numerator * experts, coefficient.denominator * topk});
  const Ratio by_tokens = {total_tokens.denominator, total_tokens.numerator};
  const Tensor slopes = scale(scale(scale(tokens_per_expert, factor), by_tokens), by_tokens);
  Tensor sums = filled(scores.device(), scores.dtype(), {columns_of(scores)}, 0);
  add_column_sums(scores, sums);
  return {row_dots(sums.reshaped({1, sums.count()}), slopes.reshaped({1, slopes.count()})), slopes};
}

AuxLossesForward aux_losses(const AuxLossInput& input, const AuxLossConfig& config,
                            const AuxLossGroups& groups, GlobalTokensPerExpert& global_tokens) {
  require_inputs({&input.logits}, "aux_losses");
  require_config(config, input);
  AuxLossesForward forward{.saved = {.function = config.score_function}};
  for (const KindInfo& info : kKinds) {
    const std::optional<Ratio> coefficient = coefficient_of(info.kind, config);
    if (!coefficient) continue;
    AuxScores& scores = forward.saved.scores;
    if (scores.scores.is_none()) scores = scores_for_aux_loss(input, config);
    const std::int64_t tokens = scores.map.tokens(), experts = scores.map.experts();
    const std::int64_t batch = info.by_sequence ? input.batch_size : 1;
    Communicator& group = info.over_data_parallel ? *groups.tp_dp_cp : *groups.tp_cp;
    const TokenCounts counts =
        counts_of(scores.map, batch, !input.padding.empty(), config, group, scores.scores.device());
    const DType dtype = scores.scores.dtype();
    const Tensor tokens_per_expert = info.kind == AuxLossKind::global_aux_loss
                                         ? running_mean(global_tokens, counts.tokens_per_expert, dtype)
                                         : cast(counts.tokens_per_expert, dtype);
    const Ratio mean = {coefficient->numerator, coefficient->denominator * batch};
    BalanceLoss loss =
        switch_load_balancing_loss(scores.scores.reshaped({tokens / batch, batch * experts}),
                                   tokens_per_expert, counts.total_tokens, config.topk, experts, mean);
    const Tensor logged = scale(loss.loss, {coefficient->denominator, coefficient->numerator});
    if (config.per_token_loss) {
      const Ratio local = {counts.local_tokens.numerator * groups.tp_cp->size(),
                           counts.local_tokens.denominator};
      loss = {scale(loss.loss, local), scale(loss.slopes, local)};
    }
    forward.losses.push_back({info.name, loss.loss, logged, &group});
    const Tensor grad = repeated_rows(loss.slopes, tokens / batch).reshaped({tokens, experts});
    Tensor& sum = forward.saved.grad_scores;
    sum = sum.is_none() ? grad : add(sum, grad);
  }
  return forward;
}

void add_aux_losses_backward(const AuxLossesSaved& saved, Ratio scale_of_loss, Tensor& grad_logits) {
  if (saved.grad_scores.is_none()) return;
  const Tensor grad_scores = scale(saved.grad_scores, scale_of_loss);
  const Tensor grad = scores_for_aux_loss_backward(saved.function, saved.scores, grad_scores);
  add_to(grad_logits, cast(grad, grad_logits.dtype()));
}

}  // namespace sim
