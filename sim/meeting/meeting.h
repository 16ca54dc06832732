#pragma once

/// The values that each rank gives to a rendezvous, and the values that it gets back.
///
/// Shapes  payloads are opaque and have at most kMostPayload bytes; texts have at most kMostText bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/meeting/rank_messages.h"

namespace sim {

struct RendezvousSpec {
  int rank = 0;
  int world_size = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0, allowed at rank 0 only, lets the system choose a port
  std::string program_version;
  std::uint64_t configuration = 0;  // a hash of everything that must be the same on every rank
  Bytes payload;                    // rank 0's payload goes to all ranks; theirs go to rank 0
  /// The longest time that a rank waits, at meet() and at finish(), and so the longest time between the first
  /// and the last rank to come.
  std::chrono::milliseconds deadline{60'000};
  /// The part of the other ranks' deadlines, at most a quarter, that rank 0 leaves for its answer to arrive.
  std::chrono::milliseconds grace{5'000};
  /// The time in which a new connection must send its hello.
  std::chrono::milliseconds hello_patience{5'000};
};

/// A connection that rank 0 closed because it came from no rank of the world, or from one that left.
struct DroppedConnection {
  std::string peer;
  std::string reason;
};

struct DroppedConnections {
  static constexpr std::size_t kMostKept = 64;
  std::vector<DroppedConnection> first;  // the first ones, at most kMostKept
  std::int64_t count = 0;                // number of all dropped connections

  void add(const std::string& peer, const std::string& reason) {
    ++count;
    if (first.size() < kMostKept) first.push_back({peer, reason});
  }
};

struct Meeting {
  Bytes payload;                // the payload of rank 0
  std::vector<Bytes> payloads;  // at rank 0: the payloads of all ranks in rank order; empty elsewhere
  int local_rank = 0;           // place among the ranks with the same host name, in rank order
  int local_world_size = 1;     // number of ranks with the same host name
};

struct Conclusion {
  int exit_code = 0;               // 0: equal on every rank; 1: different on a rank; 3: a rank did not report
  std::optional<Refusal> failure;  // present if exit_code is 3
  /// At rank 0 the reports of all ranks in rank order; a rank that did not report has an empty text. Empty on
  /// the other ranks.
  std::vector<Report> reports;
};

/// Returns the conclusion, without reports. Ranks that got the same ending get the same conclusion.
inline Conclusion conclusion_of(const Ending& ending) {
  if (ending.failure) return {3, ending.failure, {}};
  return {ending.is_equal ? 0 : 1, {}, {}};
}

/// Returns a text such as "60 s" or "250 ms".
inline std::string text_of(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace sim
