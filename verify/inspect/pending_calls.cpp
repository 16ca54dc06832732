#include "verify/inspect/pending_calls.h"

#include <algorithm>
#include <set>

namespace verify {

namespace {

constexpr std::size_t kMostOfABatch = 1024;  // messages: a longer run of them is taken for several batches

bool is_completed(const Job& job, std::size_t dump, const RecordedCall& call) {
  if (call.state == CallState::completed) return true;
  const GroupOfRank& own = job.groups_of[dump][call.group];
  return job.groups[own.group].has_status && own.status && job.is_collective(dump, call) &&
         own.status->completed >= call.sequence;
}

/// Whether two calls, one of which was issued right after the other, may be messages of one batch. PyTorch
/// gives all messages of a batch one number, which not every recorder keeps.
bool are_in_a_batch(const Job& job, std::size_t dump, const RecordedCall& a, const RecordedCall& b) {
  const bool has_numbers = a.p2p_sequence > 0 && b.p2p_sequence > 0;
  return a.group == b.group && !job.is_collective(dump, a) && !job.is_collective(dump, b) &&
         (!has_numbers || a.p2p_sequence == b.p2p_sequence) &&
         (a.record_id < 0 || b.record_id - a.record_id <= 1);
}

/// Returns the first and the last call of the batch of a call: of the messages that were issued with it, or
/// of the parts of a coalesced collective, which have one number.
template <typename Batched>
std::pair<std::size_t, std::size_t> batch_of(const Job& job, std::size_t dump, std::size_t of,
                                             const Batched& batched) {
  const std::vector<RecordedCall>& calls = job.recordings[dump].calls;
  std::size_t begin = of, end = of;
  if (job.is_collective(dump, calls[of])) {
    while (end + 1 < calls.size() && calls[end + 1].group == calls[of].group &&
           calls[end + 1].sequence == calls[of].sequence && job.is_collective(dump, calls[end + 1]))
      ++end;
    return {begin, end};
  }
  while (begin > 0 && of - begin < kMostOfABatch && batched(begin - 1)) --begin;
  while (end + 1 < calls.size() && end - of < kMostOfABatch && batched(end)) ++end;
  return {begin, end};
}

/// Finds the calls that hold the rank, among the calls that are pending.
std::vector<std::uint32_t> front_of(const Job& job, std::size_t dump,
                                    const std::vector<std::uint32_t>& pending) {
  const std::vector<RecordedCall>& calls = job.recordings[dump].calls;
  const auto batched = [&](std::size_t i) { return are_in_a_batch(job, dump, calls[i], calls[i + 1]); };
  const auto holds = [&](std::uint32_t index) {
    if (job.operation(dump, calls[index]).kind != Operation::Kind::send) return true;
    std::size_t last = index;
    while (last + 1 < calls.size() && batched(last)) ++last;
    return last + 1 == calls.size();
  };
  const auto has_others = [&](std::uint32_t index) {
    return job.groups[job.group_of(dump, calls[index])].members.size() > 1;
  };
  auto first =
      std::ranges::find_if(pending, [&](std::uint32_t index) { return holds(index) && has_others(index); });
  if (first == pending.end()) first = std::ranges::find_if(pending, holds);
  if (first == pending.end()) return {};
  const auto [begin, end] = batch_of(job, dump, *first, batched);
  std::vector<std::uint32_t> front;
  for (const std::uint32_t index : pending) {
    if (index >= begin && index <= end) front.push_back(index);
  }
  return front;
}

/// Adds the calls that "pg_status" knows as pending and the ring has lost.
void add_lost(const Job& job, std::size_t dump, PendingCalls& pending) {
  const Recording& recording = job.recordings[dump];
  if (recording.is_truncated) return;  // the file ends before such a call, and the ring has it
  for (const GroupOfRank& own : job.groups_of[dump]) {
    if (own.group == kNoGroup || !own.status || !job.groups[own.group].has_status) continue;
    const std::int64_t next = std::max<std::int64_t>(own.status->completed, 0) + 1;  // -1: none has completed
    if (next <= own.status->enqueued) pending.lost.push_back({own.group, next});
  }
  if (pending.lost.empty()) return;
  std::vector<CollectiveId> recorded;
  for (const RecordedCall& call : recording.calls) {
    if (job.is_collective(dump, call)) recorded.push_back({job.group_of(dump, call), call.sequence});
  }
  std::ranges::sort(recorded);
  std::erase_if(pending.lost,
                [&](const CollectiveId& id) { return std::ranges::binary_search(recorded, id); });
}

/// Whether the dumps of a job have completed calls, too.
bool has_completed_calls(const Job& job) {
  return std::ranges::any_of(job.recordings, [](const Recording& recording) {
    return std::ranges::any_of(recording.calls,
                               [](const RecordedCall& call) { return call.state == CallState::completed; });
  });
}

/// Whether "pg_status" counts the calls of every group of a rank that may hold it. Then what the ring has
/// lost is known: of each group the calls that are counted as issued, and are not in the dump.
bool counts_all_groups(const Job& job, std::size_t dump) {
  return std::ranges::all_of(job.groups_of[dump], [&](const GroupOfRank& own) {
    if (own.group == kNoGroup || !own.status) return false;
    const JobGroup& group = job.groups[own.group];
    return group.has_status || own.status->enqueued <= 0 || group.members.size() == 1;
  });
}

}  // namespace

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

PendingCalls pending_calls(const Job& job, std::size_t dump) {
  PendingCalls pending;
  if (job.is_early[dump]) return pending;
  const Recording& recording = job.recordings[dump];
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    if (!is_completed(job, dump, recording.calls[i])) pending.calls.push_back(static_cast<std::uint32_t>(i));
  }
  pending.front = front_of(job, dump, pending.calls);
  add_lost(job, dump, pending);
  // What the ring has lost came before what it has, so the rank is held there or still earlier.
  if (!pending.lost.empty()) pending.front.clear();
  return pending;
}

Progresses::Progresses(const Job& job)
    : job_(job), messages_(job), has_completed_calls_(verify::has_completed_calls(job)) {
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    pending_.push_back(pending_calls(job, dump));
    std::vector<CollectiveId> ids = pending_.back().lost;
    for (const std::uint32_t index : pending_.back().calls) {
      const RecordedCall& call = job.recordings[dump].calls[index];
      if (job.is_collective(dump, call)) ids.push_back({job.group_of(dump, call), call.sequence});
    }
    std::ranges::sort(ids);
    collectives_.push_back(std::move(ids));
  }
  find_cut_rings();
}

void Progresses::find_cut_rings() {
  const bool has_lost =
      std::ranges::any_of(pending_, [](const PendingCalls& pending) { return !pending.lost.empty(); });
  for (std::size_t dump = 0; dump < pending_.size(); ++dump) {
    const std::vector<RecordedCall>& calls = job_.recordings[dump].calls;
    const bool begins_pending = !pending_[dump].calls.empty() && pending_[dump].calls.front() == 0;
    const bool is_cut = (has_completed_calls_ || has_lost) && begins_pending && calls.front().record_id > 0;
    // One call that is lost came before all that are pending in the dump, so it holds the rank.
    const bool is_known = pending_[dump].lost.size() <= 1 && counts_all_groups(job_, dump);
    may_have_lost_.push_back((is_cut || !pending_[dump].lost.empty()) && !is_known);
  }
}

bool Progresses::is_pending(std::size_t dump, const CollectiveId& id) const {
  return std::ranges::binary_search(collectives_[dump], id);
}

std::int64_t Progresses::last_issued(std::size_t dump, std::uint32_t group) const {
  const GroupOfRank* own = job_.find(dump, group);
  if (own == nullptr) return 0;
  const bool counts = own->status && job_.groups[group].has_status;
  return std::max<std::int64_t>({own->last_recorded, counts ? own->status->enqueued : 0, 0});
}

std::int64_t Progresses::last_number(std::size_t dump, std::uint32_t group, bool of_messages) const {
  const GroupOfRank* const own = job_.find(dump, group);
  if (!of_messages && own != nullptr && own->status && job_.groups[group].has_status)
    return own->status->enqueued;
  if (!has_completed_calls_) return -1;
  std::int64_t last = -1;
  for (const RecordedCall& call : job_.recordings[dump].calls) {
    if (job_.group_of(dump, call) == group && job_.is_collective(dump, call) != of_messages)
      last = std::max(last, call.number(of_messages));
  }
  return last < 0 && job_.recordings[dump].is_whole() ? 0 : last;
}

bool Progresses::has_issued(std::size_t dump, const CollectiveId& id) const {
  return is_pending(dump, id) || last_issued(dump, id.group) >= id.sequence;
}

bool Progresses::has_completed(std::size_t dump, const CollectiveId& id) const {
  return has_issued(dump, id) && !is_pending(dump, id) && [&] {
    const GroupOfRank* own = job_.find(dump, id.group);
    const bool counts = own != nullptr && own->status && job_.groups[id.group].has_status;
    return !counts || own->status->completed >= id.sequence;
  }();
}

}  // namespace verify
