#include "verify/megatron_rules/megatron_rule.h"

namespace verify::megatron {

namespace {

constexpr bool kInLegacy = true;

MaybeBreak heads_do_not_divide_hidden(const Settings& s) {
  const auto hidden = s.number("hidden-size"), heads = s.number("num-attention-heads");
  if (!hidden || !heads || s.has("kv-channels")) return std::nullopt;
  return broken_if(*hidden % *heads != 0, fmt::format("hidden size {}, {} heads", *hidden, *heads),
                   "another number of heads, or --kv-channels");
}

MaybeBreak groups_do_not_divide_heads(const Settings& s) {
  const auto groups = query_groups(s);
  if (!groups) return std::nullopt;
  const std::int64_t heads = s.number("num-attention-heads").value_or(tp_of(s));
  return broken_if(heads % *groups != 0, fmt::format("{} heads, {} query groups", heads, *groups),
                   "another number of query groups");
}

MaybeBreak heads_do_not_fit_tp(const Settings& s) {
  const auto groups = query_groups(s);
  if (!groups) return std::nullopt;
  const std::int64_t tp = tp_of(s), heads = s.number("num-attention-heads").value_or(tp);
  const bool fits = heads % tp == 0 && (*groups % tp == 0 || tp % *groups == 0);
  return broken_if(!fits, fmt::format("{} heads, {} query groups, tp {}", heads, *groups, tp),
                   "as many query groups as heads, and a tp that divides both");
}

MaybeBreak ffn_does_not_divide(const Settings& s) {
  return undivided("ffn-hidden-size", ffn_hidden_size(s), tp_of(s), "tensor-parallel ranks");
}

MaybeBreak sequence_does_not_divide_tp(const Settings& s) {
  if (!s.flag("sequence-parallel")) return std::nullopt;
  return undivided("seq-length", s.number("seq-length"), tp_of(s) * cp_of(s), "ranks");
}

MaybeBreak sequence_does_not_divide_cp(const Settings& s) {
  if (cp_of(s) == 1) return std::nullopt;
  return undivided("seq-length", s.number("seq-length"), 2 * cp_of(s), "parts");
}

MaybeBreak positions_below_sequence(const Settings& s) {
  const auto positions = s.number("max-position-embeddings"), sequence = s.number("seq-length");
  if (!positions || !sequence) return std::nullopt;
  return broken_if(*positions < *sequence, fmt::format("{} positions for {} tokens", *positions, *sequence),
                   fmt::format("--max-position-embeddings {}", *sequence));
}

MaybeBreak prediction_positions(const Settings& s) {
  const std::int64_t layers = s.number("mtp-num-layers").value_or(0);
  const bool says = s.has("position-embedding-type") || missing_of_model_shape(s).empty();
  const std::string positions = s.choice("position-embedding-type");
  return broken_if(layers > 0 && says && positions == "learned_absolute",
                   fmt::format("{} prediction layers with {}", layers, positions),
                   "--position-embedding-type rope");
}

}  // namespace

/// The rules about the sizes of the model.
std::vector<Rule> model_rules() {
  return {
      {"heads_div",
       {"num-attention-heads", "hidden-size", "kv-channels"},
       heads_do_not_divide_hidden,
       "the hidden size must be a multiple of the number of heads, unless --kv-channels gives their size",
       kInLegacy},
      {"groups_div",
       {"num-query-groups", "num-attention-heads"},
       groups_do_not_divide_heads,
       "the number of heads must be a multiple of the number of query groups",
       kInLegacy},
      {"attention_heads",
       {"num-attention-heads", "num-query-groups", kTp},
       heads_do_not_fit_tp,
       "heads divide by tp; query groups divide by tp, or tp by them",
       kInLegacy},
      {"ffn_tp_div",
       {"ffn-hidden-size", "hidden-size", "swiglu", kTp},
       ffn_does_not_divide,
       "every tensor-parallel rank has as many columns of the MLP",
       kInLegacy},
      {"sequence_tp_div",
       {"seq-length", "sequence-parallel", kTp, kCp},
       sequence_does_not_divide_tp,
       "with sequence parallelism every rank has as many tokens of a sequence",
       kInLegacy},
      {"sequence_cp_div",
       {"seq-length", kCp},
       sequence_does_not_divide_cp,
       "every context-parallel rank has two equal parts of a sequence",
       kInLegacy},
      {"max_positions_below_seq",
       {"max-position-embeddings", "seq-length"},
       positions_below_sequence,
       "a sequence is no longer than there are positions"},
      {"mtp_position_embedding",
       {"mtp-num-layers", "position-embedding-type"},
       prediction_positions,
       "layers of multi-token prediction have rotary positions, or none"},
  };
}

}  // namespace verify::megatron
