#pragma once

/// The case of a model's two ends: an embedding, and an output layer that has the same weight.

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> tied_embedding_case();

}  // namespace verify
