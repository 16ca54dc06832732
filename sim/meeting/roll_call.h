#pragma once

/// Whether those that came are the world, and if not, what is wrong with it: a pure function of what they
/// said.
///
/// Errors  as a result, with the first of these codes that applies and all that apply in its numbers:
///         rendezvous_version, rendezvous_world, rendezvous_duplicate, rendezvous_configuration,
///         rendezvous_missing.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/meeting/meeting.h"

namespace sim {

struct Attendee {
  Hello hello;
  std::string peer;  // its endpoint
};

/// attendees[0] is rank 0, whose word the others' is held against.
std::optional<Refusal> roll_call(const std::vector<Attendee>& attendees, const RendezvousSpec& spec,
                                 const DroppedConnections& dropped);

}  // namespace sim
