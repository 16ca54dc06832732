#pragma once

/// All processes of a world meet over TCP before they do anything together: rank 0 listens, the others come,
/// and rank 0 tells all of them its payload, or what is wrong. At the end they meet again and take one
/// verdict home.
///
///   Rendezvous rendezvous(spec);          // rank 0 listens from here on
///   const Meeting meeting = rendezvous.meet();
///   ...
///   return rendezvous.finish({is_equal, text}).exit_code;
///
/// Calls   meet() once, then finish() once; every rank both. Ranks may come in any order, up to `deadline`
///         apart; those that come before rank 0 try again until then. A call returns, or throws, `deadline`
///         and a `grace` after the last step that it saw, so after twice the deadline and a grace at most;
///         looking up a host name may take longer. A world of one opens no socket.
/// Errors  thrown by meet(), with the same words on every rank that reached rank 0: rendezvous_missing,
///         rendezvous_duplicate, rendezvous_configuration, rendezvous_version, rendezvous_world. On one rank
///         alone: rendezvous_listen (rank 0 cannot listen there), rendezvous_files (rank 0 may not open so
///         many connections), rendezvous_unreachable (no rank 0 there), rendezvous_silent (it does not
///         answer), rendezvous_spec (a payload or a version that is too long, a rank outside its world). Not
///         thrown by finish(), whose reports are worth having even so, but its Conclusion::failure:
///         rendezvous_lost, with the ranks that died or did not report. Anybody may connect. What is no hello
///         of a rank (other bytes, too many of them, too slow, half of one) is dropped and noted, and costs
///         others nothing; of those that say nothing, kMostStrangers are held at once, and the oldest gives
///         way. A hello that is well made is believed: the port should be open to the job's nodes only.

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

  /// Where rank 0 listens; elsewhere, where it is looked for.
  int port() const;
  Meeting meet();
  Conclusion finish(const Report& report);
  /// Of rank 0: connections that were no rank's.
  const DroppedConnections& dropped() const { return dropped_; }

 private:
  RendezvousSpec spec_;
  DroppedConnections dropped_;
  bool has_met_ = false;
  std::unique_ptr<RendezvousHost> host_;    // rank 0 of a world that has others
  std::unique_ptr<RendezvousGuest> guest_;  // another rank
};

}  // namespace sim
