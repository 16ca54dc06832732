#pragma once

/// What a rendezvous is told by each rank, and what each rank takes from it.
///
/// Shapes  payloads are opaque, up to kMostPayload bytes; texts up to kMostText.

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
  int master_port = 0;  // 0, at rank 0 only: one that the system chooses
  std::string program_version;
  std::uint64_t configuration = 0;                  // a hash of what must be the same on every rank
  Bytes payload;                                    // rank 0's reaches all; theirs reach rank 0
  std::chrono::milliseconds deadline{60'000};       // that ranks may be apart, at meet() and at finish()
  std::chrono::milliseconds grace{5'000};           // for the last message to arrive, beyond it
  std::chrono::milliseconds hello_patience{5'000};  // for one that connected to say who it is
};

/// A connection that was none of a rank's.
struct DroppedConnection {
  std::string peer;
  std::string reason;
};

struct DroppedConnections {
  static constexpr std::size_t kMostKept = 64;
  std::vector<DroppedConnection> first;  // kMostKept at most
  std::int64_t count = 0;

  void add(const std::string& peer, const std::string& reason) {
    ++count;
    if (first.size() < kMostKept) first.push_back({peer, reason});
  }
};

struct Meeting {
  Bytes payload;                // rank 0's
  std::vector<Bytes> payloads;  // rank 0: of every rank, in rank order; elsewhere empty
  int local_rank = 0;           // among the ranks that named the same host, in rank order
  int local_world_size = 1;
};

struct Conclusion {
  int exit_code = 0;               // 0: equal on every rank. 1: not. 3: a rank did not report
  std::optional<Refusal> failure;  // with 3
  std::vector<Report> reports;     // rank 0: in rank order, empty where there is none; elsewhere empty
};

/// The same on every rank that is told the same.
inline Conclusion conclusion_of(const Ending& ending) {
  if (ending.failure) return {3, ending.failure, {}};
  return {ending.is_equal ? 0 : 1, {}, {}};
}

/// "60 s", "250 ms".
inline std::string text_of(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace sim
