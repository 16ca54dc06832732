#pragma once

/// Rank 0's side of a rendezvous (rendezvous.h): one thread, one loop of poll over the listener, those that
/// have not said who they are, and those that have.

#include <functional>
#include <list>
#include <vector>

#include "sim/meeting/connection.h"
#include "sim/meeting/meeting.h"
#include "sim/meeting/roll_call.h"

namespace sim {

class RendezvousHost {
 public:
  /// Both outlive it.
  RendezvousHost(const RendezvousSpec& spec, DroppedConnections& dropped);

  int port() const { return port_of(listener_); }
  Meeting meet();
  Conclusion finish(const Report& report);

 private:
  /// Connected, and not yet a rank's.
  struct Stranger {
    Connection connection;
    Deadline patience;
  };
  /// One that said its hello.
  struct Seat {
    Connection connection;
    Hello hello;
    std::optional<Report> report;
    std::string lost;  // why there will be no report
  };

  std::vector<Attendee> attendees() const;
  Deadline earliest(const Deadline& deadline) const;
  void wait(const Deadline& deadline);
  void accept_strangers();
  void drop_oldest_stranger(const std::string& reason);
  void hear_strangers();
  void hear_hello(Stranger& stranger, const Frame& frame);
  void check_seats();
  /// As many as were started, as far as anybody says: then nobody is waited for, even where they are not the
  /// world.
  bool is_everyone_here() const;
  void answer(const std::optional<Refusal>& refusal);
  void deliver();
  void hear_report(Seat& seat);
  Ending ending(const Report& own) const;

  const RendezvousSpec& spec_;
  DroppedConnections& dropped_;
  Hello own_;
  Socket listener_;
  Deadline accept_again_ = Deadline::after({});  // when descriptors ran out, not at once
  std::list<Stranger> strangers_;                // the oldest first
  std::list<Seat> seats_;
};

}  // namespace sim
