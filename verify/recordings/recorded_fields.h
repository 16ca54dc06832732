#pragma once

/// Turns the values of a parsed dump into a recording, field by field and by the fields' names.
///
/// Exact   Numbers may be written as texts, as the JSON form does. A time counts where it is neither null nor
///         0. A call is completed if its state or its time says so; and where it is retired and its recorder
///         has no events of a device (gloo), which leaves the state as it was. The parts of a coalesced call
///         have its state, and the call that ends them is left out. Calls are ordered by record_id.
///         A group that is destroyed and made again under its name is another group: its calls have another
///         number of their communicator (pg_id), and are counted from the beginning.
/// Errors  dump_limit: too many groups or calls, or too many values to read; a value that stands in several
///         places is counted in each.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verify/recordings/pickle_reader.h"
#include "verify/recordings/recording.h"
#include "verify/recordings/value_tree.h"

namespace verify {

// The ranks of groups, as lists that many recordings share: a world of 16,384 ranks has 16,384 dumps, and
// each of them lists all ranks several times.

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

/// Whether a value has a field that only a dump has.
bool has_fields_of_dump(const Value& value, const ValueTree& tree);

/// Returns the recording of a dump, whose rank is not known. `lists` keeps the ranks of groups.
Recording recorded(const ParsedFile& file, const ValueTree& tree, SharedRanks& lists,
                   const std::string& path);

}  // namespace verify
