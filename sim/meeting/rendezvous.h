#pragma once

/// A rendezvous lets all processes of a world meet over TCP before they do anything together. Rank 0 listens,
/// the others connect, and rank 0 sends all of them its payload, or the reason why the world does not
/// start. At the end they meet again, and every rank gets the same verdict.
///
///   Rendezvous rendezvous(spec);          // rank 0 listens from now on
///   const Meeting meeting = rendezvous.meet();
///   ...
///   return rendezvous.finish({is_equal, text}).exit_code;
///
/// Calls   every rank calls meet() once, then finish() once. Ranks may come in any order, up to `deadline`
///         apart; a rank that comes before rank 0 tries again until its deadline has passed. A call returns
///         or throws when its rank's deadline has passed; only looking up a host name may take longer. Each
///         rank says how long it still waits, and rank 0 decides a grace before the first of them gives up,
///         so that all ranks that reached it get the same answer. A world of size 1 opens no socket.
/// Errors  meet() throws these with the same words on every rank that reached rank 0: rendezvous_missing,
///         rendezvous_duplicate, rendezvous_configuration, rendezvous_version, rendezvous_world. These are
///         thrown on one rank alone: rendezvous_listen (rank 0 cannot listen at the address),
///         rendezvous_files (the limit of open files of rank 0 is too low for the world),
///         rendezvous_unreachable (no rank 0 is found at the address), rendezvous_silent (rank 0 does not
///         answer), rendezvous_spec (the payload or the version is too long, the rank is outside its world,
///         or the port is out of range). finish() throws nothing, because the reports are useful even if
///         some are missing; its Conclusion::failure is rendezvous_lost, with the ranks that died or did
///         not report. Anybody may connect. A connection that does not send the hello of a rank (other
///         bytes, too many bytes, a hello that is late or incomplete) is dropped and noted, and does not
///         disturb the others. At most kMostStrangers connections that have sent nothing are held at once;
///         after that the oldest is dropped. A well-formed hello is believed, so the port should be open to
///         the nodes of the job only.

#include <memory>

#include "sim/meeting/meeting.h"

namespace sim {

inline constexpr std::size_t kMostStrangers = 256;

class RendezvousHost;
class RendezvousGuest;

class Rendezvous {
 public:
  explicit Rendezvous(RendezvousSpec spec);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Returns the port at which rank 0 listens; on other ranks, the port to which they connect.
  int port() const;
  Meeting meet();
  Conclusion finish(const Report& report);
  /// Returns the connections that rank 0 dropped. It is empty on other ranks.
  const DroppedConnections& dropped() const { return dropped_; }

 private:
  RendezvousSpec spec_;
  DroppedConnections dropped_;
  bool has_met_ = false;
  std::unique_ptr<RendezvousHost> host_;    // at rank 0 of a world of at least two ranks
  std::unique_ptr<RendezvousGuest> guest_;  // on the other ranks
};

}  // namespace sim
