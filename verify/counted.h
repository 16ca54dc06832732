#pragma once

/// "1 rank", "2 ranks": a number with its noun.

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

}  // namespace verify
