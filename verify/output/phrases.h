#pragma once

/// Small phrases that several pages say: a number with its noun, a size with what it stands for, bytes, a
/// rank's place.

#include <cstdint>
#include <string>

#include "sim/layout/rank_grid.h"

namespace verify {

/// "1 rank", "2 ranks", "3 microbatches": a number with its noun.
std::string counted(std::int64_t count, const char* noun);

/// "tp 4", or "dp 8 for 64" where a reduced size stands for a whole one.
std::string reduced_size(const char* name, int reduced, int whole);

/// "0 B", "9999 B", "12.30 kB", "145.60 GB": bytes in powers of a thousand, exact below ten thousand.
std::string byte_text(std::int64_t bytes);

/// "t0d1p0": where a rank stands on those of the axes tp, cp, dp and pp that have more than one rank.
std::string cell_text(const sim::RankGrid& grid, int rank);

/// A word as a shell takes it back, quoted where it has to be.
std::string quoted_for_shell(const std::string& text);

}  // namespace verify
