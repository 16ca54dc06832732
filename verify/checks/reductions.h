#pragma once

/// What a trained model has less of than the model for which it stands: a list in words, made by comparing
/// the two descriptions. What a training makes smaller is so in the list, whoever made it smaller.
///
/// Shapes  Counts and sizes of one model, without the sizes of the world. A size that is 0 in the model for
///         which it stands is not known, and not compared.
/// Calls   reductions(own, trained) returns "layers 32 to 4", "hidden 4,096 to 4", ... An empty list: each
///         size that is known is that of the trained model.

#include <string>
#include <vector>

#include "sim/model/gpt_config.h"

namespace verify {

std::vector<std::string> reductions(const sim::GptConfig& own, const sim::GptConfig& trained);

}  // namespace verify
