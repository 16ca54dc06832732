#pragma once

/// The part of a rendezvous (rendezvous.h) that rank 0 runs: one thread with one poll loop over the listener,
/// the connections that have not sent their hello yet (strangers), and those that have (seats).

#include <functional>
#include <list>
#include <vector>

#include "sim/meeting/connection.h"
#include "sim/meeting/meeting.h"
#include "sim/meeting/roll_call.h"

namespace sim {

class RendezvousHost {
 public:
  /// Both arguments must outlive this object.
  RendezvousHost(const RendezvousSpec& spec, DroppedConnections& dropped);

  int port() const { return port_of(listener_); }
  Meeting meet();
  Conclusion finish(const Report& report);

 private:
  /// A connection that has not sent a hello yet.
  struct Stranger {
    Connection connection;
    Deadline patience;
  };
  /// A connection that has sent its hello.
  struct Seat {
    Connection connection;
    Hello hello;
    std::optional<Report> report;
    std::string lost;  // the reason why no report will come; empty while one may still come
  };

  std::vector<Attendee> attendees() const;
  Deadline earliest() const;
  void wait();
  void accept_strangers();
  void drop_oldest_stranger(const std::string& reason);
  void hear_strangers();
  void hear_hello(Stranger& stranger, const Frame& frame);
  void require_seats();
  /// Whether the number of ranks that are here has reached the largest world size that any of them named.
  /// Rank 0 then waits no longer, even if they do not form the world.
  bool is_everyone_here() const;
  /// Rank 0 waits for its own deadline, and less where another rank says that it gives up before.
  void begin_to_wait();
  void heed(std::chrono::milliseconds patience);
  std::string waited() const;
  void answer(const std::optional<Refusal>& refusal);
  void deliver();
  void hear_report(Seat& seat);
  Ending ending(const Report& own) const;

  const RendezvousSpec& spec_;
  DroppedConnections& dropped_;
  Hello own_;
  Socket listener_;
  Deadline own_deadline_ = Deadline::after({});  // of the step that runs, meet() or finish()
  Deadline deadline_ = own_deadline_;            // when rank 0 decides
  bool leaves_a_grace_ = false;                  // whether it decides before its own deadline
  Deadline accept_again_ = Deadline::after({});  // set ahead for a pause when no descriptors are left
  std::list<Stranger> strangers_;                // the oldest first
  std::list<Seat> seats_;
};

}  // namespace sim
