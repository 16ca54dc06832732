#include "verify/inspect/odd_peers.h"

#include <algorithm>
#include <cstdlib>

namespace verify {

UsualDistances::UsualDistances(const Job& job) : job_(job) {
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    for (const RecordedCall& call : job.recordings[dump].calls) {
      if (!job.operation(dump, call).is_message()) continue;
      Seen& seen = seen_.try_emplace(key_of(dump, call), Seen{dump, false}).first->second;
      if (call.state == CallState::completed || seen.dump != dump) seen.is_usual = true;
    }
  }
}

UsualDistances::Key UsualDistances::key_of(std::size_t dump, const RecordedCall& call) const {
  const Operation& operation = job_.operation(dump, call);
  return {job_.groups[job_.group_of(dump, call)].description, std::abs(operation.to - operation.from)};
}

bool UsualDistances::is_odd(std::size_t dump, const RecordedCall& call) const {
  const Operation& operation = job_.operation(dump, call);
  if (!operation.is_message() || operation.from < 0 || operation.to < 0) return false;
  const Key key = key_of(dump, call);
  const auto own = seen_.find(key);
  if (own == seen_.end() || own->second.is_usual) return false;
  return job_.recordings[dump].is_whole() || std::ranges::any_of(seen_, [&](const auto& one) {
           return one.first.first == key.first && one.second.is_usual;
         });
}

}  // namespace verify
