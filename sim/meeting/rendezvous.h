#pragma once

/// All processes of a world meet over TCP before they do anything together, and end together. Rank 0 listens,
/// the others connect, and rank 0 sends all of them its payload, or the reason why the world does not start.
///
///   Rendezvous rendezvous(spec);  // rank 0 listens from now on
///   const Meeting meeting = rendezvous.meet();
///   return rendezvous.finish({is_equal, text}).exit_code;
///
/// Calls   every rank calls both once. Each says how long it still waits, and rank 0 decides a little before
///         the first of them gives up, so that all ranks hear the reason.
/// Errors  meet() throws on all ranks that came: rendezvous_duplicate, rendezvous_configuration,
///         rendezvous_missing; on one: rendezvous_listen (rank 0 cannot listen), rendezvous_unreachable (no
///         answer by the deadline). finish() returns rendezvous_lost. A connection without the hello of a
///         rank is dropped. A well-formed hello is believed: open the port to the nodes of the job only.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/byte_order.h"
#include "sim/base/error.h"

namespace sim {

struct RendezvousSpec {
  int rank = 0;
  int world_size = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  std::string program_version;                      // must be the same on every rank
  std::uint64_t configuration = 0;                  // a hash of everything else that must be
  Bytes payload = {};                               // of rank 0, for all ranks; at most 512 bytes
  std::chrono::milliseconds deadline{60'000};       // the longest time of meet(), and of finish()
  std::chrono::milliseconds hello_patience{5'000};  // the longest time until the hello of a new connection
};

struct Meeting {
  Bytes payload;       // of rank 0
  int local_rank = 0;  // place among the ranks with the same host name, in rank order
};

struct Report {
  bool is_equal = true;
  std::string text;  // at most 4095 bytes of it reach rank 0
};

struct Conclusion {
  int exit_code = 0;               // 0: equal on every rank; 1: different on a rank; 3: a rank did not report
  std::optional<Refusal> failure;  // present if exit_code is 3
  std::vector<Report> reports;     // at rank 0: of all ranks; a rank that did not report has an empty text
};

class Rendezvous {
 public:
  explicit Rendezvous(RendezvousSpec spec);
  ~Rendezvous();
  Meeting meet();
  Conclusion finish(const Report& report);

 private:
  struct Network;
  std::unique_ptr<Network> network_;
};

}  // namespace sim
