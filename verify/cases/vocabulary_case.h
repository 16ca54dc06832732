#pragma once

/// VocabParallelEmbedding and VocabParallelCrossEntropy, forward and backward.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> vocab_parallel_embedding_case();
std::unique_ptr<Case> vocab_parallel_cross_entropy_case();

}  // namespace verify
