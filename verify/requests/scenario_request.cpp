#include "verify/requests/scenario_request.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <regex>
#include <stdexcept>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/consumer_traps.h"
#include "sim/layout/kind_table.h"
#include "sim/layout/size_rules.h"
#include "verify/output/json.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requested_run.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

/// The largest grid that replay proves, which takes seconds and about 90 bytes a rank. Larger grids can
/// be shown by `groups`.
constexpr std::int64_t kLargestReplayedGrid = 1 << 20;

/// Refuses options about cases that only check reads, and those that choose a case where a planted program
/// runs instead.
void require_options(const Settings& settings) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.section != kCasesSection || !settings.has(option.name)) continue;
    if (!overlap(option.readers, Reader::replay)) refuse_without_effect(option.name, "replay");
    if (option.needs_virtual_ranks && settings.has("program"))
      refuse_without_effect(option.name, "replay' with '--program");
  }
}

/// Refuses options of the flight recorder where no run is recorded.
void require_recorded_run(const Settings& settings) {
  for (const char* option : {"flight-recorder-format", "flight-recorder-entries"}) {
    if (settings.has(option) && !settings.has("flight-recorder"))
      refuse_without_effect(option, "replay' without '--flight-recorder");
  }
  if (!settings.has("flight-recorder")) return;
  if (settings.flag("layout-only")) refuse_without_effect("flight-recorder", "replay' with '--layout-only");
  if (settings.has("case")) refuse_without_effect("flight-recorder", "replay' with '--case");
}

void require_grid_can_be_replayed(const Settings& settings) {
  const std::int64_t ranks = sim::grid_size(parallel_sizes(settings));
  if (ranks > kLargestReplayedGrid)
    refuse_by("world_too_large_to_replay",
              settings.has("local-world-size") ? "--local-world-size" : "--world-size", ranks,
              kLargestReplayedGrid);
}

/// Refuses microbatches that do not add up to the global batch, where both are given.
void require_microbatches(const BatchOptions& batch, const sim::Layout& layout) {
  if (!batch.num_microbatches || !batch.global_batch_size) return;
  if (sim::capped_product({*batch.num_microbatches, batch.micro_batch_size, layout.dp}) !=
      *batch.global_batch_size)
    refuse_by("microbatches_batch", "--num-microbatches", *batch.num_microbatches, batch.micro_batch_size,
              layout.dp, *batch.global_batch_size);
}

/// The pipeline schedule of a step, or the reason why there is none.
struct StepSchedule {
  std::optional<ScheduleRequest> request;
  std::string missing;
};

StepSchedule step_schedule(const Settings& settings, const BatchOptions& batch,
                           const sim::PipelineShape& pipeline, const sim::Layout& layout) {
  if (layout.pp == 1) return {};
  if (!batch.num_microbatches && !batch.global_batch_size)
    return {.request = {}, .missing = "the scenario gives neither num-microbatches nor global-batch-size"};
  const std::int64_t microbatches =
      batch.num_microbatches ? *batch.num_microbatches : microbatches_of_batch(batch, layout.dp);
  const std::int64_t round = sim::capped_product({batch.micro_batch_size, layout.dp});
  try {
    return with_given_options(settings, round, [&]() -> StepSchedule {
      return {.request = training_schedule(pipeline, layout.pp, microbatches), .missing = {}};
    });
  } catch (const sim::Error& error) {
    if (error.refusal().code != "schedule_size") throw;
    return {.request = {}, .missing = error.what()};
  }
}

/// A bucket has more elements than a size may be.
std::optional<std::int64_t> ddp_bucket_size(const Settings& settings) {
  const auto elements = settings.number("ddp-bucket-size");
  if (elements && *elements < 1) refuse_by("buffer_sizes/ddp", "--ddp-bucket-size", *elements);
  return elements;
}

/// The bytes of an element; none of the states of an optimizer that only a fork knows.
StateBytes state_of(const Scenario& scenario) {
  StateBytes state = state_bytes(scenario.settings);
  const auto is_optimizer = [](const auto& word) { return word.first == "optimizer"; };
  if (std::ranges::none_of(words_of_forks(scenario.run.values), is_optimizer)) return state;
  state.optimizer = state.main = state.copied_gradient = 0;
  state.has_known_optimizer = false;
  state.dtypes += ", without the states of an optimizer that is not known";
  return state;
}

TrainingOptions training_options(const Settings& settings) {
  return {.text = settings.text("text", scenario_folder() + "/training/text.txt"),
          .train_iters = settings.number("train-iters"),
          .eod_mask_loss = settings.flag("eod-mask-loss"),
          .calculate_per_token_loss = settings.flag("calculate-per-token-loss"),
          .recompute = recomputes_layers(settings),
          .ddp_bucket_size = ddp_bucket_size(settings),
          .overlap_grad_reduce = settings.flag("overlap-grad-reduce"),
          .overlap_param_gather = settings.flag("overlap-param-gather")};
}

/// The options that are checked before any work, so that all refusals are reported together.
struct Checked {
  std::optional<sim::Layout> layout;  // present if nothing is refused
  std::optional<sim::LayerPlacement> placement;
  sim::PipelineShape pipeline;
  StepSchedule schedule;
};

/// Keeps what Megatron refuses of a run; or else, that its grid is not modelled.
void keep_refusals_of_run(const Scenario& scenario, Asked asked, sim::Refusals& refusals) {
  const bool is_refused =
      keep_run_refusals(scenario.run, scenario.settings.number("world-size"), asked, refusals);
  if (!is_refused) refusals.keep([&] { require_modelled(scenario.run, Unproved::groups); });
}

Checked checked_options(const Scenario& scenario, Asked asked, const NotProved& not_proved) {
  const Settings& settings = scenario.settings;
  const RunOfFile& run = scenario.run;
  sim::Refusals refusals;
  Checked checked;
  std::optional<sim::Layout>& layout = checked.layout;
  if (verify::not_proved(run.account, Unproved::groups) == nullptr)
    refusals.keep([&] { layout = requested_layout(settings); });
  keep_megatron_refusals(settings, Reader::replay, refusals, run);
  keep_refusals_of_run(scenario, asked, refusals);
  refusals.keep([&] {
    if (settings.has_any_of(kLayersSection) && not_proved.layers.empty())
      checked.placement = requested_placement(
          settings, layout ? layout->pp : settings.number("pipeline-model-parallel-size").value_or(1));
  });
  refusals.keep([&] { checked.pipeline = pipeline_options(settings); });
  refusals.keep([&] { expert_options(settings); });
  refusals.keep([&] { memory_options(settings); });
  if (!run.is_given()) refusals.keep([&] { require_effective_expert_options(settings); });
  if (layout) {
    const BatchOptions batch = batch_options(settings);
    if (batch.global_batch_size) refusals.keep([&] { microbatches_of_batch(batch, layout->dp); });
    refusals.keep([&] { require_microbatches(batch, *layout); });
    refusals.keep([&] { checked.schedule = step_schedule(settings, batch, checked.pipeline, *layout); });
  }
  sim::Refusals with_reason;  // what is not known comes first: the others may follow from it
  if (!refusals.empty()) with_reason.keep([&] { require_known_words(run, option_of_run(settings)); });
  with_reason.keep([&] { refusals.throw_if_any(); });
  with_reason.throw_if_any();
  return checked;
}

/// Returns the warnings of the layout, those about options that are not simulated as Megatron runs them, and
/// those about a run whose arguments Megatron takes.
std::vector<sim::Warning> warnings_about(const Scenario& scenario, const sim::Layout& layout) {
  const Settings& settings = scenario.settings;
  std::vector<sim::Warning> warnings = layout.warnings;
  std::ranges::move(megatron_warnings(settings, scenario.run), std::back_inserter(warnings));
  std::ranges::move(run_warnings(scenario.run), std::back_inserter(warnings));
  if (scenario.run.is_given()) std::ranges::move(context_warnings(settings), std::back_inserter(warnings));
  if (settings.text("moe-token-dispatcher-type", "") == "allgather")
    std::erase_if(warnings, sim::is_about_all_to_all);
  for (const std::string& part : settings.given("not-modelled"))
    warnings.push_back({"not_modelled", fmt::format("the scenario leaves out: {}", part)});
  std::ranges::move(option_warnings(settings, "replay"), std::back_inserter(warnings));
  return warnings;
}

/// Returns why a step fails of a run that Megatron takes; "" where none does.
std::string failure_of_a_step(const Scenario& scenario) {
  const auto broken = megatron_warnings(scenario.settings, scenario.run);
  return broken.empty() ? "" : "a step fails: " + broken.front().message;
}

/// A shape that no step can compute has no parameters that could be counted.
ModelOptions model_of(const Scenario& scenario) {
  ModelOptions model = model_options(scenario.settings);
  if (std::string failure = failure_of_a_step(scenario); !failure.empty()) {
    model.has_shape = false;
    model.no_shape = std::move(failure);
  }
  return model;
}

/// Returns why a model has no training that is proved, as its options say.
std::string training_not_proved(const Settings& settings) {
  if (!settings.flag("multi-latent-attention")) return "";
  if (settings.choice("transformer-impl") == "local")
    return "the projections to latent states of --transformer-impl local are cut over tp, which is not "
           "modelled";
  if (attention_window(settings).size >= 0) return "a window of latent attention is not modelled";
  return "";
}

/// Returns why an argument leaves something without proof, as a sentence; "" where there is none.
std::string reason_of(const AccountedArgument* argument) {
  return argument == nullptr ? "" : written(*argument) + ": " + argument->sentence;
}

NotProved not_proved_of(const Scenario& scenario, const std::vector<AccountedArgument>& uncounted) {
  const RunAccount& account = scenario.run.account;
  NotProved not_proved{.layers = reason_of(verify::not_proved(account, Unproved::layers)),
                       .memory = reason_of(uncounted.empty() ? nullptr : &uncounted.front()),
                       .training = reason_of(verify::not_proved(account, Unproved::training))};
  if (not_proved.training.empty()) not_proved.training = training_not_proved(scenario.settings);
  const std::string failure = failure_of_a_step(scenario);
  for (std::string* reason : {&not_proved.memory, &not_proved.training})
    if (reason->empty()) *reason = failure;
  return not_proved;
}

/// Whether an option asks for what does not depend on the sizes of a run: layers and a training, reduced.
bool asks_for_reduced(const Settings& settings) {
  if (settings.flag("prove")) return true;
  constexpr const char* kOfReduced[] = {"case", "property",    "dtype",   "plant", "dimensions",
                                        "text", "train-iters", "backend", "device"};
  return std::ranges::any_of(kOfReduced, [&](const char* option) { return settings.has(option); });
}

}  // namespace

ScenarioRequest scenario_request(const Scenario& scenario, Asked asked) {
  const Settings& settings = scenario.settings;
  settings.check();
  require_options(settings);
  require_recorded_run(settings);
  require_grid_can_be_replayed(settings);
  std::vector<AccountedArgument> uncounted = uncounted_arguments(scenario.run.values, scenario.run.account);
  const NotProved not_proved = not_proved_of(scenario, uncounted);
  Checked checked = checked_options(scenario, asked, not_proved);
  const sim::Layout& layout = *checked.layout;
  ScenarioRequest request{.layout = layout,
                          .nodes = node_placement(settings),
                          .placement = std::move(checked.placement),
                          .layers = {},
                          .world = requested_world(settings, layout),
                          .model = model_of(scenario),
                          .state = state_of(scenario),
                          .memory = memory_options(settings),
                          .batch = batch_options(settings),
                          .pipeline = checked.pipeline,
                          .schedule = std::move(checked.schedule.request),
                          .no_schedule = std::move(checked.schedule.missing),
                          .training = training_options(settings),
                          .cases = case_options(settings),
                          .program = {},
                          .expected = expectations(settings),
                          .warnings = warnings_about(scenario, layout),
                          .not_proved = not_proved,
                          .uncounted = std::move(uncounted),
                          .not_modelled = settings.given("not-modelled"),
                          .is_traced = settings.has("trace") || settings.has("flight-recorder"),
                          .layout_only = settings.flag("layout-only"),
                          .leaves_out_reduced = scenario.run.is_given() && !asks_for_reduced(settings),
                          .every_rank = settings.flag("every-rank"),
                          .arguments = settings.as_command_line()};
  if (request.placement && layout.rules == sim::RuleBook::megatron)
    request.layers = layer_request(settings, layout.pp);
  if (request.expected.parameters) {
    request.model.config = model_shape(settings);  // refuses missing sizes
    request.model.has_shape = true;
  }
  if (settings.has("program")) request.program = settings.text("program", "");
  return request;
}

namespace {

int rank_number(const Json& value) {
  const bool is_rank =
      value.is_integer() && value.integer() >= 0 && value.integer() <= std::numeric_limits<int>::max();
  if (is_rank) return static_cast<int>(value.integer());
  throw std::invalid_argument(value.dump() + " is not a rank");
}

ExpectedGroups parse_expected_groups(const std::string& text) {
  const std::size_t bracket = text.find('[');
  ExpectedGroups expected{text.substr(0, bracket), {}};
  expected.kind.erase(expected.kind.find_last_not_of(' ') + 1);
  try {
    if (bracket == std::string::npos || expected.kind.empty())
      throw std::invalid_argument("a group kind or its list is missing");
    const Json lists = parse_json("[" + text.substr(bracket) + "]");
    for (const Json& list : lists.elements()) {
      if (!list.is_array()) throw std::invalid_argument(list.dump() + " is not a list");
      expected.groups.emplace_back();
      for (const Json& value : list.elements()) expected.groups.back().push_back(rank_number(value));
    }
  } catch (const std::exception& error) {
    refuse_by("bad_expectation/groups", "--expect-groups",
              fmt::format("'{}': {}", text.substr(0, 100), error.what()), "expect-groups = dp [0,2],[1,3]");
  }
  if (sim::find_kind(expected.kind) == nullptr) {
    const std::string nearest = nearest_name(expected.kind, sim::all_kind_names());
    refuse_by("bad_expectation/groups", "--expect-groups",
              fmt::format("there is no group kind '{}'", expected.kind),
              nearest.empty() ? "shardproof list" : "expect-groups = " + nearest + " ...");
  }
  return expected;
}

}  // namespace

ExpectedRefusal expected_refusal(const Settings& settings) {
  return {settings.choice("expect") == "refused", settings.text("expect-refusal", "")};
}

Expectations expectations(const Settings& settings) {
  Expectations expected{.refusal = expected_refusal(settings),
                        .is_suspect = settings.choice("expect") == "suspect",
                        .finding = {},
                        .groups = {},
                        .parameters = {}};
  if (settings.has("expect-refusal") && !expected.refusal.is_expected)
    refuse_by("bad_expectation/refusal", "--expect-refusal", expected.refusal.code);
  if (settings.has("expect-finding")) expected.finding = settings.text("expect-finding", "");
  for (const std::string& text : settings.texts("expect-groups"))
    expected.groups.push_back(parse_expected_groups(text));
  if (settings.has("expect-parameters")) {
    expected.parameters = settings.text("expect-parameters", "");
    parse_figure(*expected.parameters);
  }
  return expected;
}

Figure parse_figure(const std::string& text) {
  constexpr std::size_t kMostLetters = 12;
  constexpr std::int64_t kMostDigits = 1'000'000;
  static const std::regex kFigure("([0-9]+)[.]?([0-9]*)([MBT])");
  std::smatch match;
  Figure figure;
  bool is_figure = text.size() <= kMostLetters && std::regex_match(text, match, kFigure);
  if (is_figure) {
    figure.digits = std::stoll(match.str(1) + match.str(2));
    figure.unit = match.str(3) == "M" ? 1'000'000 : match.str(3) == "B" ? 1'000'000'000 : 1'000'000'000'000;
    for (auto i = match.length(2); i > 0; --i) figure.unit /= 10;
    is_figure = figure.unit >= 1 && figure.digits >= 1 && figure.digits <= kMostDigits;
  }
  if (!is_figure) refuse_by("bad_expectation/figure", "--expect-parameters", text);
  return figure;
}

bool agrees_with(const Figure& figure, std::int64_t count) {
  const std::int64_t cut = count / figure.unit;
  const std::int64_t rounded = cut + (count % figure.unit * 2 >= figure.unit ? 1 : 0);
  return figure.digits == cut || figure.digits == rounded;
}

}  // namespace verify
