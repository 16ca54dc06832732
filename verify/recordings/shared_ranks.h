#pragma once

/// The ranks of groups, as lists that many recordings share: a world of 16,384 ranks has 16,384 dumps, and
/// each of them lists all ranks several times.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verify/recordings/value_tree.h"

namespace verify {

class SharedRanks {
 public:
  using Ranks = std::shared_ptr<const std::vector<int>>;
  /// Returns the ranks of a group, which PyTorch writes as a text ("[0, 1]") and others as a list. Null where
  /// the value is neither, has no ranks, or has a number that is no rank. Several threads may call this.
  Ranks find(const Value& ranks, const ValueTree& tree);

 private:
  std::mutex mutex_;
  std::map<std::string, Ranks, std::less<>> lists_;  // by text
};

}  // namespace verify
