#include "verify/replay.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/layout/layer_placement.h"
#include "sim/layout/size_rules.h"
#include "verify/parameter_count.h"
#include "verify/requests.h"

namespace verify {

namespace {

/// Member checks need about 40 bytes a rank; larger worlds are shown by `groups`, not proven.
constexpr std::int64_t kLargestReplayedWorld = 1 << 22;

[[noreturn]] void refuse_expectation(const std::string& option, std::string given, std::string rule,
                                     std::string hint) {
  sim::refuse({.code = "bad_expectation",
               .option = option,
               .numbers = std::move(given),
               .rule = std::move(rule),
               .hint = std::move(hint)});
}

// ---- expected groups
// ------------------------------------------------------------------------------------------

struct ExpectedGroups {
  std::string kind;
  std::vector<std::vector<int>> groups;
};

/// Reads "dp [0,2],[1,3]".
ExpectedGroups parse_expected_groups(const std::string& text) {
  const std::size_t bracket = text.find('[');
  std::string kind = text.substr(0, bracket);
  kind.erase(kind.find_last_not_of(' ') + 1);
  try {
    if (bracket == std::string::npos || kind.empty()) throw std::invalid_argument("no kind or no list");
    const auto lists = nlohmann::json::parse("[" + text.substr(bracket) + "]");
    return {kind, lists.get<std::vector<std::vector<int>>>()};
  } catch (const std::exception& error) {
    refuse_expectation("--expect-groups", fmt::format("'{}': {}", text, error.what()),
                       "a group kind, then its groups as lists of ranks", "expect-groups = dp [0,2],[1,3]");
  }
}

// ---- expected parameters
// --------------------------------------------------------------------------------------

/// A printed figure such as "1.7B" as a whole number of its last digit: 17 units of 10^8.
struct Figure {
  std::int64_t digits = 0;
  std::int64_t unit = 1;
};

Figure parse_figure(const std::string& text) {
  Figure figure;
  bool point = false;
  std::int64_t scale = 0;
  bool ok = text.size() >= 2 && text.size() <= 12;
  if (ok) {
    const char suffix = text.back();
    scale = suffix == 'M' ? 1'000'000 : suffix == 'B' ? 1'000'000'000 : suffix == 'T' ? 1'000'000'000'000 : 0;
    ok = scale != 0 && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
  }
  for (std::size_t i = 0; ok && i + 1 < text.size(); ++i) {
    if (text[i] == '.') {
      ok = !std::exchange(point, true);
      continue;
    }
    ok = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    figure.digits = figure.digits * 10 + (text[i] - '0');
    if (point) scale /= 10;
  }
  if (!ok || scale < 1 || figure.digits > 1'000'000) {
    refuse_expectation("--expect-parameters", fmt::format("'{}'", text),
                       "digits, perhaps a point, and M, B or T; at most a million in its last digit",
                       "expect-parameters = 1.7B");
  }
  figure.unit = scale;
  return figure;
}

ModelShape model_shape(const Settings& settings) {
  const std::int64_t hidden = required_number(settings, "hidden-size");
  const std::int64_t heads = required_number(settings, "num-attention-heads");
  return {.num_layers = required_number(settings, "num-layers"),
          .hidden_size = hidden,
          .ffn_hidden_size = settings.number("ffn-hidden-size").value_or(4 * hidden),
          .num_attention_heads = heads,
          .num_query_groups = settings.number("num-query-groups").value_or(heads),
          .vocab_size = required_number(settings, "vocab-size"),
          .seq_length = required_number(settings, "seq-length"),
          .gated_mlp = settings.flag("swiglu"),
          .linear_bias = !settings.flag("disable-bias-linear"),
          .untied_output = settings.flag("untie-embeddings-and-output-weights"),
          .rms_norm = choice(settings, "normalization", {"LayerNorm", "RMSNorm"}) == "RMSNorm",
          .learned_positions = choice(settings, "position-embedding-type", {"learned_absolute", "rope"}) ==
                               "learned_absolute"};
}

CheckResult check_parameters(const Settings& settings, const std::string& published) {
  const Figure figure = parse_figure(published);
  const std::int64_t parameters = parameter_count(model_shape(settings));
  const std::int64_t cut = parameters / figure.unit;
  const std::int64_t rounded = cut + (parameters % figure.unit * 2 >= figure.unit ? 1 : 0);
  const bool agrees = figure.digits == cut || figure.digits == rounded;
  return {
      "parameters", agrees,
      fmt::format("{} from the shape, {} {}", parameters, published, agrees ? "as published" : "published")};
}

// ---- layers and batch
// -----------------------------------------------------------------------------------------

CheckResult check_layers(const Settings& settings) {
  const sim::LayerPlacement placement = requested_placement(settings);
  const std::size_t ranks = placement.stages.size();
  const std::size_t chunks = placement.stages.front().size();
  return {"layers", covers_each_layer_once(placement),
          fmt::format("{} layers{} on {} x {} stages, each exactly once ({})", placement.num_layers,
                      placement.encoder_ranks > 0 ? " a side" : "", ranks, chunks, placement.mode)};
}

CheckResult check_batch(const Settings& settings, const sim::Layout& layout) {
  const std::int64_t global = required_number(settings, "global-batch-size");
  const std::int64_t micro = settings.number("micro-batch-size").value_or(1);
  sim::check_size("--global-batch-size", global);
  sim::check_size("--micro-batch-size", micro);
  const std::int64_t step = sim::capped_product({micro, layout.dp});
  if (global % step != 0) {
    return {
        "batch", false,
        fmt::format("global batch {} is not a multiple of micro batch {} * dp {}", global, micro, layout.dp)};
  }
  return {"batch", true,
          fmt::format("global batch {} = {} microbatches of {} on {} replicas", global, global / step, micro,
                      layout.dp)};
}

// ---- the whole
// ------------------------------------------------------------------------------------------------

void prove(const Settings& settings, ScenarioReport& report) {
  const std::int64_t world = required_number(settings, "world-size");
  if (world > kLargestReplayedWorld) {
    sim::refuse({.code = "world_too_large_to_replay",
                 .option = "--world-size",
                 .numbers = fmt::format("{}", world),
                 .rule = fmt::format("replay proves worlds of up to {} ranks, member by member",
                                     kLargestReplayedWorld),
                 .hint = "a smaller world, or shardproof groups"});
  }
  const sim::Layout layout = requested_layout(settings);
  const sim::NodePlacement nodes = node_placement(settings);
  report.warnings = layout.warnings;
  auto& checks = report.checks;
  checks.push_back(check_partition(layout));
  checks.push_back(check_orthogonal(layout));
  checks.push_back(check_products(layout));
  checks.push_back(check_pipelines(layout));
  checks.push_back(check_creation(layout));
  checks.push_back(check_nodes(layout, nodes));
  if (settings.has("num-layers")) checks.push_back(check_layers(settings));
  if (settings.has("global-batch-size")) checks.push_back(check_batch(settings, layout));
  for (const std::string& text : settings.texts("expect-groups")) {
    const ExpectedGroups expected = parse_expected_groups(text);
    checks.push_back(check_expected_groups(layout, expected.kind, expected.groups));
  }
  const std::string published = settings.text("expect-parameters", "");
  if (!published.empty()) checks.push_back(check_parameters(settings, published));
}

/// What is left of a report when the scenario expects to be refused.
CheckResult check_refusal(const Settings& settings, const std::optional<sim::Refusal>& refusal) {
  const std::string code = settings.text("expect-refusal", "");
  if (!refusal) return {"refusal", false, "the scenario expects to be refused, and was not"};
  if (!code.empty() && code != refusal->code) {
    return {"refusal", false,
            fmt::format("expected [{}], got [{}] {}: {}", code, refusal->code, refusal->option,
                        refusal->numbers)};
  }
  return {"refusal", true,
          fmt::format("refused as expected [{}] {}: {}", refusal->code, refusal->option, refusal->numbers)};
}

}  // namespace

Verdict ScenarioReport::verdict() const {
  if (refusal) return Verdict::refused;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  return all_hold ? Verdict::verified : Verdict::falsified;
}

ScenarioReport replay(const Scenario& scenario) {
  ScenarioReport report{scenario.path, scenario.name, scenario.source, {}, {}, {}};
  bool expect_refused = false;
  try {
    expect_refused = choice(scenario.settings, "expect", {"verified", "refused"}) == "refused";
    prove(scenario.settings, report);
  } catch (const sim::Error& error) {
    report.refusal = error.refusal();
  }
  if (!expect_refused) return report;
  report.checks = {check_refusal(scenario.settings, report.refusal)};
  report.warnings.clear();
  report.refusal.reset();
  return report;
}

const std::vector<CheckInfo>& replay_checks() {
  static const std::vector<CheckInfo> checks = {
      {"partition", "every rank is in exactly one group of each kind (embd, pos_embd: at most one)"},
      {"orthogonal", "groups of kinds along different axes share exactly one rank"},
      {"products", "the sizes of complementary kinds multiply to the world"},
      {"pipelines", "dense and expert grid have the same pipelines"},
      {"creation", "every rank sees the same sequence of new_group calls, entered by exactly their members"},
      {"nodes", "how many tp and dp groups cross a node"},
      {"layers", "every layer is on exactly one stage"},
      {"batch", "the global batch divides over replicas and microbatches"},
      {"expected K", "kind K has the groups that the source prints"},
      {"parameters", "the shape has the published number of parameters"},
      {"refusal", "a scenario that must be refused is, for its stated reason"},
  };
  return checks;
}

}  // namespace verify
