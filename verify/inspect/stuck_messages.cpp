#include "verify/inspect/stuck_messages.h"

#include <algorithm>
#include <map>
#include <optional>

namespace verify {

namespace {

class StuckFinder {
 public:
  StuckFinder(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags)
      : job_(job), progresses_(progresses) {
    for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
      if (!progresses.may_have_lost(dump) && !lags[dump].is_device) add_first(dump);
    }
  }

  std::vector<StuckMessage> find() {
    while (std::erase_if(first_, [&](const auto& one) { return !is_matched(one.first, one.second); }) > 0) {
    }
    std::vector<StuckMessage> found;
    for (const auto& [dump, calls] : first_) {
      const RecordedCall& call = call_of(dump, calls.front());
      found.push_back(
          {job_.recordings[dump].rank, dump, calls.front(), job_.group_of(dump, call), call.p2p_sequence});
    }
    return found;
  }

 private:
  using Calls = std::vector<std::uint32_t>;

  const RecordedCall& call_of(std::size_t dump, std::uint32_t index) const {
    return job_.recordings[dump].calls[index];
  }

  /// Adds the first pending message of a rank, with its batch. Calls of groups of one rank wait for nobody.
  void add_first(std::size_t dump) {
    const PendingCalls& pending = progresses_.of(dump);
    const auto first = std::ranges::find_if(pending.calls, [&](std::uint32_t index) {
      return job_.groups[job_.group_of(dump, call_of(dump, index))].members.size() > 1;
    });
    if (first == pending.calls.end() || !job_.operation(dump, call_of(dump, *first)).is_message()) return;
    const bool is_in_front = std::ranges::find(pending.front, *first) != pending.front.end();
    first_[dump] = is_in_front ? pending.front : Calls{*first};
  }

  bool is_matched(std::size_t dump, const Calls& calls) const {
    return std::ranges::all_of(calls, [&](std::uint32_t index) { return has_other_half(dump, index); });
  }

  bool has_other_half(std::size_t dump, std::uint32_t index) const {
    const RecordedCall& call = call_of(dump, index);
    const Operation& operation = job_.operation(dump, call);
    const bool receives = operation.kind == Operation::Kind::recv;
    const int peer = job_.groups[job_.group_of(dump, call)].rank_at(receives ? operation.from : operation.to);
    if (peer < 0 || job_.dump_of_rank[static_cast<std::size_t>(peer)] < 0) return false;
    const auto there =
        first_.find(static_cast<std::size_t>(job_.dump_of_rank[static_cast<std::size_t>(peer)]));
    if (there == first_.end()) return false;
    return std::ranges::any_of(there->second, [&](std::uint32_t other) {
      return job_.are_halves(dump, call, there->first, call_of(there->first, other)) &&
             have_one_number(dump, index, there->first, other);
    });
  }

  /// Whether two halves may be of one message.
  bool have_one_number(std::size_t dump, std::uint32_t index, std::size_t other_dump,
                       std::uint32_t other) const {
    const std::optional<std::int64_t> own = progresses_.messages().number_of(dump, index);
    const std::optional<std::int64_t> theirs = progresses_.messages().number_of(other_dump, other);
    return !own || !theirs || *own == *theirs;
  }

  const Job& job_;
  const Progresses& progresses_;
  std::map<std::size_t, Calls> first_;  // by dump
};

}  // namespace

std::vector<StuckMessage> stuck_messages_of(const Job& job, const Progresses& progresses,
                                            const std::vector<Lag>& lags) {
  return StuckFinder(job, progresses, lags).find();
}

}  // namespace verify
