#pragma once

/// Do the calls that members make at one place of their group's sequence belong together? Asked before any
/// data moves.
///
/// Shapes  the calls of those that have arrived: one at least.

#include <optional>
#include <span>
#include <string>

#include "sim/world/posted_call.h"

namespace sim {

/// How two sides of a call differ: a code of finding.h, the rule and what to try.
struct Disagreement {
  const char* code;
  std::string sentence;
  const char* rule;
  const char* hint;
};

std::optional<Disagreement> disagreement(std::span<PostedCall* const> calls);
std::optional<Disagreement> disagreement(const Call& send, const Call& receive);

}  // namespace sim
