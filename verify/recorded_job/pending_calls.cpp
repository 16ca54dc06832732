#include "verify/recorded_job/pending_calls.h"

#include <algorithm>
#include <set>
#include <utility>

namespace verify {

namespace {

constexpr std::size_t kMostOfABatch = 1024;  // messages: a longer run of them is taken for several batches

bool is_completed(const JobCall& call) {
  const RecordedStatus* const counted = call.job->counts_of(&call.job->groups_of[call.dump][call->group]);
  return call.is_completed() ||
         (counted != nullptr && call.is_collective() && counted->completed >= call->sequence);
}

/// Whether two calls, one of which was issued right after the other, may be messages of one batch, or are the
/// parts of a coalesced collective, which have one number. PyTorch gives all messages of a batch one number,
/// which not every recorder keeps.
bool are_in_a_batch(const JobCall& a, const JobCall& b) {
  if (a->group != b->group || a.is_collective() != b.is_collective()) return false;
  if (a.is_collective()) return a->sequence == b->sequence;
  const bool has_numbers = a->p2p_sequence > 0 && b->p2p_sequence > 0;
  return (!has_numbers || a->p2p_sequence == b->p2p_sequence) &&
         (a->record_id < 0 || b->record_id - a->record_id <= 1);
}

/// Finds the calls that hold the rank of a dump, among the calls that are pending.
std::vector<JobCall> front_of(const Job& job, std::size_t dump, const std::vector<JobCall>& pending) {
  const std::size_t size = job.recordings[dump].calls.size();
  const auto goes_on_behind = [&](std::size_t i) {
    return i + 1 < size && are_in_a_batch(job.call_at(dump, i), job.call_at(dump, i + 1));
  };
  const auto holds = [&](const JobCall& call) {
    if (call.operation().kind != Operation::Kind::send) return true;
    std::size_t last = call.index();
    while (goes_on_behind(last)) ++last;
    return last + 1 == size;
  };
  auto first = std::ranges::find_if(
      pending, [&](const JobCall& call) { return holds(call) && call.group().members.size() > 1; });
  if (first == pending.end()) first = std::ranges::find_if(pending, holds);
  if (first == pending.end()) return {};
  const std::size_t of = first->index();
  std::size_t begin = of, end = of;
  // Parts of a collective before its first pending one have ended.
  while (!first->is_collective() && begin > 0 && of - begin < kMostOfABatch && goes_on_behind(begin - 1))
    --begin;
  while ((first->is_collective() || end - of < kMostOfABatch) && goes_on_behind(end)) ++end;
  std::vector<JobCall> front;
  std::ranges::copy_if(pending, std::back_inserter(front),
                       [&](const JobCall& call) { return call.index() >= begin && call.index() <= end; });
  return front;
}

/// Returns the calls that "pg_status" knows as pending and the ring has lost.
std::vector<CollectiveId> lost_calls(const Job& job, std::size_t dump) {
  std::vector<CollectiveId> lost;
  if (job.recordings[dump].is_truncated)
    return lost;  // the file ends before such a call, and the ring has it
  for (const GroupOfRank& own : job.groups_of[dump]) {
    const RecordedStatus* const counted = job.counts_of(&own);
    if (counted == nullptr) continue;
    const std::int64_t next = std::max<std::int64_t>(counted->completed, 0) + 1;  // -1: none has completed
    if (next <= counted->enqueued) lost.push_back({own.group, next});
  }
  if (lost.empty()) return lost;
  std::set<CollectiveId> recorded;
  for (const JobCall call : job.calls_of(dump))
    if (call.is_collective()) recorded.insert(call.id());
  std::erase_if(lost, [&](const CollectiveId& id) { return recorded.contains(id); });
  return lost;
}

PendingCalls pending_calls(const Job& job, std::size_t dump) {
  PendingCalls pending;
  for (const JobCall call : job.calls_of(dump))
    if (!is_completed(call)) pending.calls.push_back(call);
  pending.lost = lost_calls(job, dump);
  // What the ring has lost came before what it has, so the rank is held there or still earlier.
  if (pending.lost.empty()) pending.front = front_of(job, dump, pending.calls);
  return pending;
}

/// Whether "pg_status" counts the calls of every group of a rank that may hold it. Then what the ring has
/// lost is known: of each group the calls that are counted as issued, and are not in the dump.
bool counts_all_groups(const Job& job, std::size_t dump) {
  return std::ranges::all_of(job.groups_of[dump], [&](const GroupOfRank& own) {
    if (!own.status) return false;
    const JobGroup& group = job.groups[own.group];
    return group.has_status || own.status->enqueued <= 0 || group.members.size() == 1;
  });
}

}  // namespace

MessageCounts::MessageCounts(const Job& job) : job_(job), ranks_(job.recordings.size()) {
  for (const JobCall call : job.calls()) {
    if (!call.operation().is_message() || !call.recording().is_whole()) continue;
    OfRank& rank = ranks_[call.dump];
    const Direction direction{call.group_id(), call.operation().kind, call.operation().from,
                              call.operation().to};
    rank.numbers.resize(call.recording().calls.size());
    rank.numbers[call.index()] = ++rank.issued[direction];
    if (call.is_completed()) ++rank.completed[direction];
  }
}

bool MessageCounts::has_completed_half(std::size_t peer, const JobCall& call) const {
  const std::optional<std::int64_t> number = number_of(call);
  if (!number) return false;
  const bool sends = call.operation().kind == Operation::Kind::send;
  const auto found =
      ranks_[peer].completed.find({call.group_id(), sends ? Operation::Kind::recv : Operation::Kind::send,
                                   call.operation().from, call.operation().to});
  return found != ranks_[peer].completed.end() && found->second >= *number;
}

std::optional<std::int64_t> MessageCounts::number_of(const JobCall& call) const {
  const std::vector<std::int64_t>& numbers = ranks_[call.dump].numbers;
  return numbers.empty() ? std::nullopt : std::optional(numbers[call.index()]);
}

std::vector<int> MessageCounts::senders_behind() const {
  std::set<int> behind;
  for (const OfRank& receiver : ranks_) {
    for (const auto& [direction, received] : receiver.completed) {
      const auto& [group, kind, from, to] = direction;
      if (kind != Operation::Kind::recv) continue;
      const int rank = job_.groups[group].rank_at(from);
      const auto dump = rank < 0 ? std::nullopt : job_.dump_of(rank);
      if (!dump || !job_.recordings[*dump].is_whole()) continue;
      const auto sent = ranks_[*dump].issued.find({group, Operation::Kind::send, from, to});
      if (sent == ranks_[*dump].issued.end() || sent->second < received) behind.insert(rank);
    }
  }
  return {behind.begin(), behind.end()};
}

void Furthest::take(const CollectiveId& completed, int rank, bool is_counted) {
  Completed& known = of_[completed.group];
  if (completed.sequence > known.sequence) known = {completed.sequence, rank, is_counted};
}

void Furthest::take_counts() {
  for (const std::size_t dump : job_.dumps()) {
    for (const GroupOfRank& own : job_.groups_of[dump])
      if (const RecordedStatus* const counted = job_.counts_of(&own))
        take({own.group, counted->completed}, job_.rank_of(dump), true);
  }
}

Progresses::Progresses(const Job& job) : job_(job), messages_(job) {
  for (const JobCall call : job.calls()) has_completed_calls_ = has_completed_calls_ || call.is_completed();
  for (const std::size_t dump : job.dumps()) {
    pending_.push_back(pending_calls(job, dump));
    std::vector<CollectiveId>& ids = collectives_.emplace_back(pending_.back().lost);
    for (const JobCall& call : pending_.back().calls)
      if (call.is_collective()) ids.push_back(call.id());
    std::ranges::sort(ids);
  }
  find_cut_rings();
}

void Progresses::find_cut_rings() {
  const bool has_lost =
      std::ranges::any_of(pending_, [](const PendingCalls& pending) { return !pending.lost.empty(); });
  for (const std::size_t dump : job_.dumps()) {
    const PendingCalls& pending = pending_[dump];
    const bool begins_pending = !pending.calls.empty() && pending.calls.front().index() == 0;
    const bool is_cut =
        (has_completed_calls_ || has_lost) && begins_pending && pending.calls.front()->record_id > 0;
    // One call that is lost came before all that are pending in the dump, so it holds the rank.
    const bool is_known = pending.lost.size() <= 1 && counts_all_groups(job_, dump);
    may_have_lost_.push_back((is_cut || !pending.lost.empty()) && !is_known);
  }
}

bool Progresses::is_pending(std::size_t dump, const CollectiveId& id) const {
  return std::ranges::binary_search(collectives_[dump], id);
}

std::int64_t Progresses::last_issued(std::size_t dump, std::uint32_t group) const {
  const GroupOfRank* const own = job_.find(dump, group);
  if (own == nullptr) return 0;
  const RecordedStatus* const counted = job_.counts_of(own);
  return std::max<std::int64_t>({own->last_recorded, counted != nullptr ? counted->enqueued : 0, 0});
}

std::int64_t Progresses::last_number(std::size_t dump, std::uint32_t group, bool of_messages) const {
  const RecordedStatus* const counted = job_.counts_of(job_.find(dump, group));
  if (!of_messages && counted != nullptr) return counted->enqueued;
  if (!has_completed_calls_) return -1;
  std::int64_t last = -1;
  for (const JobCall call : job_.calls_of(dump)) {
    if (call.group_id() == group && call.is_collective() != of_messages)
      last = std::max(last, call->number(of_messages));
  }
  return last < 0 && job_.recordings[dump].is_whole() ? 0 : last;
}

bool Progresses::has_issued(std::size_t dump, const CollectiveId& id) const {
  return is_pending(dump, id) || last_issued(dump, id.group) >= id.sequence;
}

bool Progresses::has_completed(std::size_t dump, const CollectiveId& id) const {
  if (!has_issued(dump, id) || is_pending(dump, id)) return false;
  const RecordedStatus* const counted = job_.counts_of(job_.find(dump, id.group));
  return counted == nullptr || counted->completed >= id.sequence || job_.has_failed_calls[dump];
}

}  // namespace verify
