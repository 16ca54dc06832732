#include <algorithm>
#include <iterator>

#include "verify/megatron_rules/run_rule.h"
#include "verify/vocabulary/hybrid_pattern.h"

namespace verify {

namespace {

constexpr const char* kPattern = "hybrid-layer-pattern";
constexpr const char* kFirst = "decoder-first-pipeline-num-layers";
constexpr const char* kLast = "decoder-last-pipeline-num-layers";
constexpr std::string_view kSymbols = "M-*EDG+|";

HybridPattern pattern_of(const JudgedRun& r) { return parse_hybrid_pattern(r.hybrid_pattern()); }
std::int64_t segments_of(const JudgedRun& r) { return std::ssize(pattern_of(r).segments); }

bool is_hybrid(const JudgedRun& r) { return !r.hybrid_pattern().empty(); }
bool has_one_segment(const JudgedRun& r) { return segments_of(r) == 1; }

bool has_unknown_symbol(const JudgedRun& r) {
  return r.hybrid_pattern().find_first_not_of(std::string(kSymbols) + "/") != std::string::npos;
}

bool do_prediction_parts_differ(const JudgedRun& r) {
  const std::vector<std::string> parts = pattern_of(r).predictions;
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& one) { return one != parts[0]; });
}

/// The layers and the ranks between a first and a last rank that have layers of their own.
struct Middle {
  std::int64_t layers = 0;
  std::int64_t ranks = 0;
};
std::optional<Middle> middle_of(const JudgedRun& r) {
  if (!has_one_segment(r) || !r.layers() || !r.pp()) return std::nullopt;
  Middle middle{*r.layers(), *r.pp()};
  for (const char* end : {kFirst, kLast}) {
    if (!r.number(end)) continue;
    middle.layers -= *r.number(end);
    --middle.ranks;
  }
  return middle;
}

bool has_uneven_end(const JudgedRun& r) { return r.has(kFirst) || r.has(kLast); }

}  // namespace

/// The rules about patterns of Mamba, attention, MLP and expert layers, which no other rule places.
std::vector<RunRule> hybrid_pattern_rules() {
  constexpr const char* kPlaced = "the segments of a hybrid pattern say which layers a stage has";
  return {
      {"hybrid_two_patterns",
       {"hybrid-override-pattern", kPattern},
       [](const JudgedRun& r) { return r.has("hybrid-override-pattern") && r.has(kPattern); },
       "a model has one pattern of layers",
       "--hybrid-layer-pattern alone"},
      {"hybrid_symbol",
       {kPattern},
       has_unknown_symbol,
       "a layer of a pattern is one of M - * E D G +, and | ends a segment",
       "--hybrid-layer-pattern 'M-M*'"},
      {"hybrid_mtp_parts",
       {kPattern},
       do_prediction_parts_differ,
       "the layers of each depth of multi-token prediction are the same",
       "equal patterns behind each slash"},
      {"hybrid_attention_and_mla",
       {kPattern},
       [](const JudgedRun& r) {
         const std::string pattern = r.hybrid_pattern();
         return pattern.find('*') != std::string::npos && pattern.find_first_of("+D") != std::string::npos;
       },
       "a model has attention (*), or else multi-head latent or sparse attention (+ and D)",
       "one of the two"},
      {"hybrid_first_stage",
       {kFirst, kPattern},
       [](const JudgedRun& r) { return segments_of(r) > 1 && r.has(kFirst); },
       kPlaced,
       "leave --decoder-first-pipeline-num-layers out"},
      {"hybrid_last_stage",
       {kLast, kPattern},
       [](const JudgedRun& r) { return segments_of(r) > 1 && r.has(kLast); },
       kPlaced,
       "leave --decoder-last-pipeline-num-layers out"},
      {"hybrid_layers_per_vp",
       {"num-layers-per-virtual-pipeline-stage", kPattern},
       [](const JudgedRun& r) { return is_hybrid(r) && r.has("num-layers-per-virtual-pipeline-stage"); },
       kPlaced,
       "leave --num-layers-per-virtual-pipeline-stage out"},
      {"hybrid_vp_stages",
       {"num-virtual-stages-per-pipeline-rank", kPattern},
       [](const JudgedRun& r) { return is_hybrid(r) && r.has("num-virtual-stages-per-pipeline-rank"); },
       kPlaced,
       "leave --num-virtual-stages-per-pipeline-rank out"},
      {"hybrid_layout",
       {"pipeline-model-parallel-layout", kPattern},
       [](const JudgedRun& r) { return is_hybrid(r) && r.has("pipeline-model-parallel-layout"); },
       kPlaced,
       "leave --pipeline-model-parallel-layout out"},
      {"hybrid_account_embedding",
       {"account-for-embedding-in-pipeline-split", kPattern},
       [](const JudgedRun& r) { return is_hybrid(r) && r.flag("account-for-embedding-in-pipeline-split"); },
       kPlaced,
       "leave --account-for-embedding-in-pipeline-split out"},
      {"hybrid_account_loss",
       {"account-for-loss-in-pipeline-split", kPattern},
       [](const JudgedRun& r) { return is_hybrid(r) && r.flag("account-for-loss-in-pipeline-split"); },
       kPlaced,
       "leave --account-for-loss-in-pipeline-split out"},
      {"hybrid_segments_pp",
       {kPattern, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) { return segments_of(r) > 1 && is_undivided(segments_of(r), r.pp()); },
       "the segments of a pattern are a multiple of pp",
       "a multiple of pp, or no | at all"},
      {"vpp_needs_pp2",
       {kPattern, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         return segments_of(r) > 1 && r.pp() == std::int64_t{1} && r.derived("vpp") &&
                !r.flag("no-overlap-p2p-communication");
       },
       "chunks of a pipeline rank need pp above 1",
       "a pattern without |",
       {"vpp"}},
      {"hybrid_layers_pp",
       {kPattern, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         return has_one_segment(r) && !has_uneven_end(r) && is_undivided(r.layers(), r.pp());
       },
       "a pattern without segments gives every pipeline rank as many layers",
       "segments, with | between them",
       {"num_layers"}},
      {"middle_stages_mismatch",
       {kPattern, kFirst, kLast, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         const auto middle = middle_of(r);
         return middle && has_uneven_end(r) && (middle->layers != 0) != (middle->ranks != 0);
       },
       "layers and ranks remain between the first and the last rank, or neither of them",
       "other numbers of layers at the ends",
       {"num_layers"}},
      {"middle_layers_pp",
       {kPattern, kFirst, kLast, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         const auto middle = middle_of(r);
         return middle && has_uneven_end(r) && middle->layers != 0 &&
                is_undivided(middle->layers, middle->ranks);
       },
       "the ranks between the first and the last one have as many layers each",
       "other numbers of layers at the ends",
       {"num_layers"}},
  };
}

}  // namespace verify
