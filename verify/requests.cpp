#include "verify/requests.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/layout/legacy_layer_placement.h"
#include "sim/layout/size_rules.h"
#include "verify/nearest_name.h"

namespace verify {

namespace {

std::string requested_order(const Settings& settings) {
  if (!settings.flag("use-tp-pp-dp-mapping")) return settings.text("order", sim::kDefaultOrder);
  const std::string order = settings.text("order", sim::kTpPpDpOrder);
  if (order == sim::kTpPpDpOrder) return order;
  sim::refuse({.code = "order_conflict",
               .option = "--use-tp-pp-dp-mapping",
               .numbers = fmt::format("stands for --order {}, but --order is {}", sim::kTpPpDpOrder, order),
               .rule = "one order for a layout",
               .hint = "keep one of them"});
}

/// Options that only the other rule book reads would be silently without effect: refused.
void refuse_options_of_other_rules(const Settings& settings, const char* rules,
                                   std::initializer_list<const char*> options) {
  for (const char* option : options) {
    if (!settings.has(option) || settings.text(option, "") == "false") continue;
    sim::refuse({.code = "rules_conflict",
                 .option = fmt::format("--{}", option),
                 .numbers = fmt::format("given with --rules {}", rules),
                 .rule = fmt::format("the rule book {} has no such option", rules),
                 .hint = fmt::format("--rules {}, or leave it out",
                                     std::string_view(rules) == "legacy" ? "megatron" : "legacy")});
  }
}

/// Megatron also takes the layout as a list of lists of layer names; written as JSON it becomes the string
/// form.
std::string layout_string(const std::string& text) {
  if (!text.starts_with('[')) return text;
  const auto letter = [&](std::string name) -> char {
    name.erase(std::remove_if(name.begin(), name.end(), [](unsigned char c) { return std::isspace(c); }),
               name.end());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "embedding") return 'E';
    if (name == "decoder") return 't';
    if (name == "mtp") return 'm';
    if (name == "loss") return 'L';
    return '?';  // refused by the layout reader, which names it
  };
  try {
    std::string layout;
    bool first = true;
    for (const auto& stage : nlohmann::json::parse(text)) {
      if (!first) layout += '|';
      first = false;
      for (const auto& name : stage) layout += letter(name.get<std::string>());
    }
    return layout;
  } catch (const nlohmann::json::exception& error) {
    sim::refuse({.code = "layout_syntax",
                 .option = "--pipeline-model-parallel-layout",
                 .numbers = error.what(),
                 .rule = "a layout in list form is JSON: a list of stages, each a list of layer names",
                 .hint = R"('[["embedding","decoder"],["decoder","loss"]]')"});
  }
}

sim::LegacyLayerRequest legacy_layer_request(const Settings& settings, std::int64_t pp) {
  refuse_options_of_other_rules(
      settings, "legacy",
      {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
       "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
       "pipeline-model-parallel-layout", "mtp-num-layers"});
  return {.num_layers = required_number(settings, "num-layers"),
          .pipeline_model_parallel_size = pp,
          .virtual_pipeline_model_parallel_size = settings.number("virtual-pipeline-model-parallel-size"),
          .pipeline_model_parallel_split_rank = settings.number("pipeline-model-parallel-split-rank"),
          .standalone_embedding_stage = settings.flag("standalone-embedding-stage"),
          .encoder_and_decoder = settings.flag("encoder-and-decoder")};
}

sim::LayerRequest layer_request(const Settings& settings, std::int64_t pp) {
  refuse_options_of_other_rules(
      settings, "megatron",
      {"standalone-embedding-stage", "encoder-and-decoder", "pipeline-model-parallel-split-rank"});
  return {
      .num_layers = required_number(settings, "num-layers"),
      .pipeline_model_parallel_size = pp,
      .virtual_pipeline_model_parallel_size = settings.number("virtual-pipeline-model-parallel-size"),
      .num_layers_in_first_pipeline_stage = settings.number("decoder-first-pipeline-num-layers"),
      .num_layers_in_last_pipeline_stage = settings.number("decoder-last-pipeline-num-layers"),
      .account_for_embedding_in_pipeline_split = settings.flag("account-for-embedding-in-pipeline-split"),
      .account_for_loss_in_pipeline_split = settings.flag("account-for-loss-in-pipeline-split"),
      .pipeline_model_parallel_layout = layout_string(settings.text("pipeline-model-parallel-layout", "")),
      .mtp_num_layers = settings.number("mtp-num-layers").value_or(0)};
}

}  // namespace

std::string choice(const Settings& settings, const std::string& name,
                   const std::vector<std::string>& choices) {
  const std::string value = settings.text(name, choices.front());
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  const std::string nearest = nearest_name(value, choices);
  sim::refuse({.code = "bad_choice",
               .option = "--" + name,
               .numbers = fmt::format("'{}'", value),
               .rule = fmt::format("one of {}", fmt::join(choices, ", ")),
               .hint = fmt::format("--{} {}", name, nearest.empty() ? choices.front() : nearest)});
}

std::int64_t required_number(const Settings& settings, const std::string& name) {
  if (const auto value = settings.number(name)) return *value;
  sim::refuse({.code = "missing_option",
               .option = "--" + name,
               .numbers = "not given",
               .rule = "needed here, on the command line or in the scenario",
               .hint = fmt::format("--{} 16", name)});
}

sim::RuleBook rule_book(const Settings& settings) {
  return choice(settings, "rules", {"megatron", "legacy"}) == "legacy" ? sim::RuleBook::legacy
                                                                       : sim::RuleBook::megatron;
}

sim::ParallelSizes parallel_sizes(const Settings& settings) {
  return {.world_size = required_number(settings, "world-size"),
          .local_world_size = settings.number("local-world-size"),
          .rank_offset = settings.number("rank-offset").value_or(0),
          .tensor_model_parallel_size = settings.number("tensor-model-parallel-size").value_or(1),
          .pipeline_model_parallel_size = settings.number("pipeline-model-parallel-size").value_or(1),
          .virtual_pipeline_model_parallel_size = settings.number("virtual-pipeline-model-parallel-size"),
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
  return sim::make_layout(parallel_sizes(settings), rule_book(settings));
}

sim::LayerPlacement requested_placement(const Settings& settings) {
  const std::int64_t pp = settings.has("world-size")
                              ? requested_layout(settings).pp
                              : settings.number("pipeline-model-parallel-size").value_or(1);
  if (rule_book(settings) == sim::RuleBook::legacy) {
    return sim::place_legacy_layers(legacy_layer_request(settings, pp));
  }
  return sim::place_layers(layer_request(settings, pp));
}

sim::NodePlacement node_placement(const Settings& settings) {
  const std::int64_t gpus = settings.number("gpus-per-node").value_or(8);
  sim::check_size("--gpus-per-node", gpus);
  return {static_cast<int>(gpus)};
}

}  // namespace verify
