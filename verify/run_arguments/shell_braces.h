#pragma once

/// The words that a shell makes of one with braces: "x{a,b}" becomes "xa" and "xb", and "{1..3}" becomes "1",
/// "2" and "3". Braces that are quoted, hold no comma and no sequence, or come from a variable stay as they
/// are.
///
/// Errors  run_file_size: more than kMostRunArguments words, or 1 MiB of them. A word of more than
///         kMostBraces braces, which no script has, is not changed.

#include <cstddef>
#include <vector>

#include "verify/run_arguments/shell_words.h"

namespace verify {

inline constexpr std::size_t kMostBraces = 32;

std::vector<ShellWord> words_of_braces(ShellWord word);

}  // namespace verify
