#include "verify/checks/trained_experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <string_view>

#include "verify/cases/case_setting.h"
#include "verify/cases/gpt_plan.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::int64_t kMostLocalExperts = 2;

/// The dimension `balance` of the first loss that has a coefficient.
std::int64_t balance_of(const sim::GptExperts& experts) {
  using Balance = GptExpertsPlan::Balance;
  const auto loss = std::ranges::find_if(experts.aux_losses, [](const sim::AuxLoss& of_experts) {
    return of_experts.coefficient.numerator > 0;
  });
  if (loss != experts.aux_losses.end())
    return static_cast<std::int64_t>(Balance::aux_loss) + static_cast<std::int64_t>(loss->kind);
  return static_cast<std::int64_t>(experts.z_loss_coefficient ? Balance::z_loss : Balance::none);
}

/// The number of experts; two of each rank where the scenario does not give it.
std::int64_t number_of(const ScenarioRequest& request) {
  const std::int64_t given = request.model.config.experts.num_experts;
  return given > 0 ? given : kMostLocalExperts * request.layout.ep;
}

std::int64_t shared_of(const sim::GptExperts& experts) {
  if (experts.shared_expert_intermediate_size == 0) return 0;
  return experts.shared_expert_gate ? 2 : 1;
}

/// Limits the choice to groups: as many as cut the reduced experts, up to the scenario's own number, of which
/// the same share survives. The experts of a token are then as many of each surviving group.
void add_groups(const sim::GptExperts& experts, std::int64_t number, Dimensions& dimensions) {
  const auto& [own_groups, own_survivors] = std::pair(experts.routing.num_groups, experts.routing.group_topk);
  if (own_groups == 0) return;
  const int groups = largest_divisor(number, own_groups);
  if (groups == 1) return;
  const std::int64_t survivors = std::max<std::int64_t>(1, groups * own_survivors / own_groups);
  dimensions["router_groups"] = groups;
  dimensions["router_group_topk"] = survivors;
  dimensions["topk"] = std::max(survivors, dimensions["topk"] / survivors * survivors);
}

/// The largest capacity factor that has an effect: with it an expert may keep all tokens of a rank.
double largest_factor(const GptExpertsPlan& experts) {
  return static_cast<double>(experts.number()) / static_cast<double>(experts.topk());
}

/// Gives the experts their capacity. A factor above the largest one for the reduced experts is that one.
void add_capacity(const sim::GptExperts& experts, CaseSetting& setting) {
  if (!experts.token_dropping) return;
  const sim::TokenDroppingConfig& own = *experts.token_dropping;
  constexpr double kMillion = static_cast<double>(GptExpertsPlan::kMillion);
  const double most = std::floor(largest_factor(GptPlan{setting}.experts()) * kMillion);
  auto& dimensions = setting.dimensions;
  dimensions["dropping"] = own.drop_policy == sim::DropPolicy::probs ? 1 : 2;
  dimensions["padded"] = own.pad_to_capacity ? 1 : 0;
  dimensions["capacity_millionths"] =
      static_cast<std::int64_t>(std::clamp(std::round(own.capacity_factor * kMillion), 1.0, most));
}

/// Returns the capacity factor as text, such as ", capacity 2 for 8"; "" without a capacity.
std::string text_of_capacity(const sim::GptExperts& own, const GptExpertsPlan& experts) {
  if (!experts.has_capacity()) return "";
  const double factor = experts.capacity_factor(), whole = own.token_dropping->capacity_factor;
  return fmt::format(", capacity {}", factor) + (factor == whole ? "" : fmt::format(" for {}", whole));
}

}  // namespace

bool trains_experts(const ScenarioRequest& request) {
  return request.model.config.experts.num_experts > 0 || request.layout.ep > 1;
}

void add_experts(const ScenarioRequest& request, CaseSetting& setting) {
  if (!trains_experts(request)) return;
  const sim::GptExperts& experts = request.model.config.experts;
  const sim::ScoreFunction function = experts.routing.score_function;
  const std::int64_t ep = request.layout.ep;
  const std::int64_t local = std::clamp<std::int64_t>(number_of(request) / ep, 1, kMostLocalExperts);
  auto& dimensions = setting.dimensions;
  dimensions.insert({{"ep", ep},
                     {"etp", request.layout.etp},
                     {"local_experts", local},
                     {"topk", 1},
                     {"dispatcher", static_cast<std::int64_t>(experts.dispatcher)},
                     {"dense_layers", experts.moe_layer_freq.leaves_layers_out() ? 1 : 0},
                     {"sigmoid", function == sim::ScoreFunction::softmax ? 0 : 1},
                     {"sqrtsoftplus", function == sim::ScoreFunction::sqrtsoftplus ? 1 : 0},
                     {"biased", experts.expert_bias ? 1 : 0},
                     {"pre_softmax", experts.routing.pre_softmax ? 1 : 0},
                     {"scaling_numerator", experts.routing.scaling_factor.numerator},
                     {"scaling_denominator", experts.routing.scaling_factor.denominator},
                     {"shared", shared_of(experts)},
                     {"balance", balance_of(experts)}});
  const std::int64_t number = GptPlan{setting}.experts().number();
  dimensions["topk"] = std::clamp<std::int64_t>(number / 2, 1, experts.routing.topk);
  add_groups(experts, number, dimensions);
  add_capacity(experts, setting);
}

const char* case_of_training(const CaseSetting& setting) {
  if (setting.fixed("cp", 1) > 1) return "cp_training";
  return GptPlan{setting}.has_experts() ? "moe_training" : "gpt_training";
}

std::string text_of_experts(const ScenarioRequest& request, const CaseSetting& setting) {
  const GptPlan plan{setting};
  if (!plan.has_experts()) return "";
  const GptExpertsPlan experts = plan.experts();
  const sim::GptExperts& own = request.model.config.experts;
  const std::string groups = experts.router_groups() == 0
                                 ? ""
                                 : ", " + reduced_size("groups", static_cast<int>(experts.router_groups()),
                                                       static_cast<int>(own.routing.num_groups));
  return fmt::format(
      "; {}, {}, {}, {}{}{}", reduced_size("ep", experts.ep(), request.layout.ep),
      reduced_size("etp", experts.etp(), request.layout.etp),
      reduced_size("experts", static_cast<int>(experts.number()), static_cast<int>(number_of(request))),
      reduced_size("top", static_cast<int>(experts.topk()), static_cast<int>(own.routing.topk)), groups,
      text_of_capacity(own, experts));
}

std::vector<std::string> left_out_of_training(const ScenarioRequest& request, const CaseSetting& setting) {
  const sim::GptExperts& experts = request.model.config.experts;
  const bool are_there = trains_experts(request);
  const auto balances_by = [&](const char* type) {
    const std::vector<std::string>& types = request.model.load_balancing_types;
    return are_there && std::ranges::find(types, type) != types.end();
  };
  const bool has_groups = GptPlan{setting}.has_experts() && GptPlan{setting}.experts().router_groups() > 0;
  const std::array<std::pair<bool, const char*>, 5> all = {
      {{request.model.config.mtp_num_layers > 0, "prediction of several tokens (MTP)"},
       {are_there && experts.routing.num_groups > 0 && !has_groups, "the choice of experts in groups"},
       {balances_by("sinkhorn"), "the choice of experts by Sinkhorn, in whose place is a plain top-k"},
       {balances_by("quantile_balancing"),
        "the bias of experts by quantiles, in whose place is a plain top-k"},
       {request.layout.instances > 1, "optimizer instances"}}};
  std::vector<std::string> names;
  for (const auto& [is_left_out, name] : all)
    if (is_left_out) names.emplace_back(name);
  names.insert(names.end(), request.not_modelled.begin(), request.not_modelled.end());
  return names;
}

}  // namespace verify
