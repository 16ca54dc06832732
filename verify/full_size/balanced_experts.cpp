#include "verify/full_size/balanced_experts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace verify {

namespace {

std::int64_t tokens_of_a_rank(const ScenarioRequest& request) {
  return request.model.config.seq_length / request.layout.cp * request.batch.micro_batch_size /
         request.layout.tp;
}

/// Returns the number of tokens that an expert keeps of a rank's tokens; nothing without a capacity.
std::optional<std::int64_t> capacity_of(const ScenarioRequest& request) {
  const sim::GptExperts& experts = request.model.config.experts;
  if (!experts.token_dropping) return std::nullopt;
  const double even = static_cast<double>(tokens_of_a_rank(request) * experts.routing.topk) /
                      static_cast<double>(experts.num_experts);
  return static_cast<std::int64_t>(std::ceil(even * experts.token_dropping->capacity_factor));
}

/// Whether etp ranks are adjacent in tp-ep, as the dispatchers need it.
bool is_etp_fastest(const sim::Layout& layout) {
  const sim::RankGrid& grid = layout.expert;
  return layout.etp == 1 || layout.ep == 1 || grid.stride(sim::Axis::tp) < grid.stride(sim::Axis::ep);
}

/// Returns why the capacity of experts is not run at full size; "" if it is, or if they have none.
std::string why_no_capacity(const ScenarioRequest& request) {
  const sim::GptExperts& experts = request.model.config.experts;
  if (!experts.token_dropping) return "";
  if (experts.token_dropping->capacity_factor <= 0) return "experts have no capacity";
  if (experts.dispatcher == sim::TokenDispatcherType::flex)
    return "a capacity of experts is not run at full size with the dispatcher flex";
  if (experts.token_dropping->pad_to_capacity && *capacity_of(request) > tokens_of_a_rank(request))
    return "the capacity of an expert is above the number of tokens of a rank";
  return "";
}

}  // namespace

bool has_experts(const ScenarioRequest& request) { return request.model.config.experts.num_experts > 0; }

std::string why_no_experts(const ScenarioRequest& request) {
  const sim::GptExperts& experts = request.model.config.experts;
  const sim::Layout& layout = request.layout;
  if (layout.tp > 1 && !request.model.config.sequence_parallel)
    return "experts with tp above 1 are not run without sequence parallelism";
  if (experts.num_experts % layout.ep != 0 || experts.routing.topk > experts.num_experts)
    return "the experts are not a multiple of ep, or fewer than a token takes";
  if (experts.moe_ffn_hidden_size % layout.etp != 0 ||
      experts.shared_expert_intermediate_size % layout.tp != 0)
    return "the sizes of the experts are not multiples of etp, and of tp for shared ones";
  if (layout.etp > 1 && request.model.config.bias)
    return "experts with biases are not cut over expert-tensor-parallel ranks";
  if (!is_etp_fastest(layout)) return "ranks of an expert-tensor-parallel group are not adjacent";
  return why_no_capacity(request);
}

std::string text_of_choice(const ScenarioRequest& request) {
  if (!has_experts(request)) return "";
  const std::int64_t topk = request.model.config.experts.routing.topk;
  const std::string choice = topk == 1   ? "the expert t"
                             : topk == 2 ? "the experts 2 t and 2 t + 1"
                                         : fmt::format("the experts {} t to {} t + {}", topk, topk, topk - 1);
  return fmt::format("balanced choice: token t of a rank takes {} modulo {}, while a real router is uneven",
                     choice, request.model.config.experts.num_experts);
}

sim::GptExperts full_size_experts(const ScenarioRequest& request) {
  if (!has_experts(request)) return {};
  sim::GptExperts experts = request.model.config.experts;
  experts.routing.force_load_balancing = true;
  experts.routing.num_groups = experts.routing.group_topk = 0;
  if (experts.token_dropping) experts.token_dropping->drop_policy = sim::DropPolicy::position;
  std::vector<std::int64_t>& listed = experts.moe_layer_freq.entries;
  if (!listed.empty()) listed.resize(static_cast<std::size_t>(request.model.config.num_layers));
  return experts;
}

BalancedRows balanced_rows(const ScenarioRequest& request) {
  const sim::GptExperts& experts = request.model.config.experts;
  const std::int64_t number = experts.num_experts, topk = experts.routing.topk;
  const auto ranks = static_cast<std::size_t>(request.layout.ep);
  const std::int64_t local = number / request.layout.ep;
  const std::optional<std::int64_t> capacity = capacity_of(request);
  BalancedRows sent{std::vector<std::int64_t>(ranks), std::vector<std::int64_t>(ranks)};
  if (capacity && experts.token_dropping->pad_to_capacity) {
    sent.rows_to_ep.assign(ranks, local * std::min(*capacity, tokens_of_a_rank(request)));
    return sent;
  }
  std::vector<std::int64_t> of_expert(static_cast<std::size_t>(number)), latest(ranks, -1);
  for (std::int64_t t = 0; t < tokens_of_a_rank(request); ++t) {
    for (std::int64_t choice = t * topk; choice < (t + 1) * topk; ++choice) {
      const auto rank = static_cast<std::size_t>(choice % number / local);
      if (capacity && ++of_expert[static_cast<std::size_t>(choice % number)] > *capacity) continue;
      ++sent.rows_to_ep[rank];
      if (latest[rank] == t) continue;
      latest[rank] = t;
      ++sent.tokens_to_ep[rank];
    }
  }
  return sent;
}

bool BalancedRows::is_even() const {
  const auto all_equal = [](const std::vector<std::int64_t>& counts) {
    return std::ranges::all_of(counts, [&](std::int64_t count) { return count == counts.front(); });
  };
  return all_equal(rows_to_ep) && all_equal(tokens_to_ep);
}

std::int64_t BalancedRows::most_rows() const { return *std::ranges::max_element(rows_to_ep); }

ExpertCalls balanced_dispatch(const ScenarioRequest& request, const BalancedRows& rows, int ep_rank) {
  const sim::GptExperts& experts = request.model.config.experts;
  return {.type = experts.dispatcher,
          .ep = request.layout.ep,
          .etp = request.layout.etp,
          .place = ep_rank * request.layout.etp,
          .tokens = tokens_of_a_rank(request),
          .hidden = request.model.config.hidden_size,
          .experts = experts.num_experts,
          .is_padded = experts.pad_to_capacity(),
          .rows_to_ep = rows.rows_to_ep,
          .tokens_to_ep = rows.tokens_to_ep};
}

std::vector<ExpectedCall> balance_loss_calls(const ScenarioRequest& request) {
  const sim::Layout& layout = request.layout;
  std::vector<ExpectedCall> calls;
  for (const sim::AuxLoss& loss : request.model.config.experts.aux_losses) {
    const bool is_global = loss.kind == sim::AuxLossKind::global_aux_loss;
    const int ranks = layout.tp * layout.cp * (is_global ? layout.dp : 1);
    if (loss.coefficient.numerator == 0 || ranks == 1) continue;
    const std::int64_t sequences =
        loss.kind == sim::AuxLossKind::seq_aux_loss ? request.batch.micro_batch_size : 1;
    calls.push_back({.site = "aux_loss.counts",
                     .operation = sim::Operation::all_reduce,
                     .elements = sequences * request.model.config.experts.num_experts,
                     .dtype = sim::DType::i32,
                     .group = is_global ? "tp-dp-cp" : "tp-cp"});
  }
  return calls;
}

}  // namespace verify
