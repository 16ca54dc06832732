#pragma once

/// Messages between places of a group that are as far from each other as those of no other message: one that
/// is sent to a wrong peer, or received from one. In a pipeline messages go to the next place, to the one
/// before, or from one end to the other.
///
/// Exact   A distance is usual in groups of one description where a message has ended that went as far, in
///         either direction, or where two ranks have made one. Nothing is odd where no distance is known to
///         be usual, unless the dump of the rank has every call of it.

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "verify/inspect/job.h"

namespace verify {

class UsualDistances {
 public:
  explicit UsualDistances(const Job& job);
  /// Whether a message of a dump goes to, or comes from, an odd place.
  bool is_odd(std::size_t dump, const RecordedCall& call) const;

 private:
  struct Seen {
    std::size_t dump = 0;  // the first that has a message that goes as far
    bool is_usual = false;
  };
  using Key = std::pair<std::string, int>;  // the description of the group, and the distance

  Key key_of(std::size_t dump, const RecordedCall& call) const;

  const Job& job_;
  std::map<Key, Seen> seen_;
};

}  // namespace verify
