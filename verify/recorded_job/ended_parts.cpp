#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "verify/recorded_job/job.h"

namespace verify {

namespace {

/// The description of a group, and the operation; "" for messages of all kinds.
using KindOfCall = std::pair<std::string, std::string>;

bool is_message(const Recording& recording, const RecordedCall& call) {
  return call.is_p2p || operation_named(recording.operation(call)).is_message();
}

KindOfCall kind_of(const Recording& recording, const RecordedCall& call) {
  return {recording.groups[call.group].description,
          is_message(recording, call) ? "" : recording.operation(call)};
}

/// Whether two neighbouring calls are messages, or collectives, with one number.
bool are_numbered_alike(const Recording& recording, const RecordedCall& a, const RecordedCall& b) {
  if (a.group != b.group || a.record_id + 1 != b.record_id) return false;
  const bool are_messages = is_message(recording, a);
  if (is_message(recording, b) != are_messages) return false;
  return a.number(are_messages) > 0 && a.number(are_messages) == b.number(are_messages);
}

void add_kinds_of_parts(const Recording& recording, std::set<KindOfCall>& kinds) {
  const std::vector<RecordedCall>& calls = recording.calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool has_neighbour = i + 1 < calls.size() && are_numbered_alike(recording, calls[i], calls[i + 1]);
    if (calls[i].is_part || has_neighbour) kinds.insert(kind_of(recording, calls[i]));
  }
}

/// A file that was cut may have lost the end of its last batch.
std::size_t known_calls(const Recording& recording) {
  const std::vector<RecordedCall>& calls = recording.calls;
  std::size_t known = calls.size();
  if (!recording.is_truncated || known == 0) return known;
  while (--known > 0 && calls[known - 1].record_id + 1 == calls[known].record_id) {
  }
  return known;
}

/// Leaves out the last batch of a file that was cut, where others have an end: whether it has ended is not
/// known.
void leave_out_cut_batch(Recording& recording) {
  std::vector<RecordedCall>& calls = recording.calls;
  const auto is_part = [](const RecordedCall& call) { return call.is_part; };
  if (!recording.is_truncated || std::ranges::none_of(calls, is_part)) return;
  std::size_t begin = calls.size();
  while (begin > 0 && !calls[begin - 1].is_part && is_message(recording, calls[begin - 1]) &&
         (begin == calls.size() || are_numbered_alike(recording, calls[begin - 1], calls[begin])))
    --begin;
  calls.resize(begin);
}

}  // namespace

void leave_out_ended_parts(std::vector<Recording>& recordings) {
  for (Recording& recording : recordings) leave_out_cut_batch(recording);
  std::set<KindOfCall> kinds;
  for (const Recording& recording : recordings) {
    for (const RecordedCall& call : recording.calls) {
      if (call.state == CallState::completed) return;
    }
    add_kinds_of_parts(recording, kinds);
  }
  if (kinds.empty()) return;
  for (Recording& recording : recordings) {
    const auto first_unknown = recording.calls.begin() + static_cast<std::ptrdiff_t>(known_calls(recording));
    const auto kept = std::remove_if(recording.calls.begin(), first_unknown, [&](const RecordedCall& call) {
      return !call.is_part && kinds.contains(kind_of(recording, call));
    });
    recording.calls.erase(kept, first_unknown);
  }
}

}  // namespace verify
