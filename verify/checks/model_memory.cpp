#include "verify/checks/model_memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/optimizer/range_map.h"
#include "verify/checks/activation_memory.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

std::int64_t padded_vocabulary(const ModelShape& shape, int tp) {
  return *verify::padded_vocabulary(shape.vocab_size, tp, shape.make_vocab_size_divisible_by);
}

bool is_tied_across_stages(const ModelShape& shape, const Stage& stage) {
  return !shape.untied_output && stage.is_first != stage.is_last;
}

/// What the row says of experts; "" for a dense model.
std::string text_of_experts(const MemoryReport& report, const HeldBytes& most) {
  if (report.expert_owners == 0) return "";
  return fmt::format(" ({} of these parameters are experts, whose states have {})",
                     byte_text(most.expert_parameters), counted(report.expert_owners, "owner"));
}

std::string text_of_most(const MemoryReport& report, bool has_experts) {
  const auto most = std::max_element(report.stages.begin(), report.stages.end(),
                                     [](const auto& a, const auto& b) { return a.all() < b.all(); });
  const std::string activations = report.has_activations
                                      ? fmt::format(", {} of activations{}", byte_text(most->activations),
                                                    has_experts ? " if the router spreads tokens evenly" : "")
                                      : "";
  return fmt::format(
      "stage {} holds most: {} of parameters, {} of gradients, {} of optimizer states over {}{}{}; {} a rank "
      "({}, {})",
      most - report.stages.begin(), byte_text(most->parameters), byte_text(most->gradients),
      byte_text(most->optimizer), counted(report.owners, "owner"), text_of_experts(report, *most),
      activations, byte_text(most->all()), report.state.dtypes,
      report.state.is_distributed ? "ZeRO-1" : "no ZeRO-1");
}

void add_activations(const ModelShape& shape, const sim::Layout& layout, const sim::LayerPlacement& placement,
                     const ActivationRun& run, MemoryReport& report) {
  const ActivationShape activations{.model = shape,
                                    .padded_vocab_size = padded_vocabulary(shape, layout.tp),
                                    .tokens = run.tokens,
                                    .element_bytes = report.state.parameter,
                                    .tp = layout.tp,
                                    .etp = layout.etp,
                                    .sequence_parallel = run.sequence_parallel,
                                    .recompute = run.recompute};
  if (!can_be_counted(activations, run.pipeline)) return;
  const auto bytes = activation_bytes(activations, placement, run.schedule, run.pipeline);
  for (std::size_t stage = 0; stage < bytes.size(); ++stage) report.stages[stage].activations = bytes[stage];
  report.has_activations = true;
}

/// Lists the parameters of a stage, in the order of the model.
class Holder {
 public:
  Holder(const ModelShape& shape, const ShardSizes& sizes) : shape_(shape), sizes_(sizes) {}

  void embedding(bool is_tied) {
    sharded(vocabulary() * shape_.hidden_size, is_tied);
    if (shape_.learned_positions) replicated(shape_.positions() * shape_.hidden_size);
  }
  void layer(std::int64_t number) {
    const std::int64_t h = shape_.hidden_size;
    const std::int64_t attended = shape_.num_attention_heads * shape_.head_size();
    const std::int64_t qkv = attended + 2 * shape_.num_query_groups * shape_.head_size();
    norm();
    linear(qkv, h, true, shape_.linear_bias || shape_.add_qkv_bias);
    linear(h, attended, false, shape_.linear_bias);
    norm();
    if (shape_.experts.are_in(number)) {
      experts();
    } else {
      mlp(shape_.ffn_hidden_size, shape_.linear_bias);
    }
  }
  void output(bool is_tied_copy) {
    norm();
    if (shape_.untied_output || is_tied_copy) sharded(vocabulary() * shape_.hidden_size, is_tied_copy);
  }
  std::vector<HeldParameter> held() { return std::move(held_); }

 private:
  std::int64_t vocabulary() const { return padded_vocabulary(shape_, sizes_.tp); }
  std::int64_t up(std::int64_t inside) const { return (shape_.gated_mlp ? 2 : 1) * inside; }

  void replicated(std::int64_t elements) { held_.push_back({.elements = elements}); }
  void sharded(std::int64_t elements, bool is_shared = false) {
    held_.push_back({.elements = elements / sizes_.tp, .shards = sizes_.tp, .is_shared = is_shared});
  }
  void norm() {
    replicated(shape_.hidden_size);
    if (!shape_.rms_norm) replicated(shape_.hidden_size);
  }
  void linear(std::int64_t outputs, std::int64_t inputs, bool by_rows, bool has_bias) {
    sharded(outputs * inputs);
    if (!has_bias) return;
    if (by_rows) {
      sharded(outputs);
    } else {
      replicated(outputs);
    }
  }
  void mlp(std::int64_t inside, bool has_bias) {
    linear(up(inside), shape_.hidden_size, true, has_bias);
    linear(shape_.hidden_size, inside, false, has_bias);
  }
  /// A rank holds an ep-th of the experts, each cut over etp. A bias needs etp 1.
  void expert() {
    const std::int64_t h = shape_.hidden_size, f = shape_.experts.moe_ffn_hidden_size;
    const auto cut = [&](std::int64_t elements) {
      held_.push_back({.elements = elements / sizes_.etp,
                       .shards = std::int64_t{sizes_.ep} * sizes_.etp,
                       .is_expert = true});
    };
    cut(up(f) * h);
    if (shape_.linear_bias) cut(up(f));
    cut(h * f);
    if (shape_.linear_bias) cut(h);
  }
  void experts() {
    const ExpertOptions& experts = shape_.experts;
    replicated(experts.num_experts * shape_.hidden_size);
    if (shape_.linear_bias) replicated(experts.num_experts);
    for (std::int64_t e = 0; e < experts.num_experts / sizes_.ep; ++e) expert();
    if (experts.shared_expert_intermediate_size == 0) return;
    mlp(experts.shared_expert_intermediate_size, false);
    if (experts.shared_expert_gate) replicated(shape_.hidden_size);
  }

  const ModelShape& shape_;
  ShardSizes sizes_;
  std::vector<HeldParameter> held_;
};

/// Returns the bytes of all buffers of a stage: those of experts are apart where their grid is another one.
HeldBytes bytes_of_stage(std::vector<HeldParameter> held, const MemoryReport& report) {
  std::vector<HeldParameter> experts;
  if (report.expert_owners > 0) {
    std::ranges::copy_if(held, std::back_inserter(experts), &HeldParameter::is_expert);
    std::erase_if(held, [](const HeldParameter& parameter) { return parameter.is_expert; });
  }
  HeldBytes bytes = held_bytes(held, report.owners, report.state);
  if (experts.empty()) return bytes;
  const HeldBytes of_experts = held_bytes(experts, report.expert_owners, report.state);
  bytes.parameters += of_experts.parameters;
  bytes.gradients += of_experts.gradients;
  bytes.optimizer += of_experts.optimizer;
  bytes.expert_parameters = of_experts.parameters;
  return bytes;
}

}  // namespace

std::vector<HeldParameter> held_parameters(const ModelShape& shape, const Stage& stage,
                                           const ShardSizes& sizes) {
  Holder holder(shape, sizes);
  const bool tied = is_tied_across_stages(shape, stage);
  if (stage.is_first) holder.embedding(tied);
  for (const sim::StageLayers& chunk : stage.layers)
    for (std::int64_t layer = chunk.offset; layer < chunk.offset + chunk.count; ++layer) holder.layer(layer);
  if (stage.is_last) holder.output(tied);
  return holder.held();
}

HeldBytes held_bytes(const std::vector<HeldParameter>& parameters, int owners, const StateBytes& state) {
  std::vector<sim::BufferParameter> sizes;
  for (const HeldParameter& parameter : parameters)
    sizes.push_back({parameter.elements, parameter.is_shared});
  const std::int64_t bucket_size = std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * owners);
  const sim::BufferLayout layout = sim::buffer_layout(
      sizes, {.owners = owners, .bucket_size = bucket_size, .distributed_optimizer = state.is_distributed});
  std::int64_t most = 0;
  for (int rank = 0; rank < owners && state.is_distributed; ++rank) {
    std::int64_t owned = 0;
    for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket) {
      for (const sim::OwnedPiece& piece : sim::owned_pieces(layout, bucket, rank))
        owned += piece.param.size();
    }
    most = std::max(most, owned);
  }
  if (!state.is_distributed) most = layout.numel();
  return {.parameters = layout.numel() * state.parameter,
          .gradients = layout.numel() * state.gradient,
          .optimizer = most * state.optimizer};
}

MemoryReport check_memory(const ModelShape& shape, const sim::Layout& layout,
                          const sim::LayerPlacement& placement, const std::optional<ActivationRun>& run,
                          const StateBytes& state) {
  const ShardSizes sizes{.tp = layout.tp, .ep = layout.ep, .etp = layout.etp};
  const bool has_experts = shape.experts.num_experts > 0;
  const auto owners = [&](int replicas) { return state.is_distributed ? replicas / layout.instances : 1; };
  const auto stages = static_cast<int>(placement.stages.size());
  std::int64_t elements = 0;
  MemoryReport report{.row = {},
                      .owners = owners(layout.dp * layout.cp),
                      .expert_owners = has_experts && sizes.has_expert_grid() ? owners(layout.edp) : 0,
                      .state = state};
  for (int s = 0; s < stages; ++s) {
    const Stage stage{.layers = placement.stages[static_cast<std::size_t>(s)],
                      .is_first = s == 0,
                      .is_last = s + 1 == stages};
    std::vector<HeldParameter> held = held_parameters(shape, stage, sizes);
    for (const HeldParameter& parameter : held) {
      const bool is_copy = parameter.is_shared && stage.is_last;
      if (!is_copy) elements += parameter.elements * parameter.shards;
    }
    report.stages.push_back(bytes_of_stage(std::move(held), report));
  }
  if (run) add_activations(shape, layout, placement, *run, report);
  const std::int64_t padding = (padded_vocabulary(shape, layout.tp) - shape.vocab_size) * shape.hidden_size *
                               (shape.untied_output ? 2 : 1);
  const std::int64_t expected = parameter_count(shape) + padding;
  report.row = elements == expected
                   ? CheckResult{"memory", true, text_of_most(report, has_experts)}
                   : CheckResult{"memory", false,
                                 fmt::format("ranks hold {} elements in all, but the model has {}", elements,
                                             expected)};
  return report;
}

}  // namespace verify
