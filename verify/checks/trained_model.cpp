#include "verify/checks/trained_model.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/base/error.h"
#include "verify/cases/gpt_plan.h"
#include "verify/checks/parameter_count.h"
#include "verify/options/requests.h"
#include "verify/options/scenario.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::uintmax_t kMostTextBytes = std::uintmax_t{1} << 26;

[[noreturn]] void refuse_text(std::string numbers) {
  sim::refuse(
      {.code = "training_text",
       .option = "--text",
       .numbers = std::move(numbers),
       .rule = fmt::format("a text is a plain file of up to {} bytes that can be read", kMostTextBytes),
       .hint = "--text README.md"});
}

/// The scenario's tp, pp and replicas, as large as they are trained.
struct TrainedSizes {
  int tp, pp, dp;
  int world() const { return tp * pp * dp; }
};

/// The largest divisor of a size that leaves it at most as large.
int folded(int size, int most) {
  int divisor = std::clamp(most, 1, size);
  while (size % divisor != 0) --divisor;
  return divisor;
}

TrainedSizes trained_sizes(const sim::Layout& layout) {
  TrainedSizes sizes{layout.tp, layout.pp, layout.dp * layout.cp};
  sizes.dp = folded(sizes.dp, std::max(kMostTrainingRanks / (sizes.tp * sizes.pp), 1));
  sizes.pp = folded(sizes.pp, std::max(kMostTrainingRanks / sizes.tp, 1));
  sizes.tp = folded(sizes.tp, kMostTrainingRanks);
  return sizes;
}

std::string text_of_world(const TrainedSizes& sizes, const sim::Layout& layout) {
  return reduced_size("tp", sizes.tp, layout.tp) + ", " + reduced_size("pp", sizes.pp, layout.pp) + ", " +
         reduced_size("dp", sizes.dp, layout.dp * layout.cp);
}

/// Of the plan's orders, the first in which tp, pp and replicas vary as fast, one against the other, as in
/// the layout.
std::int64_t order_of(const sim::Layout& layout) {
  const std::map<std::string_view, std::pair<int, int>> axes = {
      {"tp", {layout.tp, layout.dense.stride(sim::Axis::tp)}},
      {"pp", {layout.pp, layout.dense.stride(sim::Axis::pp)}},
      {"dp", {layout.dp * layout.cp, layout.dense.stride(layout.dp > 1 ? sim::Axis::dp : sim::Axis::cp)}}};
  const auto fits = [&](std::string_view order) {
    int fastest = 0;
    for (std::size_t at = 0; at < order.size(); at += 3) {
      const auto axis = axes.find(order.substr(at, 2));
      if (axis == axes.end() || axis->second.first == 1) continue;
      if (axis->second.second < fastest) return false;
      fastest = axis->second.second;
    }
    return true;
  };
  return std::find_if(GptPlan::kOrders.begin(), GptPlan::kOrders.end(), fits) - GptPlan::kOrders.begin();
}

std::int64_t chunks_of(const Settings& settings, const TrainedSizes& sizes) {
  return sizes.pp > 1 ? settings.number("virtual-pipeline-model-parallel-size").value_or(1) : 1;
}

bool is_sequence_parallel(const Settings& settings, const TrainedSizes& sizes) {
  return settings.flag("sequence-parallel") && sizes.tp > 1;
}

bool fits(const Settings& settings, const sim::Layout& layout, const TrainedSizes& sizes,
          const ModelShape& shape) {
  const std::int64_t stages = sizes.pp * chunks_of(settings, sizes);
  const bool is_even =
      shape.num_layers % stages == 0 && requested_placement(settings, layout.pp).mode == "even";
  const std::int64_t channels = shape.hidden_size / shape.num_attention_heads;
  const bool divides = shape.ffn_hidden_size % sizes.tp == 0 && shape.num_query_groups % sizes.tp == 0 &&
                       shape.num_attention_heads % shape.num_query_groups == 0 &&
                       channels * shape.num_attention_heads == shape.hidden_size && channels % 2 == 0;
  const bool is_folded = sizes.world() != layout.world_size || layout.cp > 1 || layout.ep > 1;
  const bool sp_divides = !is_sequence_parallel(settings, sizes) || shape.seq_length % sizes.tp == 0;
  return is_even && divides && !is_folded && sp_divides;
}

/// Whether the batch divides; interleaved, chunks take pp microbatches at a time.
bool has_batch(const Settings& settings, const TrainedSizes& sizes) {
  const std::int64_t batch = settings.number("global-batch-size").value_or(0);
  const std::int64_t at_a_time = settings.number("micro-batch-size").value_or(1) * sizes.dp;
  const std::int64_t group = chunks_of(settings, sizes) > 1 ? sizes.pp : 1;
  return batch > 0 && batch % (at_a_time * group) == 0;
}

/// What the trained model has none of.
bool has_more(const Settings& settings, const TrainedSizes& sizes) {
  const std::int64_t mtp = settings.number("mtp-num-layers").value_or(0);
  const std::int64_t instances = settings.number("num-distributed-optimizer-instances").value_or(1);
  const std::int64_t group =
      settings.number("microbatch-group-size-per-virtual-pipeline-stage").value_or(sizes.pp);
  const bool has_one_chunk = settings.number("virtual-pipeline-model-parallel-size") == 1;
  return mtp > 0 || instances > 1 || group != sizes.pp || has_one_chunk ||
         settings.flag("overlap-moe-expert-parallel-comm");
}

/// Of a step, as parameters times tokens; a score of attention is as much as some of these.
double training_work(const ModelShape& shape, std::int64_t batch) {
  constexpr double kWorkOfAScore = 16;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double scores = number(shape.num_layers) * number(shape.seq_length) *
                        (2 * number(shape.hidden_size) + kWorkOfAScore * number(shape.num_attention_heads));
  return (number(parameter_count(shape)) + scores) * number(batch) * number(shape.seq_length);
}

bool is_trained_whole(const Settings& settings, const sim::Layout& layout, const TrainedSizes& sizes) {
  if (!has_model_shape(settings) || !has_batch(settings, sizes) || has_more(settings, sizes)) return false;
  const ModelShape shape = model_shape(settings);
  if (shape.vocab_size != sim::kByteVocabulary || !fits(settings, layout, sizes, shape)) return false;
  return training_work(shape, *settings.number("global-batch-size")) <= kMostTrainingWork;
}

/// Of a model of the scenario's kind.
CaseSetting reduced_setting(const Settings& settings, const TrainedSizes& sizes) {
  constexpr std::int64_t kSequence = 4;
  const bool is_interleaved = chunks_of(settings, sizes) > 1;
  const bool sp = is_sequence_parallel(settings, sizes);
  const auto flag = [&](const char* name) -> std::int64_t { return settings.flag(name) ? 1 : 0; };
  const std::int64_t loss = settings.flag("calculate-per-token-loss") ? 2 : 0;
  return {.tp = sizes.world(),
          .ranks = Ranks::world,
          .seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0)),
          .dimensions = {{"tp", sizes.tp},
                         {"pp", sizes.pp},
                         {"schedule", is_interleaved ? 3 : 2},
                         {"chunks", chunks_of(settings, sizes)},
                         {"layers", 1},
                         {"microbatches", is_interleaved ? 1 : 2},
                         {"micro_batch", 1},
                         {"sequence", sp ? (kSequence + sizes.tp - 1) / sizes.tp : kSequence},
                         {"hidden", 4},
                         {"queries", 1},
                         {"half_channels", 1},
                         {"ffn", std::max<std::int64_t>(16 / sizes.tp, 1)},
                         {"vocabulary", 0},
                         {"padding", 0},
                         {"steps", train_iters(settings)},
                         {"loss", loss},
                         {"ignored", 0},
                         {"tied", 1 - flag("untie-embeddings-and-output-weights")},
                         {"sequence_parallel", sp ? 1 : 0},
                         {"rotary", settings.choice("position-embedding-type") == "rope" ? 1 : 0},
                         {"rms_norm", settings.choice("normalization") == "RMSNorm" ? 1 : 0},
                         {"gated", flag("swiglu")},
                         {"bias", 1 - flag("disable-bias-linear")},
                         {"recompute", settings.has("recompute-granularity") ? 1 : 0},
                         {"distributed", 1},
                         {"overlap", 1},
                         {"bucket", 0},
                         {"clip", 1},
                         {"epsilon_denominator", 100},
                         {"learning_rate_denominator", 32}}};
}

/// The sizes of the scenario's own model, in place of the reduced ones.
void make_whole(const Settings& settings, const TrainedSizes& sizes, CaseSetting& setting) {
  const ModelShape shape = model_shape(settings);
  auto& dimensions = setting.dimensions;
  dimensions["num_layers"] = shape.num_layers;
  dimensions["micro_batch"] = settings.number("micro-batch-size").value_or(1);
  dimensions["global_batch"] = *settings.number("global-batch-size");
  dimensions["sequence"] = setting["sequence_parallel"] == 1 ? shape.seq_length / sizes.tp : shape.seq_length;
  dimensions["hidden"] = shape.hidden_size;
  dimensions["groups"] = shape.num_query_groups / sizes.tp;
  dimensions["queries"] = shape.num_attention_heads / shape.num_query_groups;
  dimensions["half_channels"] = shape.hidden_size / shape.num_attention_heads / 2;
  dimensions["ffn"] = shape.ffn_hidden_size / sizes.tp;
}

/// A training without a loss proves nothing.
void check_has_labels(const CaseSetting& setting) {
  const std::int64_t samples = setting["steps"] * GptPlan{setting}.global_batch();
  for (std::int64_t number = 0; number < samples; ++number) {
    const sim::Sample sample = setting.text->sample(number);
    if (std::any_of(sample.labels.begin(), sample.labels.end(),
                    [](auto id) { return id != sim::kIgnoredLabel; }))
      return;
  }
  sim::refuse({.code = "training_labels",
               .option = "--eod-mask-loss",
               .numbers = fmt::format("none of {} has a token with a loss", counted(samples, "sample")),
               .rule = "some byte of the text is not the first of a document",
               .hint = "a text with words between its blank lines, or no --eod-mask-loss"});
}

std::string text_of_model(const sim::GptConfig& model) {
  return fmt::format("{}, hidden {}, ffn {}, {} of {}, sequences of {}", counted(model.num_layers, "layer"),
                     model.hidden_size, model.ffn_hidden_size, counted(model.num_attention_heads, "head"),
                     counted(model.kv_channels, "channel"), counted(model.seq_length, "byte"));
}

}  // namespace

std::string training_text(const Settings& settings) {
  const std::string path = settings.text("text", scenario_folder() + "/training/text.txt");
  std::error_code error;
  const bool is_plain = std::filesystem::is_regular_file(path, error);
  if (!is_plain) refuse_text(fmt::format("{}: {}", path, error ? error.message() : "no plain file"));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMostTextBytes) refuse_text(fmt::format("{}: {} bytes", path, bytes));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes)))
    refuse_text(fmt::format("{}: {}", path, std::strerror(errno)));
  return text;
}

TrainedModel trained_model(const Settings& settings, const sim::Layout& layout) {
  const TrainedSizes sizes = trained_sizes(layout);
  TrainedModel trained{.setting = reduced_setting(settings, sizes),
                       .world = text_of_world(sizes, layout),
                       .is_whole = is_trained_whole(settings, layout, sizes)};
  if (trained.is_whole) make_whole(settings, sizes, trained.setting);
  const std::int64_t length = GptPlan{trained.setting}.drawn_tokens();
  trained.setting.text = std::make_shared<const sim::TextCorpus>(
      "--text", training_text(settings), length, trained.setting.seed, settings.flag("eod-mask-loss"));
  trained.setting.dimensions["order"] = order_of(layout);
  check_has_labels(trained.setting);
  trained.model = text_of_model(GptPlan{trained.setting}.model());
  return trained;
}

std::int64_t train_iters(const Settings& settings) {
  constexpr std::int64_t kMost = 1000;
  const std::int64_t steps = settings.number("train-iters").value_or(kTrainIters);
  if (steps <= kMost) return steps;
  sim::refuse(
      {.code = "train_iters",
       .option = "--train-iters",
       .numbers = fmt::format("{}", steps),
       .rule = fmt::format("replay trains up to {} steps, each twice and on one device as well", kMost),
       .hint = "--train-iters 20"});
}

}  // namespace verify
