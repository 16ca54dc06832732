#pragma once

/// The options that only memory depends on: the kernels of a run, its dropout, what it computes again, and
/// what the GPU has. They have Megatron's defaults.
///
/// Exact   --recompute-activations of a run of --from is selective recomputation. A module of
///         --recompute-modules counts only beside --recompute-granularity selective; without a list it is
///         core_attn.
/// Errors  not_a_number: a dropout that is no decimal number; memory_size: a text that is no such size. What
///         Megatron refuses of them is in rules.tsv.
/// Source  Megatron-LM at d98e8a64ddf3: training/arguments.py, core/transformer/transformer_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verify {

class Settings;

/// How the loss is computed from the logits.
enum class LossKernel { unfused, fused, transformer_engine };

enum class RecomputeMethod { none, uniform, block, modules };

struct MemoryOptions {
  bool local_layers = false;          // --transformer-impl local: layers without Transformer Engine
  bool keeps_scores = false;          // attention without a flash kernel keeps its scores
  bool hidden_dropout = true;         // dropout of more than 0
  bool attention_dropout = true;      // dropout of more than 0
  bool attention_mask = true;         // the data loader makes a mask for each microbatch
  bool fused_weight_gradient = true;  // added to the gradient buffer by the matrix product itself
  bool fused_gate = true;      // one kernel multiplies the gate's activation, and keeps its input alone
  bool te_activation = false;  // Transformer Engine's kernel of the activation, which keeps its input alone
  bool fused_squared_relu = false;  // one kernel squares in experts, and multiplies by the probabilities
  bool fused_softmax = true;        // a kernel scales, masks and normalizes the scores of local layers
  bool softmax_in_fp32 = false;     // that of local layers, where no fused kernel computes it
  bool fused_rope = true;           // a kernel rotates queries and keys, and keeps no tables
  bool grouped_experts = false;
  /// Shared experts run while tokens travel to the others, and gather their input themselves.
  bool overlaps_shared_experts = false;
  bool fused_permutation = false;  // Transformer Engine's kernels order the rows of experts
  bool fused_router = false;       // its kernel chooses experts
  std::int64_t router_bytes = 0;   // of a logit and of a probability; 0: those of an element
  /// The microbatches whose weight gradient of the output layer waits for the drain; 0: all; absent: none.
  std::optional<std::int64_t> deferred_microbatches = {};
  bool gathers_keys = false;  // --cp-comm-type all_gather in all layers
  LossKernel loss = LossKernel::unfused;
  RecomputeMethod recompute = RecomputeMethod::none;
  std::int64_t recompute_layers = 1;      // of a group (uniform), or of each chunk (block)
  std::vector<std::string> modules = {};  // those that are computed again
  bool distributes_saved = false;  // a tensor-parallel rank keeps its part of a recomputed layer's input
  std::optional<std::int64_t> workspace = {};   // bytes; absent: those of fixed_memory.h
  std::optional<std::int64_t> gpu_memory = {};  // bytes that a rank may hold; absent: it is not judged

  bool recomputes(const std::string& module) const;
  bool recomputes_layers() const {
    return recompute == RecomputeMethod::uniform || recompute == RecomputeMethod::block;
  }
};

MemoryOptions memory_options(const Settings& settings);

/// Whether whole layers are computed again: of --recompute-method block, no layers may be.
bool recomputes_layers(const Settings& settings);

}  // namespace verify
