#pragma once

/// "1 rank", "2 ranks": a number with its noun. "tp 4", "dp 8 for 64": a size with its name, and what it stands for.

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace verify {

inline std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun,
                     count == 1                               ? ""
                     : std::string_view(noun).ends_with("ch") ? "es"
                                                              : "s");
}

inline std::string reduced_size(const char* name, int reduced, int whole) {
  return reduced == whole ? fmt::format("{} {}", name, whole)
                          : fmt::format("{} {} for {}", name, reduced, whole);
}

}  // namespace verify
