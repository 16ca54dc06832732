#include "verify/requests/requests.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/layout/legacy_layer_placement.h"
#include "sim/layout/size_rules.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

constexpr const char* kChunks = "--virtual-pipeline-model-parallel-size";
constexpr const char* kStages = "--num-virtual-stages-per-pipeline-rank";
constexpr const char* kMicrobatches = "--num-microbatches";
constexpr const char* kBatch = "--global-batch-size";

/// Returns the option that gives the chunks in place of their number; "" where none does.
std::string option_of_chunks(const Settings& settings) {
  const auto is_given = [&](const std::string& option) { return settings.has(option.substr(2)); };
  if (is_given(kChunks)) return "";
  for (const char* option :
       {kStages, "--num-layers-per-virtual-pipeline-stage", "--pipeline-model-parallel-layout"})
    if (is_given(option)) return option;
  return "";
}

void name_chunks(const std::string& given, sim::Refusal& refusal) {
  if (refusal.option == kChunks) refusal.option = given;
  if (!refusal.to_try || refusal.to_try->option != kChunks) return;
  refusal.to_try->option = given;
  if (given != kStages) refusal.to_try->size.reset();
}

void name_mapping(bool has_order, sim::Refusal& refusal) {
  if (refusal.option != "--order") return;
  refusal.option = "--use-tp-pp-dp-mapping";
  refusal.hint = fmt::format("leave --use-tp-pp-dp-mapping{} out", has_order ? " and --order" : "");
}

void name_batch(std::int64_t round, sim::Refusal& refusal) {
  if (refusal.option == kMicrobatches) {
    refusal.option = kBatch;
    refusal.numbers += fmt::format(", in microbatches of {} sequences on all replicas", round);
  }
  if (!refusal.to_try || refusal.to_try->option != kMicrobatches || !refusal.to_try->size) return;
  refusal.to_try = {kBatch, sim::capped_product({*refusal.to_try->size, round})};
}

}  // namespace

sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round) {
  if (const std::string given = option_of_chunks(settings); !given.empty()) name_chunks(given, refusal);
  if (settings.text("use-tp-pp-dp-mapping", "") == "true") name_mapping(settings.has("order"), refusal);
  if (round && settings.has("global-batch-size") && !settings.has("num-microbatches"))
    name_batch(*round, refusal);
  if (refusal.to_try) refusal.hint = sim::text_of(*refusal.to_try);
  return refusal;
}

namespace {

std::string requested_order(const Settings& settings) {
  if (!settings.flag("use-tp-pp-dp-mapping")) return settings.text("order", sim::kDefaultOrder);
  std::string order = settings.text("order", sim::kTpPpDpOrder);
  if (order == sim::kTpPpDpOrder) return order;
  refuse_by("order_conflict", "--use-tp-pp-dp-mapping", sim::kTpPpDpOrder, order);
}

/// Refuses options that only the other rule book reads, because they would silently have no effect.
void refuse_options_of_other_rules(const Settings& settings, sim::RuleBook rules) {
  static const std::vector<const char*> kMegatronOnly = {"use-tp-pp-dp-mapping",
                                                         "decoder-first-pipeline-num-layers",
                                                         "decoder-last-pipeline-num-layers",
                                                         "account-for-embedding-in-pipeline-split",
                                                         "account-for-loss-in-pipeline-split",
                                                         "pipeline-model-parallel-layout",
                                                         "mtp-num-layers",
                                                         "num-experts"};
  static const std::vector<const char*> kLegacyOnly = {"standalone-embedding-stage", "encoder-and-decoder",
                                                       "pipeline-model-parallel-split-rank"};
  const auto is_set = [&](const char* option) {
    const std::string value = settings.text(option, "false");
    return value != "false" && !(option_named(option).kind == OptionKind::count && value == "0");
  };
  const bool legacy = rules == sim::RuleBook::legacy;
  const auto& own = legacy ? kLegacyOnly : kMegatronOnly;
  const char* book = legacy ? "legacy" : "megatron";
  for (const char* option : legacy ? kMegatronOnly : kLegacyOnly) {
    if (!is_set(option)) continue;
    const bool needs_both =
        std::ranges::any_of(own, is_set);  // then the other rule book would refuse as well
    refuse_by("rules_conflict", fmt::format("--{}", option), book,
              needs_both ? "leave it out"
                         : fmt::format("leave it out, or --rules {}", legacy ? "megatron" : "legacy"));
  }
}

std::optional<std::string> requested_layout_string(const Settings& settings) {
  if (!settings.has("pipeline-model-parallel-layout")) return std::nullopt;
  return layout_string(settings.text("pipeline-model-parallel-layout", ""));
}

sim::LegacyLayerRequest legacy_layer_request(const Settings& settings, std::int64_t pp) {
  return {.num_layers = required_number(settings, "num-layers"),
          .pipeline_model_parallel_size = pp,
          .virtual_pipeline_model_parallel_size = virtual_pipeline_size(settings),
          .pipeline_model_parallel_split_rank = settings.number("pipeline-model-parallel-split-rank"),
          .standalone_embedding_stage = settings.flag("standalone-embedding-stage"),
          .encoder_and_decoder = settings.flag("encoder-and-decoder")};
}

sim::RuleBook rule_book(const Settings& settings) {
  const sim::RuleBook rules =
      settings.choice("rules") == "legacy" ? sim::RuleBook::legacy : sim::RuleBook::megatron;
  refuse_options_of_other_rules(settings, rules);
  return rules;
}

}  // namespace

sim::ParallelSizes parallel_sizes(const Settings& settings) {
  return {.world_size = required_number(settings, "world-size"),
          .local_world_size = settings.number("local-world-size"),
          .rank_offset = settings.number("rank-offset").value_or(0),
          .tensor_model_parallel_size = settings.number("tensor-model-parallel-size").value_or(1),
          .pipeline_model_parallel_size = settings.number("pipeline-model-parallel-size").value_or(1),
          .virtual_pipeline_model_parallel_size = virtual_pipeline_size(settings),
          .context_parallel_size = settings.number("context-parallel-size").value_or(1),
          .expert_model_parallel_size = settings.number("expert-model-parallel-size").value_or(1),
          .expert_tensor_parallel_size = settings.number("expert-tensor-parallel-size"),
          .num_distributed_optimizer_instances =
              settings.number("num-distributed-optimizer-instances").value_or(1),
          .hierarchical_context_parallel_sizes = settings.numbers("hierarchical-context-parallel-sizes"),
          .pipeline_model_parallel_split_rank = settings.number("pipeline-model-parallel-split-rank"),
          .order = requested_order(settings)};
}

sim::Layout requested_layout(const Settings& settings) {
  return with_given_options(settings, std::nullopt,
                            [&] { return sim::make_layout(parallel_sizes(settings), rule_book(settings)); });
}

sim::LayerRequest layer_request(const Settings& settings, std::int64_t pp) {
  return {.num_layers = required_number(settings, "num-layers"),
          .pipeline_model_parallel_size = pp,
          .virtual_pipeline_model_parallel_size = virtual_pipeline_size(settings),
          .num_layers_in_first_pipeline_stage = settings.number("decoder-first-pipeline-num-layers"),
          .num_layers_in_last_pipeline_stage = settings.number("decoder-last-pipeline-num-layers"),
          .account_for_embedding_in_pipeline_split = settings.flag("account-for-embedding-in-pipeline-split"),
          .account_for_loss_in_pipeline_split = settings.flag("account-for-loss-in-pipeline-split"),
          .pipeline_model_parallel_layout = requested_layout_string(settings),
          .mtp_num_layers = settings.number("mtp-num-layers").value_or(0)};
}

sim::LayerPlacement requested_placement(const Settings& settings, std::int64_t pipeline_ranks) {
  return with_given_options(settings, std::nullopt, [&] {
    return rule_book(settings) == sim::RuleBook::legacy
               ? sim::place_legacy_layers(legacy_layer_request(settings, pipeline_ranks))
               : sim::place_layers(layer_request(settings, pipeline_ranks));
  });
}

sim::NodePlacement node_placement(const Settings& settings) {
  sim::NodePlacement placement;
  if (const auto given = settings.number("gpus-per-node")) placement.gpus_per_node = static_cast<int>(*given);
  return placement;
}

namespace {

sim::SchedulePolicy schedule_policy(const std::string& word) {
  if (word == "uniform") return sim::SchedulePolicy::uniform;
  return word == "pct" ? sim::SchedulePolicy::pct : sim::SchedulePolicy::round_robin;
}

sim::ReductionOrderKind reduction_order(const std::string& word) {
  if (word == "nccl_ring") return sim::ReductionOrderKind::nccl_ring;
  return word == "shuffled" ? sim::ReductionOrderKind::shuffled : sim::ReductionOrderKind::rank_order;
}

}  // namespace

sim::WorldSpec requested_world(const Settings& settings, const sim::Layout& layout) {
  const auto seed = static_cast<std::uint64_t>(settings.number("schedule-seed").value_or(0));
  sim::WorldSpec spec{.layout = layout, .nodes = node_placement(settings)};
  spec.schedule = {
      .policy = schedule_policy(settings.choice_among("schedule", option_named("schedule").choices)),
      .seed = seed,
      .depth = static_cast<int>(settings.number("pct-depth").value_or(3))};
  spec.threads = static_cast<int>(settings.number("threads").value_or(1));
  spec.contexts =
      settings.choice("ranks-as") == "threads" ? sim::ContextKind::thread : sim::ContextKind::fiber;
  spec.reduction_order = {.kind = reduction_order(settings.choice("reduction-order")), .seed = seed};
  spec.eager_bytes = settings.number("eager-bytes").value_or(0);
  spec.stack_bytes = static_cast<std::size_t>(
      settings.number("stack-bytes").value_or(static_cast<std::int64_t>(sim::kDefaultStackBytes)));
  sim::check(spec);
  return spec;
}

}  // namespace verify
