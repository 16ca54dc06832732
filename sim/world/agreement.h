#pragma once

/// Checks whether the calls that members make with the same sequence number belong together. The check comes
/// before any data moves.
///
/// Shapes  `calls` has the calls of the members that have arrived, at least one, in the order of the group.
/// Calls   members whose keys are equal agree, unless the operation has rare arguments. So a call is compared
///         in full, and texts are built, only where keys differ or where there are rare arguments.
///         Members of a new_group call name the same ranks. A rank that names itself alone may stand apart:
///         its group needs nobody.
/// Exact   a disagreement names the first member and the first one that differs from it, so it does not
///         depend on the order in which the members arrived.

#include <optional>
#include <span>
#include <string>

#include "sim/world/posted_call.h"

namespace sim {

/// How two sides of a call differ: a code of finding.h, a sentence, the broken rule, and what to try.
struct Disagreement {
  const char* code;
  std::string sentence;
  const char* rule;
  const char* hint;
};

/// Whether a new_group call names the rank that makes it, and no other.
bool makes_own_group(const PostedCall& call);

/// Returns the call that the others have to agree with: the first one, but for those of ranks' own groups.
const PostedCall& shared_call(std::span<PostedCall* const> calls);

/// Returns a disagreement between the calls of a collective, or between a send and its recv; nothing if they
/// agree.
std::optional<Disagreement> disagreement(std::span<PostedCall* const> calls);
std::optional<Disagreement> disagreement(const Call& send, const Call& receive);

}  // namespace sim
