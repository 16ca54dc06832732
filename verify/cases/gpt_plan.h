#pragma once

/// The plan of a GPT training trial, derived from a setting: the world, the model, its parameters and their
/// placement, and the samples.
///
/// Shapes  the world has tp x cp x pp x dp ranks, where tp, pp and cp are the largest divisors that do not
///         exceed the dimensions of these names. Heads, F and V are multiples of tp, and heads also of the
///         context-parallel ranks that exchange them; the number of layers is a multiple of the number of
///         stages. S/cp is a multiple of tp with sequence parallelism, and each of the `documents` of a
///         sequence, or S, of 2 cp if cp is above 1. A setting with the dimensions of experts
///         (gpt_experts_plan.h) has layers with experts.

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/gpt_training.h"
#include "sim/model/text_corpus.h"
#include "sim/pipeline/schedules.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_setting.h"
#include "verify/cases/cp_calls.h"
#include "verify/cases/gpt_experts_plan.h"
#include "verify/cases/latent_layer.h"
#include "verify/cases/stretches.h"
#include "verify/reference/embedding.h"
#include "verify/reference/pipeline_order.h"
#include "verify/reference/text_sample.h"

namespace verify {

/// A parameter, and how it is cut into the parts of the ranks.
struct GptParameter {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Placement placement = Placement::replicated;  // over the ranks of a tensor-parallel group
  int stride = 1;
  std::int64_t stage = 0;  // from 0 to pp * chunks - 1
  bool is_vector = false;
  bool is_norm = false;
  bool has_grad_of_tokens = false;  // with sequence parallelism, its gradient sees only this rank's tokens
  bool has_grad_of_heads = false;   // its gradient sees only this rank's heads
  std::int64_t expert = -1;         // the expert that it belongs to; it is then placed over etp
  std::string same_as;              // for the copy of a tied weight: the name of the weight in the reference
};

/// The sizes of the axes of the grid. They are derived once, because everything else is derived from them.
struct GptGrid {
  int tp, pp, cp, dp;
  explicit GptGrid(const CaseSetting& s)
      : tp(largest_divisor(s.group_size, s["tp"])),
        pp(largest_divisor(s.group_size / tp, s["pp"])),
        cp(largest_divisor(s.group_size / tp / pp, s.fixed("cp", 1))),
        dp(s.group_size / tp / pp / cp) {}
};

struct GptPlan {
  const CaseSetting& s;
  const GptGrid grid = GptGrid(s);

  int tp() const { return grid.tp; }
  int pp() const { return grid.pp; }
  int cp() const { return grid.cp; }
  int dp() const { return grid.dp; }
  bool is_interleaved() const { return s["schedule"] == 3 && pp() > 1; }
  int chunks() const { return is_interleaved() ? static_cast<int>(s.fixed("chunks", 2)) : 1; }
  int stages() const { return pp() * chunks(); }
  /// With the interleaved schedule, this is a multiple of pp, so that the last group of microbatches has at
  /// least pp of them.
  int microbatches() const {
    return static_cast<int>(s.fixed("global_batch", 0) > 0
                                ? s.fixed("global_batch", 0) / (s["micro_batch"] * dp())
                                : s["microbatches"] * (is_interleaved() ? pp() : 1));
  }
  /// How many microbatches go through a chunk at a time. Where the setting does not fix it, microbatches of
  /// several samples go in groups of 2 pp, so that both sizes of groups are drawn.
  int microbatch_group() const {
    const auto fixed = static_cast<int>(s.fixed("microbatch_group", 0));
    const int drawn = s["micro_batch"] > 1 ? 2 * pp() : pp();
    return fixed > 0 ? fixed : std::min(drawn, microbatches());
  }
  /// The common divisor of the model's sizes, the number of layers, and the number of samples of a step. They
  /// follow from this layout, unless the setting fixes them so that another layout trains the same model.
  std::int64_t whole() const {
    return s.fixed("whole", tp() * exchanging_ranks(cp_comm_type(), cp(), inner_cp()));
  }
  /// The length of sequences is a multiple of this number.
  std::int64_t sequence_unit() const {
    const std::int64_t of_tp = divides_sequences() ? (cp() > 1 ? tp() : whole()) : 1;
    return s.fixed("sequence_unit", (cp() > 1 ? 2 * cp() : 1) * of_tp);
  }
  std::int64_t num_layers() const { return s.fixed("num_layers", stages() * s["layers"]); }
  std::int64_t global_batch() const { return s["micro_batch"] * microbatches() * dp(); }
  bool has_experts() const { return s.dimensions.contains("ep") && s.fixed("experts", 1) == 1; }
  GptExpertsPlan experts() const { return {s, tp() * cp() * dp(), whole(), num_layers()}; }
  /// Megatron trains a model with experts and tp above 1 under sequence parallelism alone.
  bool divides_sequences() const { return has_experts() || s["sequence_parallel"] == 1; }
  bool sequence_parallel() const { return divides_sequences() && tp() > 1; }
  bool is_tied() const { return s["tied"] == 1; }
  bool averages_in_collective() const { return s["loss"] == 1; }
  bool per_token() const { return s["loss"] == 2; }
  /// With a loss of whole sequences, a loss is divided by the tokens of all context-parallel ranks.
  bool has_whole_sequence_loss() const { return s.fixed("whole_sequence_loss", 0) == 1; }
  /// Whether each context-parallel rank divides by its own tokens.
  bool has_loss_of_ranks() const { return cp() > 1 && !per_token() && !has_whole_sequence_loss(); }
  bool is_bf16() const { return s.dtype == sim::DType::bf16; }

  // ---- context parallelism

  /// One kind for all layers; 4 stands for p2p and all_gather in turn.
  bool has_two_cp_comm_types() const { return s.fixed("cp_comm_type", 0) == 4; }
  sim::CpCommType cp_comm_type() const {
    return has_two_cp_comm_types() ? sim::CpCommType::p2p
                                   : static_cast<sim::CpCommType>(s.fixed("cp_comm_type", 0));
  }
  std::vector<sim::CpCommType> cp_comm_types() const {
    if (!has_two_cp_comm_types()) return {cp_comm_type()};
    std::vector<sim::CpCommType> all;
    for (std::int64_t i = 0; i < num_layers(); ++i)
      all.push_back(i % 2 == 0 ? sim::CpCommType::p2p : sim::CpCommType::all_gather);
    return all;
  }
  /// The ranks of the inner groups of a2a+p2p.
  int inner_cp() const { return largest_divisor(cp(), s.fixed("inner_cp", 2)); }
  std::vector<std::int64_t> hierarchical_sizes() const {
    if (cp_comm_type() != sim::CpCommType::a2a_p2p) return {};
    return {inner_cp(), cp() / inner_cp()};
  }
  /// The lengths of the documents of a sequence: as equal as possible in units of 2 cp tokens, the longer
  /// ones first, or last. Tokens of padding belong to the last one.
  std::vector<std::int64_t> documents() const {
    const std::int64_t unit = document_unit(), units = drawn_tokens() / unit;
    const std::int64_t number = std::min(s.fixed("documents", 1), units);
    std::vector<std::int64_t> lengths;
    for (std::int64_t d = 0; d < number; ++d)
      lengths.push_back((units / number + (d < units % number ? 1 : 0)) * unit);
    if (s.fixed("longest_last", 0) == 1) std::ranges::reverse(lengths);
    lengths.back() += seq_length() - drawn_tokens();
    return lengths;
  }
  std::int64_t document_unit() const { return s.fixed("document_unit", cp() > 1 ? 2 * cp() : 1); }
  /// Where the documents begin, as the model is told; empty if a sequence is one document.
  std::vector<std::int64_t> cu_seqlens() const {
    const std::vector<std::int64_t> lengths = documents();
    if (lengths.size() == 1) return {};
    std::vector<std::int64_t> offsets = {0};
    for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
  }
  /// Returns the context-parallel rank that has a token of a sequence: each document is cut into 2 cp chunks,
  /// of which rank r has the r-th from the front and the r-th from the back.
  int cp_rank_of(std::int64_t token) const {
    if (cp() == 1) return 0;
    std::int64_t begin = 0, end = 0;
    for (const std::int64_t length : documents()) {
      begin = end;
      end += length;
      if (token < end) break;
    }
    const std::int64_t chunk = (token - begin) / ((end - begin) / (2 * cp()));
    return static_cast<int>(std::min<std::int64_t>(chunk, 2 * cp() - 1 - chunk));
  }
  /// The tokens of a sequence that each context-parallel rank has, in their order.
  std::vector<std::vector<std::int64_t>> tokens_of_cp_ranks() const {
    std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(cp()));
    for (std::int64_t token = 0; token < seq_length(); ++token)
      all[static_cast<std::size_t>(cp_rank_of(token))].push_back(token);
    return all;
  }

  // ---- the loss scale

  enum class Scaled { no, by_a_constant, dynamically };
  /// Losses are not scaled where inputs are special, because gradients that are not finite would skip every
  /// step.
  Scaled scaled() const { return s.special == Special::none ? static_cast<Scaled>(s["scaled"]) : Scaled::no; }
  bool is_scaled() const { return scaled() != Scaled::no; }
  reference::LossScaleSetting loss_scale() const {
    constexpr int kInitialPower = 4;
    return {.initial_power = kInitialPower,
            .least_power = drawn_least_power(s.seed, kInitialPower),
            .growth_interval = scaled() == Scaled::dynamically ? 2 : 0,
            .hysteresis = 1};
  }
  /// Whether this step is skipped. In a scaled training in floats of several steps, one step has a gradient
  /// that is not finite.
  bool skips(std::int64_t step) const {
    if (!is_scaled() || s.dtype == sim::DType::field || s["steps"] == 1) return false;
    return step == sim::KeyedRandom(s.seed).named("skipped").below(0, static_cast<std::uint32_t>(s["steps"]));
  }
  /// Whether gradients overflow in this step on this rank. One rank overflows, among those that read
  /// samples: tensor-parallel rank 0 of the first and of the last stage.
  bool overflows(std::int64_t step, int rank) const {
    if (!skips(step)) return false;
    const std::vector<Place> places = this->places();
    std::vector<int> readers;
    for (int reader = 0; reader < s.group_size; ++reader) {
      const Place& place = places[static_cast<std::size_t>(reader)];
      if (place.tp == 0 && (place.pp == 0 || place.pp + 1 == pp())) readers.push_back(reader);
    }
    const sim::KeyedRandom random = sim::KeyedRandom(s.seed).named("overflow");
    return rank == readers[random.below(0, static_cast<std::uint32_t>(readers.size()))];
  }
  /// The number of optimizer updates before this step.
  std::int64_t updates_before(std::int64_t step) const {
    return updates_in(step, [this](std::int64_t i) { return skips(i); });
  }
  /// The loss scale after all steps, by the reference.
  std::int64_t last_loss_scale() const {
    return loss_scale_after(s["steps"], loss_scale(), [this](std::int64_t step) { return skips(step); });
  }
  /// Whether the gradients of the last step are published: not where it was skipped, nor where a stretch of
  /// the training runs, because it may have no step.
  bool shows_gradients() const { return !s.stretch && !skips(s["steps"] - 1); }

  // ---- the model and its training

  sim::GptConfig model() const {
    return {.dtype = s.dtype,
            .num_layers = num_layers(),
            .hidden_size = s["hidden"],
            .ffn_hidden_size = whole() * s["ffn"],
            .num_attention_heads = whole() * s.fixed("groups", 1) * s["queries"],
            .num_query_groups = whole() * s.fixed("groups", 1),
            .kv_channels = 2 * s["half_channels"],
            .seq_length = seq_length(),
            .micro_batch_size = s["micro_batch"],
            .cu_seqlens = cu_seqlens(),
            .context_parallel_size = cp(),
            .cp_comm_types = cp_comm_types(),
            .vocab_size = vocab_size(),
            .padded_vocab_size = padded_vocabulary(),
            .rotary_base = s["rotary"] == 1 ? 100 : 0,
            .normalization = s["rms_norm"] == 1 ? sim::Norm::rms_norm : sim::Norm::layer_norm,
            .norm_epsilon = {1, 4},
            .activation = s["gated"] == 1 ? sim::Activation::silu : sim::Activation::gelu_tanh,
            .gated = s["gated"] == 1,
            .bias = s["bias"] == 1,
            .add_qkv_bias = s["bias"] == 2,
            .qk_layernorm = s.fixed("qk_layernorm", 0) == 1,
            .window = window(),
            .latent = latent(),
            .untie_embeddings_and_output_weights = !is_tied(),
            .sequence_parallel = sequence_parallel(),
            .recompute = s["recompute"] == 1,
            .experts = has_experts() ? experts().config() : sim::GptExperts{},
            .initial = {.scale = {1, 4}},
            .norm_initial = {.scale = {1, 4}, .center = {1, 1}}};
  }
  /// The window of attention: 0 is none, 1 is one in all layers, and N one in all but every N-th layer.
  /// Latent attention has none.
  std::int64_t window_pattern() const { return s.fixed("latent", 0) == 0 ? s.fixed("window", 0) : 0; }
  sim::AttentionWindow window() const {
    if (window_pattern() == 0) return {};
    sim::AttentionWindow window{.size = s.fixed("window_size", 1)};
    if (window_pattern() > 1) window.attn_skip_freq = sim::LayerPattern{.every = window_pattern()};
    return window;
  }
  /// Latent attention, with a latent state of queries or without one. All sizes differ.
  std::optional<sim::LatentSizes> latent() const {
    if (s.fixed("latent", 0) == 0) return std::nullopt;
    return sim::LatentSizes{.q_lora_rank = s["latent"] == 2 ? 3 : 0,
                            .kv_lora_rank = 2,
                            .qk_head_dim = s["half_channels"],
                            .qk_pos_emb_head_dim = 4 * s["half_channels"],
                            .v_head_dim = 1 + s["half_channels"],
                            .rotary_base = 100};
  }
  sim::PipelineShape pipeline() const {
    return {.pipeline_model_parallel_size = pp(),
            .num_microbatches = microbatches(),
            .virtual_pipeline_model_parallel_size =
                is_interleaved() ? std::optional<std::int64_t>(chunks()) : std::nullopt,
            .microbatch_group_size_per_virtual_pipeline_stage = microbatch_group()};
  }
  sim::ScheduleFunction schedule() const {
    if (is_interleaved()) return sim::interleaved;
    if (s["schedule"] == 0) return sim::no_pipelining;
    return s["schedule"] == 1 ? sim::gpipe : sim::one_forward_one_backward;
  }
  sim::GptTrainingConfig training() const {
    return {.model = model(),
            .placement = sim::place_layers(
                {.num_layers = model().num_layers,
                 .pipeline_model_parallel_size = pp(),
                 .virtual_pipeline_model_parallel_size = pipeline().virtual_pipeline_model_parallel_size}),
            .pipeline = pipeline(),
            .schedule = schedule(),
            .data_parallel = {.bucket_size = s["bucket"] == 0 ? std::nullopt : std::optional(s["bucket"]),
                              .distributed_optimizer = s["distributed"] == 1,
                              .overlap_grad_reduce = s["overlap"] == 1,
                              .average_in_collective = averages_in_collective(),
                              .per_token_loss = per_token()},
            .optimizer = {.epsilon = adam_epsilon(),
                          .weight_decay = {1, 4},
                          .clip_grad = s["clip"] == 1 ? sim::Ratio{1, 2} : sim::Ratio{0, 1},
                          .log_grad_norm = true,
                          .loss_scale = loss_scaling(),
                          .overlap_param_gather = s["overlap"] == 1},
            .whole_sequence_loss = has_whole_sequence_loss()};
  }

  /// Gradients of a drawn trial may be near 0, where rounding decides their signs; a large epsilon keeps
  /// steps from depending on them. A training on text takes steps so small that deviations do not grow.
  sim::Ratio adam_epsilon() const { return {1, s.fixed("epsilon_denominator", 1)}; }
  sim::Ratio learning_rate() const { return {1, s.fixed("learning_rate_denominator", 8)}; }
  std::int64_t padded_vocabulary() const {
    if (!s.text) return whole() * s["vocabulary"];
    return (sim::kByteVocabulary + whole() - 1) / whole() * whole();
  }
  std::int64_t vocab_size() const {
    return s.text ? sim::kByteVocabulary : whole() * s["vocabulary"] - s["padding"];
  }
  /// The number of drawn tokens of a sample. Tokens after them have no loss.
  std::int64_t drawn_tokens() const { return s["sequence"] * sequence_unit(); }
  std::int64_t seq_length() const { return drawn_tokens() + s.fixed("pad", 0) * sequence_unit(); }

  // ---- samples

  /// Returns a sample that is cut, or lengthened with tokens that have no loss.
  static sim::Sample of_length(sim::Sample sample, std::int64_t length) {
    sample.tokens.resize(static_cast<std::size_t>(length), 0);
    sample.labels.resize(sample.tokens.size(), static_cast<std::int32_t>(sim::kIgnoredLabel));
    return sample;
  }
  sim::Sample sample(std::int64_t number) const {
    const std::int64_t length = seq_length();
    if (s.text) return of_length(s.text->sample(number), length);
    const auto ids = drawn_ids(s, fmt::format("sample {}", number), drawn_tokens() + 1, vocab_size());
    const auto mask = drawn_ids(s, fmt::format("mask {}", number), drawn_tokens(), 3);
    const bool ignores = s["ignored"] == 1;
    sim::Sample sample;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const bool is_ignored = ignores && mask[i] == 0;
      sample.tokens.push_back(static_cast<std::int32_t>(ids[i]));
      sample.labels.push_back(static_cast<std::int32_t>(is_ignored ? sim::kIgnoredLabel : ids[i + 1]));
    }
    return of_length(std::move(sample), length);
  }

  /// Returns a sample as the reference cuts it out of the text. An explanation also tries sequences of
  /// another length than the text was cut for.
  sim::Sample reference_sample(std::int64_t number) const {
    if (!s.text) return sample(number);
    const std::int64_t length = seq_length();
    const reference::TextSample stated = reference::text_sample(
        s.text->text(), s.text->begin_of(number), std::min(length, s.text->seq_length()),
        s.text->masks_documents(), sim::kIgnoredLabel);
    return of_length({.tokens = {stated.tokens.begin(), stated.tokens.end()},
                      .labels = {stated.labels.begin(), stated.labels.end()}},
                     length);
  }

  /// Returns the schedule of the plan in the form that the reference takes.
  reference::PipelineSetting pipeline_order() const {
    using enum reference::Schedule;
    constexpr reference::Schedule kSchedules[] = {none, gpipe, one_forward_one_backward};
    return {.schedule = is_interleaved() ? interleaved : kSchedules[std::min<std::int64_t>(s["schedule"], 2)],
            .ranks = pp(),
            .microbatches = microbatches(),
            .chunks = chunks(),
            .group = microbatch_group()};
  }

  // ---- parameters

  /// All parameters in the order of the model; the copy of a tied weight is the last.
  std::vector<GptParameter> parameters() const {
    const sim::GptConfig config = model();
    std::vector<GptParameter> all;
    all.push_back(
        {"embedding.word_embeddings.weight", config.padded_vocab_size, config.hidden_size, Placement::rows});
    if (config.rotary_base == 0)
      all.push_back({"embedding.position_embeddings.weight", config.seq_length, config.hidden_size});
    for (std::int64_t i = 0; i < config.num_layers; ++i) add_layer(config, i, all);
    add_norm(config, "decoder.final_layernorm", stages() - 1, all);
    const bool is_copy = is_tied() && stages() > 1;
    if (!is_tied() || is_copy) {
      all.push_back({.name = "output_layer.weight",
                     .rows = config.padded_vocab_size,
                     .columns = config.hidden_size,
                     .placement = Placement::rows,
                     .stage = stages() - 1,
                     .same_as = is_copy ? "embedding.word_embeddings.weight" : ""});
    }
    return all;
  }
  /// Orders of the axes; the first is Megatron's default.
  static constexpr std::array kOrders = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp",
                                         "dp-cp-ep-tp-pp", "pp-dp-cp-ep-tp", "dp-cp-ep-pp-tp"};
  const char* order() const { return kOrders[static_cast<std::size_t>(s.fixed("order", 0))]; }
  /// The coordinates of a rank, among the ranks of dense parameters and among those of experts.
  struct Place {
    int tp = 0, cp = 0, dp = 0, pp = 0;
    int etp = 0, ep = 0, edp = 0;
  };
  /// The coordinates of all ranks. The first axis of the order varies fastest.
  std::vector<Place> places() const {
    std::vector<Place> all;
    for (const auto& [tp, cp, ep, dp, pp] : coordinates({tp(), cp(), 1, dp(), pp()}))
      all.push_back({.tp = tp, .cp = cp, .dp = dp, .pp = pp});
    if (!has_experts()) return all;
    const GptExpertsPlan experts = this->experts();
    const std::vector<Coordinates> of_experts =
        coordinates({experts.etp(), 1, experts.ep(), experts.edp(), pp()});
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      all[rank].etp = of_experts[rank][0];
      all[rank].ep = of_experts[rank][2];
      all[rank].edp = of_experts[rank][3];
    }
    return all;
  }
  /// Returns the declaration of an output of a parameter: which ranks publish it, and which part each has.
  /// With `adds`, the ranks of one part publish terms of a sum, and a replicated parameter has a copy for
  /// each tp rank.
  CaseOutput output(const GptParameter& parameter, const char* what, bool adds,
                    const std::vector<Place>& places) const {
    CaseOutput output{.name = parameter.name + what,
                      .placement = parameter.placement,
                      .stride = parameter.stride,
                      .adds = adds};
    const std::int64_t pp_rank = parameter.stage % pp();
    const bool is_expert = parameter.expert >= 0;
    const std::int64_t ep_rank = is_expert ? parameter.expert / experts().local() : 0;
    output.part_of.reserve(places.size());
    for (const Place& place : places) {
      const bool is_here = pp_rank == place.pp && (!is_expert || ep_rank == place.ep);
      const int own = is_expert ? place.etp : place.tp;
      const int part = adds || parameter.placement != Placement::replicated ? own : 0;
      output.part_of.push_back(is_here ? part : -1);
    }
    return output;
  }
  /// The names of the routers that have an expert bias, with their stages.
  struct BiasedRouter {
    std::string name;
    std::int64_t layer = 0;
    std::int64_t stage = 0;
  };
  std::vector<BiasedRouter> biased_routers() const {
    std::vector<BiasedRouter> all;
    if (!has_experts() || !experts().has_expert_bias()) return all;
    for (std::int64_t i = 0; i < num_layers(); ++i)
      if (experts().are_in(i))
        all.push_back({fmt::format("decoder.layers.{}.mlp.router", i), i, stage_of(i)});
    return all;
  }
  std::int64_t stage_of(std::int64_t layer) const { return layer / (num_layers() / stages()); }

 private:
  /// Coordinates along tp, cp, ep, dp and pp.
  using Coordinates = std::array<int, 5>;
  /// The coordinates of all ranks along axes of these sizes.
  std::vector<Coordinates> coordinates(const Coordinates& sizes) const {
    constexpr std::array<std::string_view, 5> kAxes = {"tp", "cp", "ep", "dp", "pp"};
    const std::string_view order = this->order();
    Coordinates strides = {};
    int stride = 1;
    for (std::size_t at = 0; at < order.size(); at += 3) {
      for (std::size_t axis = 0; axis < kAxes.size(); ++axis)
        if (order.substr(at, 2) == kAxes[axis]) strides[axis] = std::exchange(stride, stride * sizes[axis]);
    }
    std::vector<Coordinates> all(static_cast<std::size_t>(s.group_size));
    for (int rank = 0; rank < s.group_size; ++rank) {
      for (std::size_t axis = 0; axis < kAxes.size(); ++axis)
        all[static_cast<std::size_t>(rank)][axis] = rank / strides[axis] % sizes[axis];
    }
    return all;
  }
  sim::LossScaleConfig loss_scaling() const {
    return is_scaled() ? loss_scale_config(loss_scale()) : sim::LossScaleConfig{};
  }
  void add_norm(const sim::GptConfig& config, const std::string& name, std::int64_t stage,
                std::vector<GptParameter>& all) const {
    for (const char* what : {".weight", ".bias"}) {
      if (what[1] == 'b' && config.normalization == sim::Norm::rms_norm) continue;
      all.push_back({.name = name + what,
                     .columns = config.hidden_size,
                     .stage = stage,
                     .is_vector = true,
                     .is_norm = true,
                     .has_grad_of_tokens = true});
    }
  }
  /// Adds the norms of queries and keys, if there are some. A norm is as wide as a head, and a rank has the
  /// gradient of its own heads.
  void add_head_norms(const sim::GptConfig& config, const std::string& name, std::int64_t stage,
                      std::vector<GptParameter>& all) const {
    if (!config.qk_layernorm) return;
    const std::size_t first = all.size();
    for (const char* of : {"q_layernorm", "k_layernorm"}) add_norm(config, name + of, stage, all);
    for (std::size_t i = first; i < all.size(); ++i) {
      all[i].columns = config.kv_channels;
      all[i].has_grad_of_tokens = false;
      all[i].has_grad_of_heads = true;
    }
  }
  /// Adds a weight [outputs, inputs], which is cut by rows or by columns, and its bias if the model has
  /// biases. The bias is cut like the rows; a weight that is cut by columns has a replicated bias.
  /// With `adds_bias` it has one even if the model has none.
  void add_linear(const sim::GptConfig& config, const std::string& name, std::int64_t outputs,
                  std::int64_t inputs, bool by_rows, int stride, std::int64_t stage,
                  std::vector<GptParameter>& all, bool adds_bias = false) const {
    all.push_back({.name = name + ".weight",
                   .rows = outputs,
                   .columns = inputs,
                   .placement = by_rows ? Placement::rows : Placement::columns,
                   .stride = stride,
                   .stage = stage});
    if (!config.bias && !adds_bias) return;
    all.push_back({.name = name + ".bias",
                   .columns = outputs,
                   .placement = by_rows ? Placement::columns : Placement::replicated,
                   .stride = stride,
                   .stage = stage,
                   .is_vector = true,
                   .has_grad_of_tokens = !by_rows});
  }
  void add_latent_attention(const sim::GptConfig& config, const std::string& name, std::int64_t stage,
                            std::vector<GptParameter>& all) const {
    const LatentLayer layer{.sizes = *config.latent,
                            .hidden = config.hidden_size,
                            .heads = config.num_attention_heads,
                            .has_norms = config.qk_layernorm,
                            .is_layer_norm = config.normalization == sim::Norm::layer_norm,
                            .has_bias = config.bias};
    for (const LatentParameter& parameter : latent_parameters(layer))
      all.push_back({.name = name + parameter.name,
                     .rows = parameter.rows,
                     .columns = parameter.columns,
                     .placement = parameter.placement,
                     .stage = stage,
                     .is_vector = parameter.is_vector,
                     .is_norm = parameter.is_norm,
                     .has_grad_of_tokens = parameter.placement == Placement::replicated});
  }
  void add_self_attention(const sim::GptConfig& config, const std::string& name, std::int64_t stage,
                          std::vector<GptParameter>& all) const {
    const std::int64_t context = config.num_attention_heads * config.kv_channels;
    const std::int64_t qkv = context + 2 * config.num_query_groups * config.kv_channels;
    add_linear(config, name + "linear_qkv", qkv, config.hidden_size, true, 1, stage, all,
               config.add_qkv_bias);
    add_head_norms(config, name, stage, all);
    add_linear(config, name + "linear_proj", config.hidden_size, context, false, 1, stage, all);
  }
  void add_layer(const sim::GptConfig& config, std::int64_t number, std::vector<GptParameter>& all) const {
    const std::string name = fmt::format("decoder.layers.{}.", number);
    const std::int64_t stage = stage_of(number);
    add_norm(config, name + "input_layernorm", stage, all);
    if (config.latent)
      add_latent_attention(config, name + "self_attention.", stage, all);
    else
      add_self_attention(config, name + "self_attention.", stage, all);
    add_norm(config, name + "pre_mlp_layernorm", stage, all);
    if (has_experts() && experts().are_in(number)) return add_experts(config, name + "mlp.", stage, all);
    add_mlp(config, name + "mlp.", config.ffn_hidden_size, stage, all);
  }
  void add_mlp(const sim::GptConfig& config, const std::string& name, std::int64_t ffn, std::int64_t stage,
               std::vector<GptParameter>& all) const {
    const int stride = config.gated ? 2 : 1;
    add_linear(config, name + "linear_fc1", stride * ffn, config.hidden_size, true, stride, stage, all);
    add_linear(config, name + "linear_fc2", config.hidden_size, ffn, false, 1, stage, all);
  }
  void add_experts(const sim::GptConfig& config, const std::string& name, std::int64_t stage,
                   std::vector<GptParameter>& all) const {
    const GptExpertsPlan experts = this->experts();
    const auto add_replicated = [&](const char* what, std::int64_t rows) {
      all.push_back({.name = name + what,
                     .rows = rows,
                     .columns = config.hidden_size,
                     .stage = stage,
                     .has_grad_of_tokens = true});
    };
    add_replicated("router.weight", experts.number());
    const std::size_t first = all.size();
    for (std::int64_t e = 0; e < experts.number(); ++e) {
      const std::size_t begin = all.size();
      add_mlp(config, fmt::format("{}experts.local_experts.{}.", name, e), experts.ffn(), stage, all);
      for (std::size_t i = begin; i < all.size(); ++i) all[i].expert = e;
    }
    // Each rank computes the gradients of its experts from all tokens that are sent to them.
    for (std::size_t i = first; i < all.size(); ++i) all[i].has_grad_of_tokens = false;
    if (!experts.are_shared()) return;
    sim::GptConfig without_bias = config;
    without_bias.bias = false;
    add_mlp(without_bias, name + "shared_experts.", experts.shared_ffn(), stage, all);
    if (experts.has_gate()) add_replicated("shared_experts.gate_weight", 1);
  }
};

}  // namespace verify
