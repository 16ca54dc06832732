#include "verify/inspect/stuck_calls.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

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

class StuckCallJudge {
 public:
  explicit StuckCallJudge(const Evidence& know) : know_(know) {}

  StuckCalls judge(const std::vector<std::vector<std::size_t>>& stuck) {
    add_calls(stuck);
    return std::move(found_);
  }

  std::vector<const HoldingCall*> collectives_that_can_end(
      const std::vector<std::vector<std::size_t>>& stuck) const {
    std::vector<const HoldingCall*> found;
    for (const auto& component : stuck) {
      const HoldingCall& call = know_.graph.calls[component.front() - know_.graph.world];
      if (is_of_several(&call) && !has_cut_member(call) && is_certain(call) &&
          calls_that_await(call.waiting).empty())
        found.push_back(&call);
    }
    return found;
  }

 private:
  bool has_cut_member(const HoldingCall& call) const {
    return std::ranges::any_of(know_.job.groups[call.group].members, [&](int member) {
      const Recording* const own = know_.job.find_recording(member);
      return own == nullptr || own->is_truncated;
    });
  }

  static bool is_of_several(const HoldingCall* call) { return !call->is_message && call->waiting.size() > 1; }

  void suspect(int rank, SuspectKind kind, std::string reason) {
    found_.ranks.try_emplace(rank, Suspect{rank, kind, std::move(reason)});
  }

  /// Whether a call holds its ranks itself: nothing that is pending before it may be lost, on them or on the
  /// peer of a message.
  bool is_certain(const HoldingCall& call) const {
    return call.call >= 0 && !know_.job.groups[call.group].may_lack_members &&
           !may_have_been_held_before(call) && (call.peer < 0 || !know_.may_have_lost(call.peer)) &&
           std::ranges::none_of(call.waiting, [&](int rank) {
             return know_.may_have_lost(rank) || know_.has_lost_call_of(rank);
           });
  }

  /// Whether a member whose dump is early was held, when it wrote the dump, by a call before this collective:
  /// it had issued this one, and its device may not have come to it.
  bool may_have_been_held_before(const HoldingCall& call) const {
    return !call.is_message && std::ranges::any_of(know_.job.groups[call.group].members, [&](int member) {
      if (!know_.is_early(member)) return false;
      const auto dump = static_cast<std::size_t>(know_.dump_of(member));
      const std::vector<RecordedCall>& calls = know_.recording(dump).calls;
      const auto open = std::ranges::find_if(
          calls, [](const RecordedCall& one) { return one.state != CallState::completed; });
      return open != calls.end() &&
             (know_.job.group_of(dump, *open) != call.group || open->sequence != call.sequence);
    });
  }

  /// Calls to which all have come. One of them holds none of its ranks where one of these waits in another
  /// call for others, as in a send that nobody has received yet. Where that is so of all of them, those who
  /// have not received are named.
  void add_calls(const std::vector<std::vector<std::size_t>>& stuck) {
    std::vector<std::size_t> unreceived;
    std::vector<const HoldingCall*> certain;
    for (const auto& component : stuck) {
      const HoldingCall& call = know_.graph.calls[component.front() - know_.graph.world];
      const std::vector<std::size_t> others = calls_that_await(call.waiting);
      if (!others.empty()) {
        unreceived.insert(unreceived.end(), others.begin(), others.end());
      } else if (is_certain(call)) {
        certain.push_back(&call);
      }
    }
    // Of a call that some devices have begun, the dumps tell which have not, whatever else runs.
    std::vector<const HoldingCall*> telling;
    std::ranges::copy_if(certain, std::back_inserter(telling),
                         [&](const HoldingCall* call) { return !ranks_behind(*call).empty(); });
    const auto collectives = static_cast<std::size_t>(std::ranges::count_if(certain, is_of_several));
    if (telling.empty() && collectives > 1 && unreceived.empty()) {
      found_.running = collectives;
      return;
    }
    if (!telling.empty()) certain = std::move(telling);
    for (const HoldingCall* call : certain)
      if (!add_counted(*call)) add_stuck(*call);
    if (found_.ranks.empty()) add_unreceived(unreceived);
  }

  /// Returns the calls that hold ranks and wait for others.
  std::vector<std::size_t> calls_that_await(const std::vector<int>& ranks) const {
    std::vector<std::size_t> found;
    for (const int rank : ranks) {
      for (const std::size_t call : know_.graph.fronts[static_cast<std::size_t>(know_.dump_of(rank))]) {
        if (know_.graph.calls[call].awaits()) found.push_back(call);
      }
    }
    return found;
  }

  /// Returns a message that a rank waits for from this one; null where there is none.
  const HoldingCall* message_that_awaits(int rank) const {
    const auto found = std::ranges::find_if(know_.graph.calls, [&](const HoldingCall& call) {
      return call.is_message && std::ranges::find(call.awaited, rank) != call.awaited.end();
    });
    return found == know_.graph.calls.end() ? nullptr : &*found;
  }

  void add_unreceived(const std::vector<std::size_t>& calls) {
    for (const std::size_t index : calls) {
      const HoldingCall& call = know_.graph.calls[index];
      if (!call.is_message || call.awaited.empty() || know_.may_have_lost(call.awaited.front())) continue;
      found_.is_unreceived = true;
      const int sender = call.waiting.front();
      if (const HoldingCall* other = message_that_awaits(sender); other != nullptr) {
        suspect(sender, SuspectKind::order,
                fmt::format(
                    "It waits in {}, to which the other rank has not come, and {} waits for it in {}.",
                    call_words(know_.job, call), ranks_words(other->waiting), call_words(know_.job, *other)));
        continue;
      }
      suspect(call.awaited.front(), SuspectKind::order,
              fmt::format("It has not come to {}, in which {} waits for it.", call_words(know_.job, call),
                          ranks_words(call.waiting)));
    }
  }

  /// Dumps of active calls alone count what has completed, and do not tell which calls these were. Where few
  /// members have completed a call by their count, in which the others wait, they may have made another one.
  /// Returns whether there are such members.
  bool add_counted(const HoldingCall& call) {
    const bool is_counted =
        know_.job.groups[call.group].has_status && !know_.progresses.has_completed_calls();
    if (call.is_message || !is_counted) return false;
    const RecordedCall& recorded = know_.recording(call.dump).calls[static_cast<std::size_t>(call.call)];
    const Operation& operation = know_.job.operation(call.dump, recorded);
    // These may well end on a root, or on some members, before they end on others.
    if (operation.name == "broadcast" || operation.name == "scatter" || operation.name == "all_to_all")
      return false;
    std::vector<int> few = know_.job.groups[call.group].members;
    std::erase_if(few, [&](int member) { return std::ranges::binary_search(call.waiting, member); });
    if (few.empty() || few.size() > call.waiting.size()) return false;
    std::ranges::sort(few);
    found_.counted =
        fmt::format("{} {} completed {} by {} count, and {} {} in it", ranks_words(few),
                    verb(few, "has", "have"), call_words(know_.job, call), verb(few, "its", "their"),
                    ranks_words(call.waiting), verb(call.waiting, "waits", "wait"));
    std::vector<int> named = few;
    if (few.size() == call.waiting.size() || operation.kind == Operation::Kind::rooted)
      named.insert(named.end(), call.waiting.begin(), call.waiting.end());
    for (const int rank : named) suspect(rank, SuspectKind::order, capital(found_.counted) + ".");
    return true;
  }

  /// A call to which all have come. Where the recorder knew which devices have begun it, the others are
  /// named.
  void add_stuck(const HoldingCall& call) {
    const std::vector<int> behind = ranks_behind(call);
    const bool tells = !behind.empty();
    found_.is_stuck = true;
    found_.are_behind = found_.are_behind || tells;
    std::vector<int> members = call.waiting;
    if (call.is_message && call.peer >= 0) members.push_back(call.peer);
    for (const int rank : tells ? behind : members)
      suspect(rank, SuspectKind::device,
              tells ? fmt::format("Its device has not begun {}, which others have begun.",
                                  call_words(know_.job, call))
                    : stuck_words(know_.job, call));
  }

  /// The ranks whose devices have not begun a collective that the devices of others have begun.
  std::vector<int> ranks_behind(const HoldingCall& call) const {
    std::vector<int> behind;
    if (call.is_message) return behind;
    std::ranges::copy_if(call.waiting, std::back_inserter(behind),
                         [&](int rank) { return !has_started(rank, call); });
    return behind.size() < call.waiting.size() ? behind : std::vector<int>();
  }

  bool has_started(int rank, const HoldingCall& holding) const {
    const auto dump = static_cast<std::size_t>(know_.dump_of(rank));
    for (const std::uint32_t index : know_.progresses.of(dump).front) {
      const RecordedCall& call = know_.recording(dump).calls[index];
      if (know_.job.group_of(dump, call) == holding.group && call.sequence == holding.sequence)
        return call.state == CallState::started;
    }
    return false;
  }

  const Evidence& know_;
  StuckCalls found_;
};

}  // namespace

std::vector<StuckMessage> stuck_messages_of(const Job& job, const Progresses& progresses,
                                            const std::vector<Lag>& lags) {
  return StuckFinder(job, progresses, lags).find();
}

std::vector<const HoldingCall*> collectives_that_can_end(
    const Evidence& know, const std::vector<std::vector<std::size_t>>& components) {
  return StuckCallJudge(know).collectives_that_can_end(components);
}

StuckCalls stuck_calls(const Evidence& know, const std::vector<std::vector<std::size_t>>& components) {
  return StuckCallJudge(know).judge(components);
}

}  // namespace verify
