#include "sim/context/core_attention.h"

#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/context/context_attentions.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace context_attentions {

Tensor room_for_context(const Tensor& queries, const Tensor& values, DType dtype, bool has_padding) {
  const Shape& shape = queries.shape();
  const Shape context = {shape[0], shape[1], shape[2], values.shape()[3]};
  return has_padding ? filled(queries.device(), dtype, context, 0) : queries.device().empty(dtype, context);
}

}  // namespace context_attentions

namespace {

using namespace context_attentions;

void require_no_dropout(const CoreAttentionConfig& config, const SequenceCut& cut) {
  if (config.dropout.numerator == 0 || (cut.ranks() == 1 && cut.documents().size() == 1)) return;
  refuse({.code = "cp_dropout",
          .option = config.name,
          .numbers = fmt::format("dropout {} / {}, {} ranks, {} documents", config.dropout.numerator,
                                 config.dropout.denominator, cut.ranks(), cut.documents().size()),
          .rule = "masks of attention dropout are drawn for one document on one context-parallel rank",
          .hint = "--attention-dropout 0"});
}

/// A block of a ring sees all keys of a rank before its own, so a window has no place in it.
void require_no_window(const CoreAttentionConfig& config, const SequenceCut& cut, CpCommType type) {
  if (!config.keys.causal || config.keys.window < 0) return;
  refuse({.code = "cp_window",
          .option = config.name,
          .numbers = fmt::format("a window of {} tokens before each, {}, {} context-parallel ranks",
                                 config.keys.window, name_of(type), cut.ranks()),
          .rule = "Transformer Engine has a sliding window over context-parallel ranks only with all_gather "
                  "and a2a",
          .hint = "--cp-comm-type a2a or all_gather"});
}

void require_whole_documents(const CoreAttentionConfig& config, const SequenceCut& cut, CpCommType type) {
  if (cut.cuts_documents() || type == CpCommType::a2a) return;
  refuse({.code = "cp_packed_sequence",
          .option = config.name,
          .numbers = fmt::format("{}, {} documents that are cut as one sequence", name_of(type),
                                 cut.documents().size()),
          .rule = "a rank has whole chunks of each document, unless it gathers the sequence by a2a",
          .hint = "--cp-comm-type a2a, or documents that are cut one by one"});
}

/// Ranks that exchange with a2a, and a ring over the groups of such ranks.
std::unique_ptr<CoreAttention> hierarchical(Rank& rank, const CoreAttentionConfig& config,
                                            const SequenceCut& cut) {
  Communicator &cp = rank.groups.get("cp"), &inner = rank.groups.get("hcp-L0"),
               &outer = rank.groups.get("hcp-L1");
  if (inner.size() == 1) return make_core_attention(rank, config, cut, CpCommType::p2p);
  if (outer.size() == 1) return make_core_attention(rank, config, cut, CpCommType::a2a);
  require_no_window(config, cut, CpCommType::a2a_p2p);
  const SequenceCut of_ring = cut.over(outer.size());
  return all_to_all(cut, cp.rank(), inner, of_ring, ring(config, {outer, of_ring}));
}

}  // namespace

std::unique_ptr<CoreAttention> make_core_attention(Rank& rank, const CoreAttentionConfig& config,
                                                   const SequenceCut& cut, CpCommType type) {
  require_no_dropout(config, cut);
  if (cut.ranks() == 1) return dense(rank, config, cut);
  require_whole_documents(config, cut, type);
  Communicator& cp = rank.groups.get("cp");
  SIM_CHECK(cp.size() == cut.ranks());
  switch (type) {
    case CpCommType::p2p:
      require_no_window(config, cut, type);
      return ring(config, {cp, cut});
    case CpCommType::all_gather:
      return all_gather(config, {cp, cut});
    case CpCommType::a2a:
      return all_to_all(cut, cp.rank(), cp, cut.over(1), dense(rank, config, cut.over(1)));
    case CpCommType::a2a_p2p:
      break;
  }
  return hierarchical(rank, config, cut);
}

}  // namespace sim
