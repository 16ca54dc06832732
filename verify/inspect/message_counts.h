#pragma once

/// Messages by their numbers: the n-th send from one rank to another in a group is the other half of the n-th
/// recv there. So the dumps of both ends tell together how far a message came.
///
/// Exact   Only dumps that have every call of their rank (Recording::is_whole) tell the number of a message.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "verify/inspect/job.h"

namespace verify {

class MessageCounts {
 public:
  explicit MessageCounts(const Job& job);

  /// Whether the rank at the other end, whose dump is `peer`, has completed its half of a message. False
  /// where the dumps do not tell.
  bool has_completed_half(std::size_t peer, std::size_t dump, std::uint32_t call) const;

  /// Returns the number of a message, from 1; nothing where the dump does not tell it.
  std::optional<std::int64_t> number_of(std::size_t dump, std::uint32_t call) const;
  /// Returns the ranks that have issued fewer sends than their peers have received, by the dumps of both.
  std::vector<int> senders_behind() const;

 private:
  /// The messages of a group between two positions, in one direction.
  struct Direction {
    std::uint32_t group = 0;
    Operation::Kind kind = Operation::Kind::send;
    int from = -1, to = -1;
    auto operator<=>(const Direction&) const = default;
  };
  struct OfRank {
    std::map<Direction, std::int64_t> issued, completed;
    std::vector<std::int64_t> numbers;  // by call; empty where no call is a message
  };

  Direction direction_of(std::size_t dump, const RecordedCall& call) const;
  OfRank counted(std::size_t dump) const;

  const Job& job_;
  std::vector<OfRank> ranks_;  // by dump
};

}  // namespace verify
