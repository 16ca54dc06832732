#include "tests/support/full_size_options.h"

#include <algorithm>
#include <utility>

namespace test {

std::string text_of(const verify::NamedValues& options) {
  std::string text;
  for (const auto& [name, value] : options) text += " --" + name + " " + value;
  return text;
}

DrawnWorld drawn_world(Draws& draw, int most_pipeline_ranks) {
  const int tp = 1 + draw(3), pp = 1 + draw(most_pipeline_ranks), dp = 3 + draw(3), cp = 1 + draw(2);
  const bool is_interleaved = pp > 1 && draw(3) == 0;
  const int stages = pp * (is_interleaved ? 2 : 1), heads = tp * cp * (1 + draw(2));
  const int microbatches = (1 + draw(4)) * (is_interleaved ? pp : 1), micro_batch = 1 + draw(2);
  verify::NamedValues options;
  const auto say = [&](const char* name, const char* value) { options.emplace_back(name, value); };
  const auto give = [&](const char* name, int value) { options.emplace_back(name, std::to_string(value)); };
  const auto toggle = [&](const char* name) {
    if (draw(2) == 1) say(name, "true");
  };
  give("world-size", tp * cp * pp * dp);
  if (cp > 1) {
    const int kind = draw(3);
    give("context-parallel-size", cp);
    say("cp-comm-type", kind == 0 ? "p2p" : kind == 1 ? "all_gather" : "a2a");
  }
  give("tensor-model-parallel-size", tp);
  give("pipeline-model-parallel-size", pp);
  if (is_interleaved) give("virtual-pipeline-model-parallel-size", 2);
  if (cp == 1) say("order", draw(2) == 0 ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp");
  give("gpus-per-node", 1 + draw(5));
  give("num-layers", stages * (1 + draw(2)));
  give("hidden-size", heads * 4);
  give("ffn-hidden-size", tp * (1 + draw(8)));
  give("num-attention-heads", heads);
  give("seq-length", tp * 2 * cp * (1 + draw(4)));
  give("vocab-size", 1 + draw(500));
  give("micro-batch-size", micro_batch);
  give("global-batch-size", micro_batch * dp * microbatches);
  if (tp > 1) toggle("sequence-parallel");
  toggle("swiglu");
  toggle("disable-bias-linear");
  toggle("qk-layernorm");
  toggle("untie-embeddings-and-output-weights");
  toggle("calculate-per-token-loss");
  if (draw(2) == 1) say("normalization", "RMSNorm");
  if (draw(2) == 1) say("position-embedding-type", "rope");
  if (draw(3) == 0) {
    say("recompute-granularity", "full");
    say("recompute-method", "uniform");
    say("recompute-num-layers", "1");
  }
  if (draw(3) == 0) say("no-distributed-optimizer", "true");
  return {.options = std::move(options), .tp = tp, .ranks_of_stage = tp * cp * dp};
}

void add_drawn_experts(int tp, int ranks_of_stage, Draws& draw, verify::NamedValues& options) {
  const auto say = [&](const char* name, const char* value) { options.emplace_back(name, value); };
  const auto give = [&](const char* name, int value) { options.emplace_back(name, std::to_string(value)); };
  std::erase_if(options, [](const auto& option) {
    return option.first == "sequence-parallel" || option.first == "disable-bias-linear" ||
           option.first == "order";
  });
  const int etp = draw(2) == 0 ? 1 : draw.divisor(ranks_of_stage);
  const int ep = draw.divisor(ranks_of_stage / etp), experts = ep * (1 + draw(3));
  const int topk = 1 + draw(std::min(experts, 3)), dispatcher = draw(3), shared = draw(3);
  const bool has_bias = etp == 1 && shared == 0 && draw(2) == 0, scores_each_logit = draw(2) == 0;
  if (tp > 1) say("sequence-parallel", "true");
  if (!has_bias) say("disable-bias-linear", "true");
  give("expert-model-parallel-size", ep);
  give("expert-tensor-parallel-size", etp);
  give("num-experts", experts);
  give("moe-router-topk", topk);
  give("moe-ffn-hidden-size", etp * (1 + draw(4)));
  say("moe-token-dispatcher-type", dispatcher == 0 ? "allgather" : dispatcher == 1 ? "alltoall" : "flex");
  if (scores_each_logit) {
    say("moe-router-score-function", "sigmoid");
    if (draw(2) == 0) say("moe-router-enable-expert-bias", "true");
  } else if (topk == 1 || draw(2) == 0) {
    say("moe-router-pre-softmax", "true");
  }
  constexpr const char* kLosses[] = {"none", "aux_loss", "seq_aux_loss", "global_aux_loss"};
  say("moe-router-load-balancing-type", kLosses[draw(4)]);
  say("moe-aux-loss-coeff", "0.5");
  if (draw(3) == 0) say("moe-z-loss-coeff", "0.1");
  if (draw(3) == 0) say("moe-layer-freq", "2");
  if (shared > 0) give("moe-shared-expert-intermediate-size", tp * (1 + draw(3)));
  if (shared > 1) say("moe-shared-expert-gate", "true");
  if (dispatcher == 2 || draw(2) == 0) return;
  say("moe-expert-capacity-factor", draw(2) == 0 ? "0.5" : "1");
  if (draw(2) == 0) say("moe-pad-expert-input-to-capacity", "true");
}

verify::NamedValues full_size_options(std::uint64_t seed, bool has_experts) {
  Draws draw(seed, "full size step");
  DrawnWorld world = drawn_world(draw, 3);
  if (draw(4) == 0) world.options.emplace_back("bf16", "false");
  if (has_experts) add_drawn_experts(world.tp, world.ranks_of_stage, draw, world.options);
  return std::move(world.options);
}

}  // namespace test
