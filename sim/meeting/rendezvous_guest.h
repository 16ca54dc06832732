#pragma once

/// The side of every other rank in a rendezvous (rendezvous.h): it goes to rank 0, again and again until rank
/// 0 is there, says who it is, and waits for the answer.

#include <optional>
#include <string>
#include <variant>

#include "sim/meeting/connection.h"
#include "sim/meeting/meeting.h"

namespace sim {

class RendezvousGuest {
 public:
  /// Which outlives it.
  explicit RendezvousGuest(const RendezvousSpec& spec) : spec_(spec) {}

  Meeting meet();
  Conclusion finish(const Report& report);

 private:
  std::variant<Frame, std::string> exchange(const Frame& frame, const Deadline& deadline);
  std::variant<Answer, std::string> ask(const Deadline& reach);
  std::string where() const;

  const RendezvousSpec& spec_;
  std::optional<Connection> connection_;
};

}  // namespace sim
