#pragma once

/// The part of a rendezvous (rendezvous.h) that every rank but rank 0 runs: it connects to rank 0, tries
/// again until rank 0 listens, sends its hello and waits for the answer.

#include <optional>
#include <string>
#include <variant>

#include "sim/meeting/connection.h"
#include "sim/meeting/meeting.h"

namespace sim {

class RendezvousGuest {
 public:
  /// `spec` must outlive this object.
  explicit RendezvousGuest(const RendezvousSpec& spec) : spec_(spec) {}

  Meeting meet();
  Conclusion finish(const Report& report);

 private:
  std::variant<Frame, std::string> exchange(const Frame& frame, const Deadline& deadline);
  std::variant<Answer, std::string> ask(const Deadline& deadline);
  std::string where() const;

  const RendezvousSpec& spec_;
  std::optional<Connection> connection_;
  std::string heard_;  // the latest reason why there was no answer, other than the deadline
};

}  // namespace sim
