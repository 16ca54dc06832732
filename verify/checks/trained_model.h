#pragma once

/// The GPT that replay trains for a scenario, on virtual ranks and on one device: the scenario's own, where
/// it is small and takes bytes; else a reduced one of its kind.
///
/// Shapes  worlds of up to kMostTrainingRanks: replicas are folded first, then stages, then tensor-parallel
///         ranks, and `world` says so. Context-parallel ranks count as replicas; experts are not trained.
///         Ranks lie in the order of the layout. Reduced: one layer a stage, hidden size 4, sequences of a
///         few bytes, two microbatches. The scenario's own: a vocabulary of 256 tokens (bytes), a batch that
///         replicas and microbatches divide, layers even over the stages, nothing folded, no context-parallel
///         ranks, prediction layers or optimizer instances, chunks that take pp microbatches at a time, and
///         parameters (and scores of attention) times tokens of a step at most kMostTrainingWork.
/// Errors  training_text: a text that cannot be read, or is none (sim/model/text_corpus.h); training_labels:
///         no label has a loss; train_iters: more steps than 1,000.

#include <string>

#include "verify/cases/case.h"
#include "verify/options/scenario_request.h"

namespace verify {

inline constexpr int kMostTrainingRanks = 256;
inline constexpr double kMostTrainingWork = 1 << 23;
#ifdef SHARDPROOF_SANITIZED
inline constexpr std::int64_t kTrainIters = 2;  // a step takes thirty times as long
#else
inline constexpr std::int64_t kTrainIters = 20;
#endif

struct TrainedModel {
  CaseSetting setting;  // of the case gpt_training
  std::string world;    // "tp 4, pp 2, dp 2 for 128"
  std::string model;    // "4 layers, hidden 16, ..."
  bool is_whole = false;
  std::uint64_t text_hash = 0;  // of the text that is trained on
};

/// The model that a scenario trains. The text is read here, before any work.
TrainedModel trained_model(const ScenarioRequest& request);

/// The steps that are asked for.
std::int64_t train_iters(const TrainingOptions& training);

}  // namespace verify
