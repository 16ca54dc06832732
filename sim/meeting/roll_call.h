#pragma once

/// Checks whether the processes that came form the world, and says what is wrong if they do not. The result
/// is a pure function of their hellos.
///
/// Errors  returned, not thrown. The refusal has the first of these codes that applies, and its numbers name
///         all problems that apply: rendezvous_version, rendezvous_world, rendezvous_duplicate,
///         rendezvous_configuration, rendezvous_missing.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/meeting/meeting.h"

namespace sim {

struct Attendee {
  Hello hello;
  std::string peer;  // the endpoint of the process
};

/// Compares the hellos with that of rank 0, which must be attendees[0]. `waited` says how long it has waited.
/// Returns nothing if all is well.
std::optional<Refusal> roll_call(const std::vector<Attendee>& attendees, int world_size,
                                 const std::string& waited, const DroppedConnections& dropped);

}  // namespace sim
