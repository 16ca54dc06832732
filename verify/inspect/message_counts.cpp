#include "verify/inspect/message_counts.h"

namespace verify {

MessageCounts::MessageCounts(const Job& job) : job_(job) {
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) ranks_.push_back(counted(dump));
}

MessageCounts::Direction MessageCounts::direction_of(std::size_t dump, const RecordedCall& call) const {
  const Operation& operation = job_.operation(dump, call);
  return {job_.group_of(dump, call), operation.kind, operation.from, operation.to};
}

MessageCounts::OfRank MessageCounts::counted(std::size_t dump) const {
  OfRank rank;
  const std::vector<RecordedCall>& calls = job_.recordings[dump].calls;
  if (!job_.recordings[dump].is_whole()) return rank;
  std::map<Direction, std::int64_t> issued;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!job_.operation(dump, calls[i]).is_message()) continue;
    const Direction direction = direction_of(dump, calls[i]);
    rank.numbers.resize(calls.size());
    rank.numbers[i] = ++issued[direction];
    if (calls[i].state == CallState::completed) ++rank.completed[direction];
  }
  return rank;
}

bool MessageCounts::has_completed_half(std::size_t peer, std::size_t dump, std::uint32_t call) const {
  if (ranks_[dump].numbers.empty()) return false;
  Direction other = direction_of(dump, job_.recordings[dump].calls[call]);
  other.kind = other.kind == Operation::Kind::send ? Operation::Kind::recv : Operation::Kind::send;
  const auto found = ranks_[peer].completed.find(other);
  return found != ranks_[peer].completed.end() && found->second >= ranks_[dump].numbers[call];
}

}  // namespace verify
