#include "verify/inspect/message_counts.h"

#include <set>

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
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!job_.operation(dump, calls[i]).is_message()) continue;
    const Direction direction = direction_of(dump, calls[i]);
    rank.numbers.resize(calls.size());
    rank.numbers[i] = ++rank.issued[direction];
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

std::optional<std::int64_t> MessageCounts::number_of(std::size_t dump, std::uint32_t call) const {
  if (ranks_[dump].numbers.empty()) return std::nullopt;
  return ranks_[dump].numbers[call];
}

std::vector<int> MessageCounts::senders_behind() const {
  std::set<int> behind;
  for (const OfRank& receiver : ranks_) {
    for (const auto& [direction, received] : receiver.completed) {
      if (direction.kind != Operation::Kind::recv) continue;
      const int rank = job_.groups[direction.group].rank_at(direction.from);
      const int dump = rank < 0 ? -1 : job_.dump_of_rank[static_cast<std::size_t>(rank)];
      if (dump < 0 || !job_.recordings[static_cast<std::size_t>(dump)].is_whole()) continue;
      Direction sent = direction;
      sent.kind = Operation::Kind::send;
      const auto& issued = ranks_[static_cast<std::size_t>(dump)].issued;
      const auto found = issued.find(sent);
      if (found == issued.end() || found->second < received) behind.insert(rank);
    }
  }
  return {behind.begin(), behind.end()};
}

}  // namespace verify
