#include "verify/megatron_rules/effective_values.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/layout/layer_placement.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify {

namespace {

constexpr std::string_view kEffectiveValues =
#include "effective_values.tsv.inc"
    ;

/// Returns a value as its kind has it: absent where it is none of that kind.
RuleValue of_kind(const std::string& kind, const RuleValue& value) {
  if (kind == "flag") return truth_of(value) == true;
  if (kind == "text") {
    const std::string text = text_of(value).value_or("");
    return text.empty() ? RuleValue(Absent{}) : RuleValue(text);
  }
  if (kind == "number" || kind == "decimal") {
    const std::optional<double> number = number_of(value);
    const bool is_known = number && (kind == "decimal" || *number == std::floor(*number));
    return is_known ? RuleValue(*number) : RuleValue(Absent{});
  }
  std::vector<std::string> words = words_of(value);
  return words.empty() ? RuleValue(Absent{}) : RuleValue(std::move(words));
}

/// Returns a value of its kind in JSON.
Json json_of(const std::string& kind, const RuleValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  if (const double* number = std::get_if<double>(&value))
    return kind == "decimal" ? Json(*number) : Json(static_cast<std::int64_t>(*number));
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  if (words == nullptr) return {};
  if (kind == "kinds" && words->size() == 1) return words->front();
  Json list = Json::array();
  for (const std::string& word : *words) {
    const auto number = kind == "numbers" ? whole_number(word) : std::nullopt;
    if (number || kind != "numbers") list.push_back(number ? Json(*number) : Json(word));
  }
  return list.empty() ? Json() : list;
}

using LayersOfRanks = std::vector<std::vector<std::int64_t>>;

/// Deals segments out to the ranks in turn.
LayersOfRanks dealt_segments(const std::vector<std::string>& segments, std::size_t ranks) {
  if (segments.size() % ranks != 0) return {};
  LayersOfRanks layers(ranks);
  for (std::size_t i = 0; i < segments.size(); ++i) layers[i % ranks].push_back(std::ssize(segments[i]));
  return layers;
}

/// The layers of each chunk of each pipeline rank; none where they cannot be placed. Segments of a hybrid
/// pattern go to the chunks in turn. A pattern of one segment is cut evenly, or as the numbers of layers at
/// its ends say.
LayersOfRanks layers_of_chunks(const RuleFacts& run) {
  const std::int64_t ranks = run.number("pipeline-model-parallel-size").value_or(1);
  const HybridPattern pattern =
      parse_hybrid_pattern(run.text("hybrid-layer-pattern", run.text("hybrid-override-pattern")));
  const bool is_hybrid = !pattern.segments.empty();
  if (ranks < 1 || (is_hybrid && ranks > pattern.layers())) return {};
  if (pattern.segments.size() > 1) return dealt_segments(pattern.segments, static_cast<std::size_t>(ranks));
  const auto whole = [&](const char* name) -> std::optional<std::int64_t> {
    const std::optional<double> value = number_of(run.derived(name));
    return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
  };
  sim::LayerRequest request;
  request.num_layers = is_hybrid ? pattern.layers() : whole("num_layers").value_or(0);
  request.pipeline_model_parallel_size = ranks;
  request.num_layers_in_first_pipeline_stage = run.number("decoder-first-pipeline-num-layers");
  request.num_layers_in_last_pipeline_stage = run.number("decoder-last-pipeline-num-layers");
  if (request.num_layers < 1) return {};
  LayersOfRanks placed;
  try {
    if (!is_hybrid) {
      request.account_for_embedding_in_pipeline_split = run.flag("account-for-embedding-in-pipeline-split");
      request.account_for_loss_in_pipeline_split = run.flag("account-for-loss-in-pipeline-split");
      request.mtp_num_layers = run.number("mtp-num-layers").value_or(0);
      if (run.flag("pipeline-model-parallel-layout"))
        request.pipeline_model_parallel_layout = layout_string(run.text("pipeline-model-parallel-layout"));
      else
        request.virtual_pipeline_model_parallel_size = whole("vpp");
    }
    for (const auto& stages : sim::place_layers(request).stages) {
      placed.emplace_back();
      for (const sim::StageLayers& stage : stages) placed.back().push_back(stage.count);
    }
  } catch (const sim::Error&) {  // the layers are refused elsewhere
  }
  return placed;
}

Json layers_per_stage(const RuleFacts& run) {
  Json ranks = Json::array();
  for (const std::vector<std::int64_t>& chunks : layers_of_chunks(run)) ranks.push_back(Json(chunks));
  return ranks.empty() ? Json() : ranks;
}

}  // namespace

const std::vector<EffectiveValue>& effective_rows() {
  static const std::vector<EffectiveValue> rows = made_of_rows(kEffectiveValues, [](const TextRow& row) {
    const bool is_computed = row.at(1) == "stages";
    return EffectiveValue{row.at(0), row.at(1),
                          is_computed ? std::nullopt : std::optional<Expression>(row.at(2))};
  });
  return rows;
}

RuleValue effective_value(std::string_view name, const RuleFacts& run) {
  const auto found = std::ranges::find(effective_rows(), name, &EffectiveValue::name);
  if (found == effective_rows().end()) return Unknown{};
  return found->value ? of_kind(found->kind, found->value->value(run)) : RuleValue(Absent{});
}

Json effective_values(const RunValues& values, std::optional<std::int64_t> world_size) {
  const RuleFacts run(values, {}, world_size);
  Json all = Json::object();
  for (const EffectiveValue& row : effective_rows())
    all[row.name] = row.value ? json_of(row.kind, effective_value(row.name, run)) : layers_per_stage(run);
  return all;
}

}  // namespace verify
