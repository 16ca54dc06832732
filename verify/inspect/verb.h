#pragma once

/// A verb that agrees with ranks: "waits" of one rank, "wait" of several.

#include <vector>

namespace verify {

inline const char* verb(const std::vector<int>& ranks, const char* one, const char* several) {
  return ranks.size() == 1 ? one : several;
}

}  // namespace verify
