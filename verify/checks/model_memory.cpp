#include "verify/checks/model_memory.h"

#include <algorithm>
#include <fmt/format.h>

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

std::string text_of_most(const MemoryReport& report) {
  const auto most = std::max_element(report.stages.begin(), report.stages.end(),
                                     [](const auto& a, const auto& b) { return a.all() < b.all(); });
  const std::string activations =
      report.has_activations ? fmt::format(", {} of activations", byte_text(most->activations)) : "";
  return fmt::format(
      "stage {} holds most: {} of parameters, {} of gradients, {} of optimizer states over {}{}; {} a rank "
      "({}, {})",
      most - report.stages.begin(), byte_text(most->parameters), byte_text(most->gradients),
      byte_text(most->optimizer), counted(report.owners, "owner"), activations, byte_text(most->all()),
      report.state.dtypes, report.state.is_distributed ? "ZeRO-1" : "no ZeRO-1");
}

void add_activations(const ModelShape& shape, const sim::Layout& layout, const sim::LayerPlacement& placement,
                     const ActivationRun& run, MemoryReport& report) {
  const ActivationShape activations{.model = shape,
                                    .padded_vocab_size = padded_vocabulary(shape, layout.tp),
                                    .tokens = run.tokens,
                                    .element_bytes = report.state.parameter,
                                    .tp = layout.tp,
                                    .sequence_parallel = run.sequence_parallel,
                                    .recompute = run.recompute};
  if (!can_be_counted(activations, run.pipeline)) return;
  const auto bytes = activation_bytes(activations, placement, run.schedule, run.pipeline);
  for (std::size_t stage = 0; stage < bytes.size(); ++stage) report.stages[stage].activations = bytes[stage];
  report.has_activations = true;
}

}  // namespace

std::vector<HeldParameter> held_parameters(const ModelShape& shape, const Stage& stage, int tp) {
  const std::int64_t h = shape.hidden_size, f = shape.ffn_hidden_size;
  const std::int64_t attended = shape.num_attention_heads * shape.head_size();
  const std::int64_t qkv = attended + 2 * shape.num_query_groups * shape.head_size();
  const std::int64_t up = shape.gated_mlp ? 2 * f : f;
  const std::int64_t vocabulary = padded_vocabulary(shape, tp);
  std::vector<HeldParameter> held;
  const auto replicated = [&](std::int64_t elements) { held.push_back({elements}); };
  const auto sharded = [&](std::int64_t elements, bool is_shared = false) {
    held.push_back({elements / tp, true, is_shared});
  };
  const auto norm = [&] {
    replicated(h);
    if (!shape.rms_norm) replicated(h);
  };
  const auto linear = [&](std::int64_t outputs, std::int64_t inputs, bool by_rows, bool adds_bias = false) {
    sharded(outputs * inputs);
    if (!shape.linear_bias && !adds_bias) return;
    if (by_rows) {
      sharded(outputs);
    } else {
      replicated(outputs);
    }
  };
  const bool tied = is_tied_across_stages(shape, stage);
  if (stage.is_first) {
    sharded(vocabulary * h, tied);
    if (shape.learned_positions) replicated(shape.positions() * h);
  }
  for (std::int64_t layer = 0; layer < stage.layers; ++layer) {
    norm();
    linear(qkv, h, true, shape.add_qkv_bias);
    linear(h, attended, false);
    norm();
    linear(up, h, true);
    linear(h, f, false);
  }
  if (stage.is_last) {
    norm();
    if (shape.untied_output || tied) sharded(vocabulary * h, tied);
  }
  return held;
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
  const int owners = state.is_distributed ? layout.dp * layout.cp / layout.instances : 1;
  const auto stages = static_cast<int>(placement.stages.size());
  std::int64_t elements = 0;
  MemoryReport report{.row = {}, .owners = owners, .state = state};
  for (int s = 0; s < stages; ++s) {
    Stage stage{.is_first = s == 0, .is_last = s + 1 == stages};
    for (const sim::StageLayers& chunk : placement.stages[static_cast<std::size_t>(s)])
      stage.layers += chunk.count;
    const std::vector<HeldParameter> held = held_parameters(shape, stage, layout.tp);
    for (const HeldParameter& parameter : held) {
      const bool is_copy = parameter.is_shared && stage.is_last;
      if (!is_copy) elements += parameter.elements * (parameter.is_sharded ? layout.tp : 1);
    }
    report.stages.push_back(held_bytes(held, owners, state));
  }
  if (run) add_activations(shape, layout, placement, *run, report);
  const std::int64_t padding = (padded_vocabulary(shape, layout.tp) - shape.vocab_size) * shape.hidden_size *
                               (shape.untied_output ? 2 : 1);
  const std::int64_t expected = parameter_count(shape) + padding;
  report.row = elements == expected
                   ? CheckResult{"memory", true, text_of_most(report)}
                   : CheckResult{"memory", false,
                                 fmt::format("ranks hold {} elements in all, but the model has {}", elements,
                                             expected)};
  return report;
}

}  // namespace verify
