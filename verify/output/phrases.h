#pragma once

/// Short phrases that several outputs share: a number with its noun, a reduced size with the size for which
/// it stands, a number of bytes, ranks, and the coordinates of a rank.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/rank_grid.h"
#include "sim/layout/warning.h"

namespace verify {

/// Returns a number with its noun: "1 rank", "2 ranks", "3 microbatches".
std::string counted(std::int64_t count, const char* noun);

/// Returns a text with a capital first letter, as a sentence begins.
std::string capital(std::string text);

/// Returns "tp 4", or "dp 8 for 64" if a reduced size stands for a larger one.
std::string reduced_size(const char* name, int reduced, int whole);

/// Returns a number of bytes in powers of 1024, exact below ten thousand: "0 B", "9999 B", "12.30 KiB",
/// "145.60 GiB".
std::string byte_text(std::int64_t bytes);

/// Returns a number with its digits in groups of three: "1,048,576".
std::string grouped_digits(std::int64_t number);

/// Returns ranks in words: "no rank", "rank 3", "ranks 9 and 14", "ranks 0 to 7 and 12", "ranks 0, 2, ...
/// (64 in all)".
std::string ranks_words(const std::vector<int>& ranks);

/// Returns the coordinates of a rank on the axes tp, cp, dp and pp, such as "t0d1p0". Axes of one rank are
/// left out.
std::string cell_text(const sim::RankGrid& grid, int rank);

/// Returns a word for a command line, in quotes if a shell needs them. Control characters are escaped as bash
/// and zsh read them, $'a\033b', so that the result is one printable line.
std::string quoted_for_shell(const std::string& text);
/// Returns a word of a shell that is the text itself, with its line ends.
std::string in_single_quotes(std::string_view text);

// The warnings below a result as text, one paragraph for each.

std::string warnings_text(const std::vector<sim::Warning>& warnings);

}  // namespace verify
