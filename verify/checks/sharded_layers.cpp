#include "verify/checks/sharded_layers.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case_list.h"
#include "verify/checks/parameter_count.h"
#include "verify/explain/explanation.h"
#include "verify/output/phrases.h"
#include "verify/properties/bench.h"
#include "verify/requests/model_options.h"

namespace verify {

namespace {

constexpr int kMostTensorParallel = 16;
constexpr int kMostDataParallel = 64;
/// The number of shapes that are drawn for each case and dtype.
constexpr std::uint64_t kShapes = 2;

int reduced_tp(const sim::Layout& layout) { return std::min(layout.tp, kMostTensorParallel); }
int reduced_dp(const sim::Layout& layout) { return std::min(layout.dp * layout.cp, kMostDataParallel); }

/// Returns the traits of the scenario from which the dimensions of cases are set.
ScenarioTraits traits_of(const ScenarioRequest& request) {
  const sim::Layout& layout = request.layout;
  const std::optional<sim::CpCommType> kind = kind_of_all_layers(request.model.config.cp_comm_types);
  ScenarioTraits traits{
      .tensor_parallel = layout.tp,
      .tp = reduced_tp(layout),
      .context_parallel = layout.cp,
      .cp_comm_type = layout.cp > 1 && kind ? std::optional(static_cast<std::int64_t>(*kind)) : std::nullopt,
      .pipeline_parallel = layout.pp,
      .expert_parallel = layout.ep,
      .expert_tensor_parallel = layout.etp,
      .optimizer_instances = layout.instances,
      .is_interleaved = request.pipeline.virtual_pipeline_model_parallel_size.has_value(),
      .model = request.model.config};
  sim::GptConfig& model = traits.model;
  if (model.num_attention_heads == 0) model.num_attention_heads = layout.tp;
  if (model.num_query_groups == 0) model.num_query_groups = model.num_attention_heads;
  return traits;
}

int ranks_of(const Case& the_case, const sim::Layout& layout) {
  switch (the_case.ranks()) {
    case Ranks::tensor_parallel:
      return reduced_tp(layout);
    case Ranks::data_parallel:
      return reduced_dp(layout);
    case Ranks::world:
      break;
  }
  return std::min(layout.tp, kMostOfAxis) * std::min(layout.pp, kMostOfAxis) *
         std::min(layout.dp * layout.cp, kMostOfAxis);
}

CaseSetting reduced_setting(const Case& the_case, const ScenarioRequest& request,
                            const ScenarioTraits& traits, sim::DType dtype, std::uint64_t shape) {
  const sim::Layout& layout = request.layout;
  const bool is_tensor_parallel = the_case.ranks() == Ranks::tensor_parallel;
  const bool has_replicas = layout.grid_size / layout.tp > 1 && is_tensor_parallel;
  CaseSetting setting{.group_size = ranks_of(the_case, layout),
                      .replicas = has_replicas ? 2 : 1,
                      .ranks = the_case.ranks(),
                      .dtype = dtype,
                      .seed = request.cases.seed + shape};
  const sim::KeyedRandom random = sim::KeyedRandom(setting.seed).named(the_case.name());
  std::uint64_t drawn = 0;
  for (const Dimension& d : the_case.dimensions()) {
    const auto choices = static_cast<std::uint32_t>(d.most - d.least + 1);
    const std::int64_t size = d.least + random.below(drawn++, choices);
    const auto given = d.at == nullptr ? std::nullopt : d.at(traits);
    setting.dimensions[d.name] = given.value_or(size);
  }
  return setting;
}

/// Returns the cases, properties and dtypes to check: those that the scenario names, or else the defaults
/// for its model.
CampaignRequest requested(const ScenarioRequest& scenario) {
  CampaignRequest request = requested_campaign(scenario.cases, all_cases());
  if (scenario.cases.dtypes.empty()) request.dtypes = {sim::DType::field};
  if (scenario.cases.properties.empty()) {
    std::erase_if(request.properties,
                  [](const Property* p) { return std::strcmp(p->name, "schedules") == 0; });
  }
  if (scenario.cases.cases.empty() && scenario.model.config.untie_embeddings_and_output_weights) {
    std::erase_if(request.cases, [](const Case* c) { return c->name() == "tied_embedding"; });
  }
  return request;
}

/// Returns the parallel sizes with which a case runs.
sim::ParallelSizes sizes_of(const char* name, const ScenarioRequest& request, const ScenarioTraits& traits) {
  const Case& the_case = *find_case(name);
  CaseSetting setting = reduced_setting(the_case, request, traits, sim::DType::field, 0);
  if (setting.dimensions.contains("distributed")) setting.dimensions["distributed"] = 1;
  return the_case.sizes(setting);
}

std::string text_of_world(const ScenarioRequest& request, const ScenarioTraits& traits) {
  const sim::Layout& layout = request.layout;
  std::string text = reduced_size("tp", reduced_tp(layout), layout.tp) + ", " +
                     reduced_size(layout.cp > 1 ? "dp-cp" : "dp", reduced_dp(layout), layout.dp * layout.cp);
  if (layout.cp > 1) {
    const sim::ParallelSizes attention = sizes_of("cp_attention", request, traits);
    text += ", " + reduced_size("cp", static_cast<int>(attention.context_parallel_size), layout.cp);
  }
  const sim::ParallelSizes trained = sizes_of("distributed_optimizer", request, traits);
  const auto instances = static_cast<int>(trained.num_distributed_optimizer_instances);
  if (layout.ep > 1)
    text += ", " + reduced_size("ep", static_cast<int>(trained.expert_model_parallel_size), layout.ep);
  if (layout.instances > 1) text += ", " + reduced_size("optimizer instances", instances, layout.instances);
  if (request.model.config.sequence_parallel && layout.tp > 1) text += ", sequence parallel";
  return text;
}

/// The result of one property over all cases.
struct Row {
  const Property* property;
  std::int64_t cases = 0;
  const Case* last = nullptr;
  std::string failure;  // the first failure; empty where all cases hold
  std::string reproduce = {};
  double slack = 0;  // the largest error, as a share of its bound
};

std::string name_of(const Property& property) { return fmt::format("sharded {}", property.name); }

/// A setting that the properties judge one after the other.
struct Judged {
  const Case* the_case;
  CaseSetting setting;
  ProvedSettings::Slacks slacks = std::nullopt;
};

std::vector<Judged> judged_settings(const CampaignRequest& request, const ScenarioRequest& scenario,
                                    const ScenarioTraits& traits) {
  std::vector<Judged> all;
  for (const Case* the_case : request.cases) {
    for (const sim::DType dtype : request.dtypes) {
      for (std::uint64_t shape = 0; shape < kShapes; ++shape)
        all.push_back({the_case, reduced_setting(*the_case, scenario, traits, dtype, shape)});
    }
  }
  return all;
}

using BeforeJudgement = std::function<void(const std::string& row)>;

/// Proves settings that no other scenario of the replay has proved. Those that another thread proves at the
/// moment are left for the end.
void prove_once(std::vector<Judged>& all, const std::vector<const Property*>& properties, Bench& bench,
                ProvedSettings& proved, const BeforeJudgement& before_judgement) {
  const auto judging = [&](const Judged& one) {
    std::vector<const Property*> judging_it;
    std::copy_if(properties.begin(), properties.end(), std::back_inserter(judging_it),
                 [&](const Property* p) { return p->judges(*one.the_case, one.setting.dtype); });
    return judging_it;
  };
  const auto key_of = [&](const Judged& one) {
    std::string key = fmt::format("{}, {}:", one.the_case->name(), text_of(one.setting));
    for (const Property* property : judging(one)) key += fmt::format(" {}", property->name);
    return key;
  };
  const auto slacks_of = [&](const Judged& one) {
    std::vector<double> slacks;
    for (const Property* property : judging(one)) {
      const Judgement judgement = property->judge(bench, *one.the_case, one.setting);
      if (!judgement.holds) return ProvedSettings::Slacks();
      slacks.push_back(judgement.slack);
    }
    return ProvedSettings::Slacks(std::move(slacks));
  };
  std::vector<Judged*> begun_by_others;
  for (Judged& one : all) {
    for (const Property* property : judging(one)) before_judgement(name_of(*property));
    auto slacks = proved.layers.get_unless_begun(key_of(one), [&] { return slacks_of(one); });
    if (slacks) {
      one.slacks = *std::move(slacks);
    } else {
      begun_by_others.push_back(&one);
    }
  }
  for (Judged* one : begun_by_others)
    one->slacks = proved.layers.get(key_of(*one), [&] { return slacks_of(*one); });
}

void judge(Bench& bench, const Case& the_case, const CaseSetting& setting, Row& row) {
  const Judgement judgement = row.property->judge(bench, the_case, setting);
  row.slack = std::max(row.slack, judgement.slack);
  if (judgement.holds) return;
  const NamedValues options = with_plants(options_of(the_case, *row.property, setting), bench.faults());
  row.failure = fmt::format("{}, {}: {}. {}", the_case.name(), text_of(setting), judgement.detail,
                            explanation(bench, the_case, *row.property, setting));
  row.reproduce = command_line_of(options);
}

/// Returns a phrase about the values that the loss sends per token, from the closed form that the property
/// "calls" has confirmed. It is empty without a vocabulary, or at tp 1.
std::string loss_traffic(const Case& loss, std::int64_t vocabulary, int tp) {
  if (vocabulary == 0 || tp == 1) return "";
  CaseSetting setting{.group_size = tp};
  setting.dimensions = {{"tokens", 1}, {"vocabulary", 1}, {"padding", 0}, {"ignored", 1}, {"smoothing", 0}};
  std::int64_t values = 0;
  for (const ExpectedCall& call : loss.calls(setting)) values += call.elements;
  return fmt::format("; the loss moves {} values per token, where gathered logits would be {}", values,
                     vocabulary);
}

CheckResult result_of(const Row& row, const std::string& world) {
  const std::string slack = row.slack > 0 ? fmt::format("; worst slack {:.3g}", row.slack) : "";
  return {name_of(*row.property), row.failure.empty(),
          row.failure.empty()
              ? fmt::format("{} at {}: {}{}", counted(row.cases, "case"), world, row.property->proves, slack)
              : row.failure,
          row.reproduce};
}

std::vector<CheckResult> results_of(const std::vector<Row>& rows, const CampaignRequest& request,
                                    const ScenarioRequest& scenario, const ScenarioTraits& traits) {
  const Case& loss = *find_case("vocab_parallel_cross_entropy");
  const bool has_loss = std::ranges::find(request.cases, &loss) != request.cases.end();
  std::vector<CheckResult> results;
  for (const Row& row : rows) {
    if (row.cases == 0) continue;
    results.push_back(result_of(row, text_of_world(scenario, traits)));
    const bool is_calls = std::strcmp(row.property->name, "calls") == 0;
    if (is_calls && has_loss && row.failure.empty())
      results.back().detail += loss_traffic(loss, scenario.model.config.vocab_size, scenario.layout.tp);
  }
  if (results.empty()) refuse_nothing_to_check();
  return results;
}

}  // namespace

std::size_t sharded_judgements(const ScenarioRequest& scenario) {
  const CampaignRequest request = requested(scenario);
  std::size_t judgements = 0;
  for (const Case* the_case : request.cases) {
    for (const sim::DType dtype : request.dtypes) {
      for (const Property* property : request.properties)
        judgements += property->judges(*the_case, dtype) ? kShapes : 0;
    }
  }
  return judgements;
}

std::vector<CheckResult> check_sharded_layers(const ScenarioRequest& scenario, Bench& bench,
                                              ProvedSettings& proved,
                                              const BeforeJudgement& before_judgement) {
  const CampaignRequest request = requested(scenario);
  const ScenarioTraits traits = traits_of(scenario);
  std::vector<Row> rows;
  for (const Property* property : request.properties) rows.push_back({.property = property});
  std::vector<Judged> settings = judged_settings(request, scenario, traits);
  const bool is_shared = bench.faults().empty();
  if (is_shared) prove_once(settings, request.properties, bench, proved, before_judgement);
  for (const auto& [the_case, setting, slacks] : settings) {
    std::size_t judgement = 0;
    for (Row& row : rows) {
      if (!row.property->judges(*the_case, setting.dtype)) continue;
      if (std::exchange(row.last, the_case) != the_case) ++row.cases;
      const std::size_t own = judgement++;
      if (!row.failure.empty()) continue;
      if (slacks) {
        row.slack = std::max(row.slack, (*slacks)[own]);
        continue;
      }
      if (!is_shared) before_judgement(name_of(*row.property));
      judge(bench, *the_case, setting, row);
    }
  }
  return results_of(rows, request, scenario, traits);
}

}  // namespace verify
