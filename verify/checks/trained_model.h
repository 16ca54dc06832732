#pragma once

/// The GPT that replay trains for a scenario, on virtual ranks and on one device. It is the scenario's own
/// model if that is small and its tokens are bytes, and otherwise a reduced model of the same kind.
///
/// Shapes  The world has up to kMostTrainingRanks ranks. A larger one is folded: first replicas, then stages,
///         then context-parallel and tensor-parallel ranks, and `world` says so. Context-parallel ranks are
///         also folded until 2 cp tp, of which a sequence is a multiple, is at most 64 or cp is 2. A model
///         with experts trains them (trained_experts.h). Ranks lie in the order of the layout. A reduced
///         model has one layer per chunk, hidden size 4, sequences of a few bytes, and two microbatches. The
///         scenario's own model is trained where it has a vocabulary of 256 tokens (bytes), a batch that
///         replicas and microbatches divide, layers spread evenly over the stages, nothing folded, no
///         context-parallel ranks, experts, prediction layers or optimizer instances, chunks that take pp
///         microbatches at a time, and parameters (and scores of attention) times tokens of a step of at most
///         kMostTrainingWork. An interleaved schedule has many layers and, in each step, at least pp
///         sequences of each replica, and layers with experts take longer. If its steps together take more
///         than kMostLayerPasses, such a reduced model trains fewer steps, at least two, and `bound` says so.
///         If two are too many, replicas and then stages are folded further; with experts, which lie on the
///         replicas, first stages down to two. Steps that the user asks for are all trained.
/// Errors  training_text: a text that cannot be read, or is not usable (sim/model/text_corpus.h);
///         training_labels: no label has a loss; train_iters: more than 1,000 steps.

#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/requests/scenario_request.h"

namespace verify {

inline constexpr int kMostTrainingRanks = 256;
inline constexpr double kMostTrainingWork = 1 << 23;
/// Layers times sequences, over all steps, where a layer with experts counts as kWeightOfExperts. The limit
/// is chosen so that a training takes seconds.
inline constexpr std::int64_t kMostLayerPasses = 1 << 14;
/// Measured: with its references, a layer takes 0.3 ms a sequence, and a layer with experts 4 to 6 ms.
inline constexpr std::int64_t kWeightOfExperts = 16;
#ifdef SHARDPROOF_SANITIZED
inline constexpr std::int64_t kTrainIters = 2;  // with sanitizers a step takes thirty times as long
#else
inline constexpr std::int64_t kTrainIters = 20;
#endif

struct TrainedModel {
  CaseSetting setting;     // a setting of gpt_training, moe_training or cp_training
  std::string world;       // "tp 4, pp 2, dp 2 for 128"
  std::string model;       // "4 layers, hidden 16, ..."
  bool is_whole = false;   // the scenario's own model, not a reduced one
  std::string bound = {};  // why it trains fewer steps than usual; "" if it does not
  /// What it has less of than the scenario's model (reductions.h).
  std::vector<std::string> reduced = {};
  /// What the scenario's model has and this one does not.
  std::vector<std::string> left_out = {};
  std::uint64_t text_hash = 0;  // hash of the training text
};

/// Returns the model that a scenario trains. The text is read here, before any work begins.
TrainedModel trained_model(const ScenarioRequest& request);

/// Returns the number of steps to train: the given one, or kTrainIters.
std::int64_t train_iters(const TrainingOptions& training);

}  // namespace verify
