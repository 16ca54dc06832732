#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "verify/inspect/sentences.h"
#include "verify/inspect/suspect_rules.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The messages at which ranks are, by dump.
using FirstMessages = std::map<std::size_t, std::vector<JobCall>>;

/// Returns the first pending message of each rank, with its batch. In groups of one rank nobody is awaited.
FirstMessages first_messages(const Evidence& know) {
  FirstMessages first_of;
  for (const std::size_t dump : know.job.dumps()) {
    if (know.progresses.may_have_lost(dump) || !know.lags[dump].empty()) continue;
    const PendingCalls& pending = know.progresses.of(dump);
    const auto first = std::ranges::find_if(
        pending.calls, [](const JobCall& call) { return call.group().members.size() > 1; });
    if (first == pending.calls.end() || !first->operation().is_message()) continue;
    const bool is_in_front = std::ranges::find(pending.front, *first) != pending.front.end();
    first_of[dump] = is_in_front ? pending.front : std::vector<JobCall>{*first};
  }
  return first_of;
}

bool has_other_half(const Evidence& know, const FirstMessages& first, const JobCall& call) {
  const auto dump = call.peer() < 0 ? std::nullopt : know.job.dump_of(call.peer());
  const auto there = dump ? first.find(*dump) : first.end();
  return there != first.end() && std::ranges::any_of(there->second, [&](const JobCall& other) {
           const auto own = know.progresses.messages().number_of(call);
           const auto theirs = know.progresses.messages().number_of(other);
           return call.is_other_half_of(other) && (!own || !theirs || *own == *theirs);
         });
}

bool is_of_several(const HoldingCall& call) { return !call.is_message && call.waiting.size() > 1; }

/// Whether a member whose dump is early was held, when it wrote the dump, by a call before this collective:
/// it had issued this one, and its device may not have come to it.
bool may_have_been_held_before(const Evidence& know, const HoldingCall& call) {
  return !call.is_message && std::ranges::any_of(know.job.groups[call.group].members, [&](int member) {
    if (!know.is_early(member)) return false;
    for (const JobCall one : know.job.calls_of(*know.job.dump_of(member)))
      if (!one.is_completed()) return one.id() != call.id();
    return false;
  });
}

/// Whether a call holds its ranks itself: nothing that is pending before it may be lost, on them or on the
/// peer of a message.
bool is_certain(const Evidence& know, const HoldingCall& call) {
  return call.call >= 0 && !know.job.groups[call.group].may_lack_members &&
         !may_have_been_held_before(know, call) && (call.peer < 0 || !know.may_have_lost(call.peer)) &&
         std::ranges::none_of(
             call.waiting, [&](int rank) { return know.may_have_lost(rank) || know.has_lost_call_of(rank); });
}

/// Returns the calls that hold the ranks of a call and wait for others.
std::vector<const HoldingCall*> calls_that_await(const Evidence& know, const HoldingCall& call) {
  std::vector<const HoldingCall*> found;
  for (const int rank : call.waiting) {
    for (const std::size_t other : know.front_of(rank))
      if (know.graph.calls[other].awaits()) found.push_back(&know.graph.calls[other]);
  }
  return found;
}

/// The ranks whose devices have not begun a collective that the devices of others have begun.
std::vector<int> ranks_behind(const Evidence& know, const HoldingCall& call) {
  std::vector<int> behind = call.waiting;
  std::erase_if(behind, [&](int rank) {
    const std::vector<JobCall>& front = know.progresses.of(*know.job.dump_of(rank)).front;
    const auto own = std::ranges::find(front, call.id(), &JobCall::id);
    return own != front.end() && (*own)->state == CallState::started;
  });
  return !call.is_message && behind.size() < call.waiting.size() ? behind : std::vector<int>();
}

class StuckCallJudge {
 public:
  StuckCallJudge(const Evidence& know, Suspects& suspects) : know_(know), found_(suspects) {}

  void judge(const std::vector<const HoldingCall*>& stuck) {
    std::vector<const HoldingCall*> unreceived, certain;
    for (const HoldingCall* const call : stuck) {
      const std::vector<const HoldingCall*> others = calls_that_await(know_, *call);
      unreceived.insert(unreceived.end(), others.begin(), others.end());
      if (others.empty() && is_certain(know_, *call)) certain.push_back(call);
    }
    // Of a call that some devices have begun, the dumps tell which have not, whatever else runs.
    std::vector<const HoldingCall*> telling;
    std::ranges::copy_if(certain, std::back_inserter(telling),
                         [&](const HoldingCall* call) { return !ranks_behind(know_, *call).empty(); });
    const auto collectives = static_cast<std::size_t>(
        std::ranges::count_if(certain, [](const HoldingCall* call) { return is_of_several(*call); }));
    if (telling.empty() && collectives > 1 && unreceived.empty()) {
      found_.running = collectives;
      return;
    }
    for (const HoldingCall* const call : telling.empty() ? certain : telling)
      if (!add_counted(*call)) add_stuck(*call);
    if (!found_.ranks.empty()) return;
    for (const HoldingCall* const call : unreceived) add_unreceived(*call);
  }

 private:
  void add_unreceived(const HoldingCall& call) {
    if (!call.is_message || call.awaited.empty() || !is_certain(know_, call)) return;
    const int sender = call.waiting.front();
    found_.seen = Seen::unreceived;
    const HoldingCall* const other = know_.message_that_awaits(sender);
    if (other == nullptr)
      found_.add(call.awaited.front(), SuspectKind::order,
                 sentence("why_unreceived", {{"call", know_.words_of(call)}, {"ranks", call.waiting}}));
    else
      found_.add(sender, SuspectKind::order,
                 sentence("why_unreceived_own", {{"call", know_.words_of(call)},
                                                 {"ranks", other->waiting},
                                                 {"other", know_.words_of(*other)}}));
  }

  /// Dumps of active calls alone count what has completed, and do not tell which calls these were. Where few
  /// members have completed a call by their count, in which the others wait, they may have made another one.
  /// Returns whether there are such members.
  bool add_counted(const HoldingCall& call) {
    const JobGroup& group = know_.job.groups[call.group];
    if (call.is_message || !group.has_status || know_.progresses.has_completed_calls()) return false;
    const Operation& operation = call.recorded_in(know_.job)->operation();
    // These may well end on a root, or on some members, before they end on others.
    if (operation.name == "broadcast" || operation.name == "scatter" || operation.name == "all_to_all")
      return false;
    std::vector<int> few = group.members;
    std::erase_if(few, [&](int member) { return std::ranges::binary_search(call.waiting, member); });
    if (few.empty() || few.size() > call.waiting.size()) return false;
    std::ranges::sort(few);
    if (found_.seen == Seen::kinds) found_.seen = Seen::counted;
    found_.detail = sentence("detail_counted",
                             {{"ranks", few}, {"call", know_.words_of(call)}, {"waiting", call.waiting}});
    const bool may_be_both = few.size() == call.waiting.size() || operation.kind == Operation::Kind::rooted;
    if (may_be_both) few.insert(few.end(), call.waiting.begin(), call.waiting.end());
    for (const int rank : few) found_.add(rank, SuspectKind::order, capital(found_.detail) + ".");
    return true;
  }

  /// A call to which all have come. Where the recorder knew which devices have begun it, the others are
  /// named.
  void add_stuck(const HoldingCall& call) {
    const std::vector<int> behind = ranks_behind(know_, call);
    if (found_.seen != Seen::not_begun) found_.seen = behind.empty() ? Seen::stuck : Seen::not_begun;
    std::vector<int> members = call.waiting;
    if (call.is_message && call.peer >= 0) members.push_back(call.peer);
    for (const int rank : behind.empty() ? members : behind)
      found_.add(rank, SuspectKind::device,
                 behind.empty() ? stuck_words(know_.job, call)
                                : sentence("why_not_begun", {{"call", know_.words_of(call)}}));
  }

  const Evidence& know_;
  Suspects& found_;
};

}  // namespace

void add_stuck_messages(const Evidence& know, Suspects& suspects) {
  FirstMessages first = first_messages(know);
  const auto is_unmatched = [&](const auto& one) {
    return !std::ranges::all_of(one.second,
                                [&](const JobCall& call) { return has_other_half(know, first, call); });
  };
  while (std::erase_if(first, is_unmatched) > 0) {
  }
  for (const auto& [dump, calls] : first) {
    suspects.seen = Seen::stuck;
    suspects.add(calls.front().rank(), SuspectKind::device,
                 sentence("why_both_halves", {{"call", call_words(calls.front())}}));
  }
}

bool can_end(const Evidence& know, const HoldingCall& call) {
  const auto is_unknown = [&](int member) { return !know.job.dump_of(member) || know.is_cut(member); };
  return is_of_several(call) && std::ranges::none_of(know.job.groups[call.group].members, is_unknown) &&
         is_certain(know, call) && calls_that_await(know, call).empty();
}

void add_stuck_calls(const Evidence& know, const std::vector<const HoldingCall*>& stuck, Suspects& suspects) {
  StuckCallJudge(know, suspects).judge(stuck);
}

}  // namespace verify
