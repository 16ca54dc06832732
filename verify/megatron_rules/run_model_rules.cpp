#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "sim/base/error.h"
#include "verify/megatron_rules/run_rule.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify {

namespace {

constexpr const char* kPositions = "position-embedding-type";
constexpr const char* kTransformerImpl = "transformer-impl";
constexpr const char* kNoBlanks =
    "an expression for a list is of digits, commas, brackets, '+' and '*', without a blank";

std::string positions_of(const JudgedRun& r) { return r.derived_text("position_embedding_type"); }

bool is_layer_list_broken(const JudgedRun& r) {
  const std::string given = r.text("no-rope-freq");
  if (given.empty() || given == "0" || !r.layers()) return false;
  try {
    const LayerPattern pattern = parse_layer_pattern(given);
    return pattern.entries.empty() ? is_undivided(r.layers(), pattern.every)
                                   : std::ssize(pattern.entries) != *r.layers();
  } catch (const sim::Error&) {
    return true;
  }
}

/// Whether the bias is added inside the kernel of the activation.
bool fuses_bias(const JudgedRun& r) {
  return r.flag("swiglu") ? !r.flag("no-bias-swiglu-fusion") : r.derived_flag("bias_gelu_fusion");
}

/// Numbers of layers, hidden elements, heads and positions that fit the other sizes of the run.
std::string layers_to_try(const JudgedRun& r) {
  const auto layers = multiple_from(24, product_of({r.pp(), r.derived("vpp").value_or(1)}));
  return layers ? fmt::format("--num-layers {}", *layers) : "";
}
std::string hidden_size_to_try(const JudgedRun& r) {
  const auto size = multiple_from(1024, product_of({r.number("num-attention-heads", 1), 64}));
  return size ? fmt::format("--hidden-size {}", *size) : "";
}
std::string heads_to_try(const JudgedRun& r) {
  const auto size = r.number("hidden-size");
  const auto ranks = product_of({r.tp(), r.number("num-query-groups", 1)});
  const auto heads = size && *size % 64 == 0 ? JudgedRun::Number(*size / 64) : std::nullopt;
  return heads && ranks && !is_undivided(heads, ranks) ? fmt::format("--num-attention-heads {}", *heads) : "";
}
std::string positions_to_try(const JudgedRun& r) {
  const auto sequence = r.derived("seq_length");
  return sequence ? fmt::format("--max-position-embeddings {}", *sequence) : "";
}

/// Whether an expression for a list has a blank. One behind a number is no expression.
bool has_blank_in_list(const JudgedRun& r, const char* name) {
  const std::string text = r.text(name);
  return text.find('[') != std::string::npos && text.find(' ') != std::string::npos;
}

bool is_required_missing(const JudgedRun& r, const char* name) { return !r.has(name); }

}  // namespace

/// The rules about the sizes of the model, its positions and its activation.
std::vector<RunRule> run_model_rules() {
  return {
      {"two_layer_counts",
       {"num-layers", "encoder-num-layers"},
       [](const JudgedRun& r) {
         return r.has("num-layers") && r.has("encoder-num-layers") && r.hybrid_pattern().empty();
       },
       "one argument gives the number of layers",
       "--num-layers"},
      {"no_layer_count",
       {"num-layers", "encoder-num-layers"},
       [](const JudgedRun& r) { return !r.layers(); },
       "Megatron has no default for the number of layers, and a checkpoint that holds it is not read here",
       "--num-layers 24",
       {},
       layers_to_try},
      {"required_arg_missing",
       {"hidden-size"},
       [](const JudgedRun& r) { return is_required_missing(r, "hidden-size"); },
       "Megatron has no default for this argument, and a checkpoint that holds it is not read here",
       "--hidden-size 1024",
       {},
       hidden_size_to_try},
      {"required_arg_missing",
       {"num-attention-heads"},
       [](const JudgedRun& r) { return is_required_missing(r, "num-attention-heads"); },
       "Megatron has no default for this argument, and a checkpoint that holds it is not read here",
       "--num-attention-heads 16",
       {},
       heads_to_try},
      {"required_arg_missing",
       {"max-position-embeddings"},
       [](const JudgedRun& r) { return is_required_missing(r, "max-position-embeddings"); },
       "Megatron has no default for this argument, and a checkpoint that holds it is not read here",
       "--max-position-embeddings of the sequence length",
       {},
       positions_to_try},
      {"two_seq_lengths",
       {"seq-length", "encoder-seq-length"},
       [](const JudgedRun& r) { return r.has("seq-length") && r.has("encoder-seq-length"); },
       "one argument gives the sequence length",
       "--seq-length"},
      {"no_seq_length",
       {"seq-length", "encoder-seq-length"},
       [](const JudgedRun& r) { return !r.has("seq-length") && !r.has("encoder-seq-length"); },
       "Megatron has no default for the sequence length",
       "--seq-length 4096"},
      {"max_positions_below_decoder_seq",
       {"max-position-embeddings", "decoder-seq-length"},
       [](const JudgedRun& r) {
         const auto positions = r.number("max-position-embeddings"),
                    sequence = r.number("decoder-seq-length");
         return positions && sequence && *positions < *sequence;
       },
       "a sequence of the decoder is no longer than there are positions",
       "a larger --max-position-embeddings"},
      {"zero_division",
       {"make-vocab-size-divisible-by"},
       [](const JudgedRun& r) { return r.number("make-vocab-size-divisible-by") == std::int64_t{0}; },
       "Megatron divides by this number",
       "--make-vocab-size-divisible-by 128"},
      {"layer_divide",
       {"padded-vocab-size", "tensor-model-parallel-size"},
       [](const JudgedRun& r) {
         const auto padded = r.number("padded-vocab-size");
         return padded && *padded > 0 && is_undivided(padded, r.tp());
       },
       "every tensor-parallel rank has as many entries of the vocabulary",
       "a multiple of tp, or leave it out"},
      {"two_activations",
       {"swiglu", "squared-relu"},
       [](const JudgedRun& r) { return r.flag("swiglu") && r.flag("squared-relu"); },
       "the MLP has one activation",
       "one of them"},
      {"two_activations",
       {"swiglu", "quick-geglu"},
       [](const JudgedRun& r) { return r.flag("swiglu") && r.flag("quick-geglu"); },
       "the MLP has one activation",
       "one of them"},
      {"bias_fusion_activation",
       {"squared-relu", "no-bias-gelu-fusion"},
       [](const JudgedRun& r) { return r.flag("squared-relu") && !r.flag("swiglu") && fuses_bias(r); },
       "a bias is fused with GELU, SwiGLU and quick GEGLU alone",
       "--no-bias-gelu-fusion"},
      {"bias_fusion_and_te_activation",
       {"use-te-activation-func", "no-bias-gelu-fusion", "no-bias-swiglu-fusion"},
       [](const JudgedRun& r) { return r.flag("use-te-activation-func") && fuses_bias(r); },
       "an activation of Transformer Engine is not fused with a bias",
       "--no-bias-swiglu-fusion with --swiglu, or else --no-bias-gelu-fusion"},
      {"te_activation_function",
       {"use-te-activation-func", "squared-relu", "quick-geglu"},
       [](const JudgedRun& r) {
         return r.flag("use-te-activation-func") && !r.flag("swiglu") &&
                (r.flag("squared-relu") || r.flag("quick-geglu"));
       },
       "the activations of Transformer Engine are GELU, SwiGLU and ReLU",
       "leave --use-te-activation-func out"},
      {"glu_offset",
       {"glu-linear-offset", "quick-geglu"},
       [](const JudgedRun& r) {
         return r.decimal("glu-linear-offset").value_or(0) != 0 && fuses_bias(r) && !r.flag("quick-geglu");
       },
       "an offset of the gate is fused with a bias in quick GEGLU alone",
       "--quick-geglu in the place of --swiglu, or leave --glu-linear-offset out"},
      {"fused_residual_norm",
       {"fused-residual-rmsnorm", "normalization"},
       [](const JudgedRun& r) {
         return r.flag("fused-residual-rmsnorm") && !r.is("normalization", "RMSNorm");
       },
       "a residual connection is fused with RMSNorm alone",
       "--normalization RMSNorm"},
      {"relative_needs_te",
       {kPositions, kTransformerImpl},
       [](const JudgedRun& r) {
         return positions_of(r) == "relative" &&
                r.text(kTransformerImpl, "transformer_engine") != "transformer_engine";
       },
       "relative positions need the implementation of Transformer Engine",
       "--transformer-impl transformer_engine"},
      {"mrope_section_missing",
       {kPositions, "mrope-section"},
       [](const JudgedRun& r) { return positions_of(r) == "mrope" && !r.has("mrope-section"); },
       "positions of the type mrope need the sizes of their sections",
       "--mrope-section"},
      {"mtp_position_embedding",
       {"mtp-num-layers", kPositions},
       [](const JudgedRun& r) {
         return JudgedRun::above(r.derived("mtp_num_layers"), 0) && positions_of(r) != "rope" &&
                positions_of(r) != "none";
       },
       "layers of multi-token prediction have rotary positions, or none",
       "--position-embedding-type rope"},
      {"pattern_blanks",
       {"moe-layer-freq"},
       [](const JudgedRun& r) { return has_blank_in_list(r, "moe-layer-freq"); },
       kNoBlanks,
       "--moe-layer-freq '([0]*3+[1]*58)'"},
      {"pattern_blanks",
       {"no-rope-freq"},
       [](const JudgedRun& r) { return has_blank_in_list(r, "no-rope-freq"); },
       kNoBlanks,
       "--no-rope-freq '([0]*3+[1])*8'"},
      {"pattern_blanks",
       {"linear-attention-freq"},
       [](const JudgedRun& r) { return has_blank_in_list(r, "linear-attention-freq"); },
       kNoBlanks,
       "--linear-attention-freq '([1]*3+[0])*8'"},
      {"pattern_blanks",
       {"window-attn-skip-freq"},
       [](const JudgedRun& r) { return has_blank_in_list(r, "window-attn-skip-freq"); },
       kNoBlanks,
       "--window-attn-skip-freq '([1]*3+[0])*8'"},
      {"norope_layers",
       {"no-rope-freq"},
       is_layer_list_broken,
       "layers without rotary positions are every N-th of a multiple of N, or a list with an entry for each "
       "layer",
       "a number that divides the layers",
       {"num_layers"}},
  };
}

}  // namespace verify
