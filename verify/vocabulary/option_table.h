#pragma once

/// The rows of option_vocabulary(), in two tables of their own, and the names of their sections.

#include <string_view>
#include <vector>

#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

inline constexpr std::string_view kLayout = "layout";
inline constexpr std::string_view kModel = "model";
inline constexpr std::string_view kExperts = "experts";
inline constexpr std::string_view kRanks = "ranks";
inline constexpr std::string_view kPipeline = "pipeline";
inline constexpr std::string_view kTraining = "training";
inline constexpr std::string_view kMemory = "memory";
inline constexpr std::string_view kShards = "shards";
inline constexpr std::string_view kExpect = "expectations";

/// Returns the options that say what is proved: the layout, the model, its schedule and its training.
std::vector<OptionInfo> options_of_the_model();

/// Returns the options that say how it is proved and shown.
std::vector<OptionInfo> options_of_the_proof();

}  // namespace verify
