#pragma once

/// "1 rank", "2 ranks": a number with its noun. "tp 4", "dp 8 for 64": a size with its name, and what it stands for.

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace verify {

inline std::string counted(std::int64_t count, const char* noun) {
  const std::string_view word = noun;
  const bool hisses = word.ends_with("ch") || word.ends_with("ss");
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : hisses ? "es" : "s");
}

inline std::string reduced_size(const char* name, int reduced, int whole) {
  return reduced == whole ? fmt::format("{} {}", name, whole)
                          : fmt::format("{} {} for {}", name, reduced, whole);
}

}  // namespace verify
