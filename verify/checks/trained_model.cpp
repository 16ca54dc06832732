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

#include "sim/base/content_hash.h"
#include "sim/layout/size_rules.h"
#include "sim/model/text_corpus.h"
#include "verify/cases/case_setting.h"
#include "verify/cases/gpt_plan.h"
#include "verify/checks/parameter_count.h"
#include "verify/checks/reductions.h"
#include "verify/checks/trained_experts.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/model_options.h"

namespace verify {

namespace {

constexpr std::int64_t kLeastSteps = 2;  // the second step is the first one that starts from optimizer states
constexpr std::uintmax_t kMostTextBytes = std::uintmax_t{1} << 26;

/// The sizes with which the model is trained: those of the scenario, folded where needed.
struct TrainedSizes {
  int tp, cp, pp, dp;
  int world() const { return tp * cp * pp * dp; }
};

/// A sequence of a reduced training is a multiple of 2 cp tp tokens, which may be at most this many.
constexpr int kMostTokens = 64;

TrainedSizes trained_sizes(const sim::Layout& layout) {
  TrainedSizes sizes{layout.tp, layout.cp, layout.pp, layout.dp};
  sizes.cp = largest_divisor(sizes.cp, std::max(kMostTokens / (2 * sizes.tp), 2));
  sizes.dp = largest_divisor(sizes.dp, std::max(kMostTrainingRanks / (sizes.tp * sizes.cp * sizes.pp), 1));
  sizes.pp = largest_divisor(sizes.pp, std::max(kMostTrainingRanks / (sizes.tp * sizes.cp), 1));
  sizes.cp = largest_divisor(sizes.cp, std::max(kMostTrainingRanks / sizes.tp, 1));
  sizes.tp = largest_divisor(sizes.tp, kMostTrainingRanks);
  return sizes;
}

std::string text_of_world(const TrainedSizes& sizes, const sim::Layout& layout) {
  const std::string cp = layout.cp > 1 ? reduced_size("cp", sizes.cp, layout.cp) + ", " : "";
  return reduced_size("tp", sizes.tp, layout.tp) + ", " + cp + reduced_size("pp", sizes.pp, layout.pp) +
         ", " + reduced_size("dp", sizes.dp, layout.dp);
}

/// Returns the index of the first order of the plan that agrees with the layout on which of tp, cp, pp and dp
/// vary faster, or the number of orders if none does. Axes that are trained with size 1 do not matter.
std::int64_t order_of(const sim::Layout& layout, const TrainedSizes& sizes) {
  const std::map<std::string_view, std::pair<int, int>> axes = {
      {"tp", {sizes.tp, layout.dense.stride(sim::Axis::tp)}},
      {"cp", {sizes.cp, layout.dense.stride(sim::Axis::cp)}},
      {"pp", {sizes.pp, layout.dense.stride(sim::Axis::pp)}},
      {"dp", {sizes.dp, layout.dense.stride(sim::Axis::dp)}}};
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
  return std::ranges::find_if(GptPlan::kOrders, fits) - GptPlan::kOrders.begin();
}

std::int64_t chunks_of(const ScenarioRequest& request, const TrainedSizes& sizes) {
  return sizes.pp > 1 ? request.pipeline.virtual_pipeline_model_parallel_size.value_or(1) : 1;
}

bool is_sequence_parallel(const ScenarioRequest& request, const TrainedSizes& sizes) {
  return (request.model.config.sequence_parallel || trains_experts(request)) && sizes.tp > 1;
}

bool fits(const ScenarioRequest& request, const TrainedSizes& sizes, const sim::GptConfig& shape) {
  const sim::Layout& layout = request.layout;
  const std::int64_t stages = sizes.pp * chunks_of(request, sizes);
  const bool is_even = shape.num_layers % stages == 0 && request.placement->mode == "even";
  const bool divides = shape.ffn_hidden_size % sizes.tp == 0 && shape.num_query_groups % sizes.tp == 0 &&
                       shape.num_attention_heads % shape.num_query_groups == 0 && shape.head_size() % 2 == 0;
  const bool is_folded = sizes.world() != layout.world_size || layout.cp > 1 || layout.ep > 1;
  const bool sp_divides = !is_sequence_parallel(request, sizes) || shape.seq_length % sizes.tp == 0;
  const bool has_more_positions = shape.has_learned_positions() && shape.positions() != shape.seq_length;
  return is_even && divides && !is_folded && sp_divides && !has_more_positions;
}

/// Sets the order of the ranks, or names it where the plan has no such order.
void set_order(const sim::Layout& layout, const TrainedSizes& sizes, TrainedModel& trained) {
  std::int64_t order = order_of(layout, sizes);
  const bool is_known = order < std::ssize(GptPlan::kOrders);
  // Context-parallel ranks are replicas of experts, so that only an order which ends with pp fits any sizes.
  const bool fits =
      is_known && (sizes.cp == 1 || sizes.pp == 1 ||
                   std::string_view(GptPlan::kOrders[static_cast<std::size_t>(order)]).ends_with("pp"));
  if (!fits) {
    trained.left_out.push_back(
        fmt::format("the order of the ranks, in whose place is {}", GptPlan::kOrders[0]));
    order = 0;
  }
  trained.setting.dimensions["order"] = order;
}

/// Whether the batch divides over replicas and microbatches. With an interleaved schedule the number of
/// microbatches must also be a multiple of pp.
bool has_batch(const ScenarioRequest& request, const TrainedSizes& sizes) {
  const std::int64_t batch = request.batch.global_batch_size.value_or(0);
  const std::int64_t at_a_time = request.batch.micro_batch_size * sizes.dp;
  const std::int64_t group = chunks_of(request, sizes) > 1 ? sizes.pp : 1;
  return batch > 0 && batch % (at_a_time * group) == 0;
}

/// Whether a list says which layers have the window. A trained model has it in all layers but every N-th.
bool has_listed_window(const sim::GptConfig& model) {
  return model.window.attn_skip_freq && !model.window.attn_skip_freq->entries.empty();
}

/// Whether the scenario has features that the trained model does not have.
bool has_more(const ScenarioRequest& request) {
  const bool has_one_chunk = request.pipeline.virtual_pipeline_model_parallel_size == 1;
  return request.model.config.latent || request.model.config.mtp_num_layers > 0 ||
         request.model.config.experts.num_experts > 0 || request.layout.instances > 1 || has_one_chunk ||
         has_listed_window(request.model.config) || request.pipeline.overlap_moe_expert_parallel_comm;
}

/// Returns the work of a step, as parameters times tokens. The work on a score of attention is weighted
/// in the same unit.
double training_work(const sim::GptConfig& shape, std::int64_t batch) {
  constexpr double kWorkOfAScore = 16;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double scores = number(shape.num_layers) * number(shape.seq_length) *
                        number(shape.num_attention_heads) * (2 * number(shape.head_size()) + kWorkOfAScore);
  return (number(parameter_count(shape)) + scores) * number(batch) * number(shape.seq_length);
}

bool is_trained_whole(const ScenarioRequest& request, const TrainedSizes& sizes) {
  if (!request.model.has_shape || !has_batch(request, sizes) || has_more(request)) return false;
  const sim::GptConfig& shape = request.model.config;
  if (shape.vocab_size != sim::kByteVocabulary || !fits(request, sizes, shape)) return false;
  return training_work(shape, *request.batch.global_batch_size) <= kMostTrainingWork;
}

/// The window of a trained model: none, one in all layers, or one in all but every N-th layer, where a list
/// counts as every second layer.
std::int64_t window_pattern(const sim::AttentionWindow& window) {
  if (window.size < 0) return 0;
  if (!window.attn_skip_freq) return 1;
  if (!window.attn_skip_freq->entries.empty()) return 2;
  const std::int64_t every = window.attn_skip_freq->every;
  return every == 1 ? 0 : every;
}

/// The attention of the trained model: 0 is self-attention, 1 latent attention, 2 that with a latent state of
/// queries.
std::int64_t latent_of(const sim::GptConfig& model) {
  if (!model.latent) return 0;
  return model.latent->q_lora_rank > 0 ? 2 : 1;
}

/// Returns the setting of a reduced model of the scenario's kind.
CaseSetting reduced_setting(const ScenarioRequest& request, const TrainedSizes& sizes) {
  constexpr std::int64_t kSequence = 4;
  const bool is_interleaved = chunks_of(request, sizes) > 1;
  const bool sp = is_sequence_parallel(request, sizes);
  const std::int64_t unit = (sp ? sizes.tp : 1) * (sizes.cp > 1 ? 2 * sizes.cp : 1);
  const sim::GptConfig& model = request.model.config;
  const std::int64_t loss = request.training.calculate_per_token_loss ? 2 : 0;
  return {.group_size = sizes.world(),
          .ranks = Ranks::world,
          .seed = request.cases.seed,
          .dimensions = {{"tp", sizes.tp},
                         {"pp", sizes.pp},
                         {"schedule", is_interleaved ? 3 : 2},
                         {"chunks", chunks_of(request, sizes)},
                         {"layers", 1},
                         {"microbatches", is_interleaved ? 1 : 2},
                         {"micro_batch", 1},
                         {"sequence", (kSequence + unit - 1) / unit},
                         {"hidden", 4},
                         {"queries", 1},
                         {"half_channels", 1},
                         {"ffn", std::max<std::int64_t>(16 / sizes.tp, 1)},
                         {"vocabulary", 0},
                         {"padding", 0},
                         {"steps", train_iters(request.training)},
                         {"loss", loss},
                         {"ignored", 0},
                         {"tied", model.untie_embeddings_and_output_weights ? 0 : 1},
                         {"sequence_parallel", sp ? 1 : 0},
                         {"rotary", model.has_learned_positions() ? 0 : 1},
                         {"rms_norm", model.has_rms_norm() ? 1 : 0},
                         {"qk_layernorm", model.qk_layernorm ? 1 : 0},
                         {"window", window_pattern(model.window)},
                         {"latent", latent_of(model)},
                         {"gated", model.gated ? 1 : 0},
                         {"bias", model.bias           ? 1
                                  : model.add_qkv_bias ? 2
                                                       : 0},
                         {"recompute", request.training.recompute ? 1 : 0},
                         {"distributed", 1},
                         {"overlap", 1},
                         {"bucket", 0},
                         {"clip", 1},
                         {"scaled", 0},
                         {"epsilon_denominator", 100},
                         {"learning_rate_denominator", 32}}};
}

/// Returns layers times sequences of one step of a reduced training, which has one layer per chunk and pp or
/// two microbatches. A layer with experts counts as kWeightOfExperts. Any other training without an
/// interleaved schedule is small, and the result is 0.
std::int64_t layer_passes(const ScenarioRequest& request, const TrainedSizes& sizes) {
  const std::int64_t chunks = chunks_of(request, sizes);
  const bool has_experts = trains_experts(request);
  if (chunks == 1 && !has_experts && sizes.cp == 1) return 0;
  return sim::capped_product(
      {has_experts ? kWeightOfExperts : 1, sizes.cp, sizes.pp, chunks, chunks > 1 ? sizes.pp : 2, sizes.dp});
}

/// Folds replicas, and then stages, until kLeastSteps steps take at most kMostLayerPasses. With experts,
/// which lie on the replicas, stages are folded first, down to two.
void fold_long_steps(const ScenarioRequest& request, TrainedSizes& sizes) {
  const auto fold = [&](int& size, int least) {
    while (layer_passes(request, sizes) > kMostLayerPasses / kLeastSteps && size > least)
      size = largest_divisor(size, size - 1);
  };
  if (trains_experts(request)) fold(sizes.pp, 2);
  fold(sizes.dp, 1);
  fold(sizes.pp, 1);
}

/// Reduces the default number of steps if they are too much work. Steps that the user asked for are kept.
void bound_steps(const ScenarioRequest& request, const TrainedSizes& sizes, TrainedModel& trained) {
  const std::int64_t passes = layer_passes(request, sizes);
  if (request.training.train_iters || passes == 0) return;
  std::int64_t& steps = trained.setting.dimensions["steps"];
  const std::int64_t bounded = std::clamp(kMostLayerPasses / passes, kLeastSteps, steps);
  if (bounded < steps)
    trained.bound =
        fmt::format(" (not {}: a step has {} layers and {})", steps, sizes.pp * chunks_of(request, sizes),
                    counted(GptPlan{trained.setting}.global_batch(), "sequence"));
  steps = bounded;
}

/// Replaces the reduced sizes by those of the scenario's own model.
void make_whole(const ScenarioRequest& request, const TrainedSizes& sizes, CaseSetting& setting) {
  const sim::GptConfig& shape = request.model.config;
  auto& dimensions = setting.dimensions;
  dimensions["num_layers"] = shape.num_layers;
  dimensions["micro_batch"] = request.batch.micro_batch_size;
  dimensions["global_batch"] = *request.batch.global_batch_size;
  dimensions["microbatch_group"] =
      request.pipeline.microbatch_group_size_per_virtual_pipeline_stage.value_or(sizes.pp);
  dimensions["sequence"] = setting["sequence_parallel"] == 1 ? shape.seq_length / sizes.tp : shape.seq_length;
  dimensions["hidden"] = shape.hidden_size;
  dimensions["groups"] = shape.num_query_groups / sizes.tp;
  dimensions["queries"] = shape.num_attention_heads / shape.num_query_groups;
  dimensions["half_channels"] = shape.head_size() / 2;
  dimensions["window_size"] = request.model.config.window.size;
  dimensions["ffn"] = shape.ffn_hidden_size / sizes.tp;
}

/// Adds context parallelism: the scenario's own kind in every layer, or two kinds in turn where it has
/// several.
void add_context(const ScenarioRequest& request, const TrainedSizes& sizes, TrainedModel& trained) {
  if (sizes.cp == 1) return;
  constexpr std::int64_t kInTurn = 4;
  const std::optional<sim::CpCommType> kind = kind_of_all_layers(request.model.config.cp_comm_types);
  const std::vector<std::int64_t>& levels = request.model.hierarchical_context_parallel_sizes;
  trained.setting.dimensions.insert({{"cp", sizes.cp},
                                     {"cp_comm_type", kind ? static_cast<std::int64_t>(*kind) : kInTurn},
                                     {"inner_cp", levels.empty() ? 2 : levels.front()},
                                     {"whole_sequence_loss", 0},
                                     {"experts", trains_experts(request) ? 1 : 0}});
  if (!kind)
    trained.left_out.emplace_back(
        "the kinds of --cp-comm-type by layer, in whose place p2p and all_gather alternate");
  const GptPlan plan{trained.setting};
  std::int64_t& window = trained.setting.dimensions["window"];
  const bool rings = !kind || merges_of_ring(*kind, plan.cp(), plan.inner_cp()) > 0;
  if (window > 0 && rings) {
    window = 0;
    trained.left_out.emplace_back("the sliding window, which a ring of context-parallel ranks does not have");
  }
}

/// Names the scenario's own groups of microbatches. The reduced training has pp microbatches, which are one.
void name_groups(const ScenarioRequest& request, const TrainedSizes& sizes, TrainedModel& trained) {
  const std::int64_t group =
      request.pipeline.microbatch_group_size_per_virtual_pipeline_stage.value_or(request.layout.pp);
  if (chunks_of(request, sizes) > 1 && group != request.layout.pp)
    trained.left_out.push_back(
        fmt::format("groups of {}, in whose place are groups of {}", counted(group, "microbatch"), sizes.pp));
}

/// Names a placement whose stages hold different numbers of layers. In the reduced training each stage has as
/// many.
void name_placement(const ScenarioRequest& request, TrainedModel& trained) {
  if (!request.placement) return;
  const auto& stages = request.placement->stages;
  const int first = stages.front().front().count;
  const bool is_even = std::ranges::all_of(stages, [&](const std::vector<sim::StageLayers>& chunks) {
    return std::ranges::all_of(chunks, [&](const auto& chunk) { return chunk.count == first; });
  });
  if (!is_even)
    trained.left_out.emplace_back(
        "the placement of layers, in whose place every stage holds the same number");
}

/// Refuses a text without any label that has a loss, because such a training proves nothing.
void require_labels(const CaseSetting& setting) {
  const std::int64_t samples = setting["steps"] * GptPlan{setting}.global_batch();
  for (std::int64_t number = 0; number < samples; ++number) {
    const sim::Sample sample = setting.text->sample(number);
    if (std::ranges::any_of(sample.labels, [](auto id) { return id != sim::kIgnoredLabel; })) return;
  }
  refuse_by("training_labels", "--eod-mask-loss", counted(samples, "sample"));
}

std::string text_of_model(const sim::GptConfig& model) {
  return fmt::format("{}, hidden {}, ffn {}, {} of {}, sequences of {}", counted(model.num_layers, "layer"),
                     model.hidden_size, model.ffn_hidden_size, counted(model.num_attention_heads, "head"),
                     counted(model.kv_channels, "channel"), counted(model.seq_length, "byte"));
}

/// Reads the bytes of a text file.
std::string training_text(const std::string& path) {
  std::error_code error;
  const bool is_plain = std::filesystem::is_regular_file(path, error);
  if (!is_plain)
    refuse_by("training_text/form", "--text", path, error ? error.message() : "not a regular file",
              kMostTextBytes);
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMostTextBytes) refuse_by("training_text/size", "--text", path, bytes, kMostTextBytes);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes)))
    refuse_by("training_text/form", "--text", path, std::strerror(errno), kMostTextBytes);
  return text;
}

}  // namespace

TrainedModel trained_model(const ScenarioRequest& request) {
  const sim::Layout& layout = request.layout;
  TrainedSizes sizes = trained_sizes(layout);
  const bool is_whole = is_trained_whole(request, sizes);
  if (!is_whole) fold_long_steps(request, sizes);
  TrainedModel trained{.setting = reduced_setting(request, sizes),
                       .world = text_of_world(sizes, layout),
                       .is_whole = is_whole};
  if (is_whole) {
    make_whole(request, sizes, trained.setting);
  } else {
    bound_steps(request, sizes, trained);
    name_groups(request, sizes, trained);
    name_placement(request, trained);
    add_context(request, sizes, trained);
    add_experts(request, trained.setting);
    trained.world += text_of_experts(request, trained.setting);
    const std::vector<std::string> left_out = left_out_of_training(request, trained.setting);
    trained.left_out.insert(trained.left_out.end(), left_out.begin(), left_out.end());
  }
  set_order(layout, sizes, trained);
  const std::int64_t length = GptPlan{trained.setting}.drawn_tokens();
  const std::string text = training_text(request.training.text);
  sim::ContentHash hash;
  hash.add(std::string_view(text));
  trained.text_hash = hash.value();
  trained.setting.text = std::make_shared<const sim::TextCorpus>("--text", text, length, trained.setting.seed,
                                                                 request.training.eod_mask_loss);
  require_labels(trained.setting);
  const sim::GptConfig model = GptPlan{trained.setting}.model();
  trained.model = text_of_model(model);
  trained.reduced = reductions(request.model.config, model);
  return trained;
}

std::int64_t train_iters(const TrainingOptions& training) {
  constexpr std::int64_t kMost = 1000;
  const std::int64_t steps = training.train_iters.value_or(kTrainIters);
  if (steps <= kMost) return steps;
  refuse_by("train_iters", "--train-iters", steps, kMost);
}

}  // namespace verify
