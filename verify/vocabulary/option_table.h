#pragma once

/// The rows of option_vocabulary(), which are options.tsv, and the names of their sections.
///
/// Errors  A row that cannot be read breaks an invariant (CHECK).

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

/// Reads the rows of a table.
std::vector<OptionInfo> read_options(std::string_view table);

}  // namespace verify
