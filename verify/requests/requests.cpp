#include "verify/requests/requests.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/layout/legacy_layer_placement.h"
#include "sim/layout/size_rules.h"
#include "verify/output/phrases.h"
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
void refuse_options_of_other_rules(const Settings& settings) {
  const std::string rules = settings.choice("rules");
  bool has_own = false;  // then the other rule book would refuse as well
  std::string other;
  for (const OptionInfo& option : option_vocabulary()) {
    const std::string value = settings.text(option.name, "false");
    if (option.rules.empty() || value == "false" || (option.kind == OptionKind::count && value == "0"))
      continue;
    if (option.rules == rules) has_own = true;
    if (option.rules != rules && other.empty()) other = option.name;
  }
  if (other.empty()) return;
  refuse_by("rules_conflict", "--" + other, rules,
            has_own ? "leave it out"
                    : fmt::format("leave it out, or --rules {}", rules == "legacy" ? "megatron" : "legacy"));
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
  refuse_options_of_other_rules(settings);
  return settings.choice("rules") == "legacy" ? sim::RuleBook::legacy : sim::RuleBook::megatron;
}

/// Returns the pipeline ranks that hold the embedding of words or a copy of it, as pretrain_gpt makes embd:
/// the first, the last where the embeddings are tied, and those of multi-token prediction. Empty where no
/// model is given.
std::vector<std::int64_t> embedding_pipeline_ranks(const Settings& settings) {
  const std::int64_t pp = settings.number("pipeline-model-parallel-size").value_or(1);
  const bool is_untied = settings.flag("untie-embeddings-and-output-weights");
  const bool predicts_more = settings.number("mtp-num-layers").value_or(0) > 0;
  const bool has_model = is_untied || predicts_more || settings.has("num-layers");
  if (pp < 2 || pp > sim::kMaxSize || !has_model || settings.choice("rules") == "legacy") return {};
  std::set<std::int64_t> ranks = {0};
  if (!is_untied) ranks.insert(pp - 1);
  if (predicts_more && !settings.has("pipeline-model-parallel-layout")) {
    ranks.insert(pp - 1);
  } else if (predicts_more) {
    const sim::LayerPlacement placement = sim::place_layers(layer_request(settings, pp));
    for (std::size_t rank = 0; rank < placement.stages.size(); ++rank)
      for (const sim::StageLayers& stage : placement.stages[rank])
        if (stage.mtp > 0) ranks.insert(static_cast<std::int64_t>(rank));
  }
  return {ranks.begin(), ranks.end()};
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
          .order = requested_order(settings),
          .embedding_pipeline_ranks = embedding_pipeline_ranks(settings)};
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

namespace {

/// Returns the schedule named `word`; "1f1b" with chunks is the interleaved schedule.
sim::NamedSchedule named_schedule(std::string_view word, bool has_chunks) {
  const std::string_view name = word == "1f1b" && has_chunks ? "interleaved" : word;
  const auto all = sim::all_schedules();
  const auto found = std::ranges::find(all, name, &sim::NamedSchedule::name);
  SIM_CHECK(found != all.end());
  return *found;
}

}  // namespace

sim::PipelineShape pipeline_options(const Settings& settings) {
  return {.virtual_pipeline_model_parallel_size = virtual_pipeline_size(settings),
          .microbatch_group_size_per_virtual_pipeline_stage =
              settings.number("microbatch-group-size-per-virtual-pipeline-stage"),
          .forward_only = settings.flag("forward-only"),
          .overlap_moe_expert_parallel_comm = settings.flag("overlap-moe-expert-parallel-comm")};
}

std::int64_t microbatches_of_batch(const BatchOptions& batch, std::int64_t replicas) {
  const std::int64_t global = *batch.global_batch_size, micro = batch.micro_batch_size;
  if (global % (micro * replicas) == 0) return global / (micro * replicas);
  refuse_by("microbatches_div", "--global-batch-size", global, replicas, micro, micro * replicas);
}

ScheduleRequest training_schedule(sim::PipelineShape shape, std::int64_t ranks, std::int64_t microbatches) {
  shape.pipeline_model_parallel_size = ranks;
  shape.num_microbatches = microbatches;
  sim::check(shape);
  return {named_schedule("1f1b", shape.is_interleaved()), shape, {}};
}

ScheduleRequest requested_schedule(const Settings& settings) {
  const BatchOptions batch = batch_options(settings);
  std::int64_t ranks = settings.number("pipeline-model-parallel-size").value_or(1);
  std::optional<std::int64_t> microbatches = batch.num_microbatches, round;
  if (settings.has("world-size")) {
    const sim::Layout layout = requested_layout(settings);
    ranks = layout.pp;
    round = sim::capped_product({batch.micro_batch_size, layout.dp});
    if (!microbatches && batch.global_batch_size) microbatches = microbatches_of_batch(batch, layout.dp);
  }
  if (!microbatches) microbatches = required_number(settings, "num-microbatches");
  if (settings.has("pipeline-model-parallel-layout") && settings.has("num-layers"))
    requested_placement(settings, ranks);  // refuses a layout that is none
  sim::PipelineShape shape = pipeline_options(settings);
  shape.pipeline_model_parallel_size = ranks;
  shape.num_microbatches = *microbatches;
  with_given_options(settings, round, [&] { sim::check(shape); });
  return {named_schedule(settings.choice_among("schedule",
                                               option_named("schedule").as_read_by(Reader::schedule).choices),
                         shape.is_interleaved()),
          shape,
          {settings.number("forward-cost").value_or(1), settings.number("backward-cost").value_or(1)}};
}

std::string title_of(const ScheduleRequest& request) {
  const sim::PipelineShape& shape = request.shape;
  std::string title =
      fmt::format("{}{}: {}", request.schedule.name, shape.forward_only ? ", forward only" : "",
                  counted(shape.num_microbatches, "microbatch"));
  if (shape.is_interleaved()) title += fmt::format(" in groups of {}", shape.group_size());
  title += fmt::format(" on {}", counted(shape.ranks(), "pipeline rank"));
  if (shape.is_interleaved()) title += fmt::format(" of {}", counted(shape.chunks(), "chunk"));
  return title;
}

}  // namespace verify
