#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/call_meaning.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"
#include "verify/recordings/value_tree.h"

namespace verify {

namespace {

/// Returns ", made in step (/home/me/train.py:41)"; "" without a line.
std::string made_in(const std::string& line) {
  return line.empty() ? "" : sentence("made_in", {{"line", line}});
}

/// Returns "2 of 8 ranks have no dump here (ranks 3 and 4): what they did is not known"; "" if all have one.
std::string words_of_missing_dumps(const Job& job) {
  const std::vector<int> missing = job.ranks_without_dump();
  if (missing.empty()) return "";
  return sentence("missing_dumps",
                  {{"n", std::ssize(missing)}, {"world", job.world_size}, {"ranks", missing}});
}

/// Writes what is seen, with what it is consistent, what makes it doubtful, and the lines of the program.
class VerdictWriter {
 public:
  explicit VerdictWriter(const Inspection& found)
      : found_(found), job_(found.job), waiting_(found.waiting), ranks_(found.ranks_of()) {}

  std::string write() {
    if (found_.suspects.empty()) {
      write_without_suspects();
      const std::string missing = words_of_missing_dumps(job_);
      if (!missing.empty()) say("but_missing", {{"missing", missing}});
    } else if (found_.leading) {
      write_disagreement(*found_.leading);
    } else if (!found_.order.ranks.empty()) {
      text_ = found_.order.text;
    } else if (found_.is_late) {
      write_late();
    } else {
      write_seen();
      if (waiting_.suspects.are_named_by_kinds()) doubt_kinds();
    }
    write_lines();
    doubt_early_dumps();
    // Where the dumps cannot be of one job, what they say together may be wrong.
    const bool contradict = std::ranges::any_of(
        job_.contradictions, [](const InspectionFinding& one) { return one.what != "version"; });
    if (contradict && !found_.suspects.empty()) say("doubt_jobs");
    return std::move(text_);
  }

 private:
  void say(std::string_view name, std::initializer_list<Fact> facts = {}) { text_ += sentence(name, facts); }

  void write_seen() {
    const Suspects& suspects = waiting_.suspects;
    if (suspects.are_named_by_kinds()) return write_kinds();
    if (suspects.are_stuck()) return write_stuck();
    if (suspects.seen == Seen::ahead) return write_ahead();
    say(suspects.seen == Seen::counted ? "counted" : "unreceived",
        {{"detail", suspects.detail}, {"ranks", found_.ranks_of(SuspectKind::order)}, {"who", who_waits()}});
  }

  /// Writes what is seen of the suspects of each kind.
  void write_kinds() {
    for (const SuspectKind kind : {SuspectKind::device, SuspectKind::host, SuspectKind::order,
                                   SuspectKind::absent, SuspectKind::unknown}) {
      const std::vector<int> ranks = found_.ranks_of(kind);
      if (ranks.empty()) continue;
      const bool is_first = text_.empty();
      if (!is_first) text_ += " ";
      if (kind == SuspectKind::order) {
        write_circle(ranks);
      } else {
        const bool are_cut = std::ranges::any_of(
            ranks, [&](int rank) { return job_.find_blank(rank) != nullptr || job_.dump_of(rank); });
        say(suspect_kind_name(kind), {{"ranks", ranks},
                                      {"who", is_first ? who_waits() : ""},
                                      {"cut", are_cut ? " that is whole" : ""}});
      }
    }
  }

  /// The ranks of circles, or those that are alone in them.
  void write_circle(const std::vector<int>& ranks) {
    const Suspects& suspects = waiting_.suspects;
    const std::int64_t circles = std::ssize(suspects.circles);
    const Suspect& first = found_.suspects.front();
    const OddProgram* const departed = suspects.departed.empty() ? nullptr : &suspects.departed.front();
    static const std::map<Seen, std::string_view> names = {
        {Seen::kinds, "circle"},  {Seen::circle, "circle"},     {Seen::alone, "alone"},
        {Seen::missed, "missed"}, {Seen::odd_peer, "odd_peer"}, {Seen::uneven, "uneven"},
        {Seen::facing, "facing"}, {Seen::departed, "departed"}};
    const bool by_habit = suspects.seen == Seen::departed && departed->by_habit;
    say(by_habit ? "departed_by_habit" : names.at(suspects.seen),
        {{"ranks", ranks},
         {"who", who_waits()},
         {"detail", suspects.detail},
         {"calls", words_of_calls(ranks)},
         {"circles", circles == 1 ? "" : sentence("circles", {{"n", circles}})},
         {"others", words_of_others(job_, ranks.size())},
         {"first", ranks.size() == 1 ? "" : fmt::format("Rank {}: ", first.rank)},
         {"reason", first.reason},
         {"other", departed == nullptr ? -1 : job_.rank_of(departed->others.dump)}});
  }

  /// Returns "rank 0 waits in nccl:all_reduce, call 3 of the tp group of ranks 0 and 1, and rank 2 in ...":
  /// of many ranks the first one.
  std::string words_of_calls(const std::vector<int>& ranks) const {
    const bool are_few = ranks.size() <= 3;
    std::vector<std::string> parts;
    for (const int rank : ranks) {
      const HoldingCall* const call = find_call_of(waiting_, rank);
      if (call == nullptr || (!are_few && !parts.empty())) continue;
      parts.push_back(sentence(!are_few        ? "is_in_for_example"
                               : parts.empty() ? "is_in"
                                               : "also_in",
                               {{"rank", rank}, {"call", call_words(job_, *call)}}));
    }
    return fmt::format("{}", fmt::join(parts, ", and "));
  }

  /// Returns "; all others wait for them, through tp, then ep".
  std::string who_waits() const {
    const std::int64_t others = job_.world_size - std::ssize(ranks_);
    if (waiting_.waiting_ranks == 0) return "";
    std::string text = sentence(waiting_.waiting_ranks == others ? "all_wait" : "some_wait",
                                {{"waiting", waiting_.waiting_ranks},
                                 {"others", others},
                                 {"for", sentence("for_suspects", {{"ranks", ranks_}})}});
    if (!waiting_.through.empty())
      text += sentence("through", {{"groups", fmt::format("{}", fmt::join(waiting_.through, ", then "))}});
    return text;
  }

  /// A rank that came to a call after the others had written the dumps in which they wait in it.
  void write_late() {
    const EarlyDumps& early = found_.early;
    say("late", {{"last", early.last},
                 {"seconds", early.late_ns / kSecond},
                 {"ranks", early.last_call.waiting},
                 {"call", call_words(job_, early.last_call)}});
  }

  void write_stuck() {
    // The only collective in which all of these ranks are, and to which all have come.
    const auto has_all = [&](const HoldingCall& call) {
      return !call.awaits() && !call.is_message && std::ranges::includes(call.waiting, ranks_);
    };
    const bool is_one = std::ranges::count_if(waiting_.calls, has_all) == 1;
    const HoldingCall* const call = is_one ? &*std::ranges::find_if(waiting_.calls, has_all) : nullptr;
    if (waiting_.suspects.seen == Seen::not_begun)
      return say("not_begun", {{"ranks", ranks_},
                               {"call", call == nullptr ? "calls" : call_words(job_, *call)},
                               {"who", who_waits()}});
    const bool knows_started = std::ranges::any_of(job_.recordings, [](const Recording& one) {
      return std::ranges::find(one.calls, CallState::started, &RecordedCall::state) != one.calls.end();
    });
    say("stuck", {{"ranks", ranks_},
                  {"call", words_of_stuck_call(call)},
                  {"who", who_waits()},
                  {"calls", call == nullptr ? "calls" : "call"},
                  {"hint", knows_started ? "" : sentence("stuck_timing")}});
  }

  std::string words_of_stuck_call(const HoldingCall* call) const {
    if (call == nullptr) return sentence("stuck_calls");
    const auto recorded = call->recorded_in(job_);
    const bool is_broadcast = recorded && recorded->operation().name == "broadcast";
    return sentence(call->completed.empty() ? "stuck_call" : "stuck_call_ended",
                    {{"call", call_words(job_, *call)},
                     {"completed", call->completed},
                     {"broadcast", is_broadcast ? sentence("stuck_broadcast") : ""}});
  }

  void write_ahead() {
    const std::vector<int> ranks = found_.ranks_of(SuspectKind::order);
    const std::vector<int> awaited = found_.ranks_of(SuspectKind::host);
    say("ahead", {{"ranks", ranks}});
    if (!awaited.empty()) say("ahead_or_awaited", {{"ranks", ranks}, {"awaited", awaited}});
  }

  /// A disagreement about a call. Where some ranks are odd, the first sentence names them.
  void write_disagreement(const Disagreement& one) {
    if (one.what != "splits" && (one.has_majority() || found_.departs)) {
      say("look_first",
          {{"ranks", ranks_}, {"smaller", found_.sisters == 0 ? "" : sentence("smaller_parties")}});
      text_ += " ";
    }
    text_ += disagreement_words(job_, one);
    if (found_.sisters > 0) say("sisters", {{"n", found_.sisters}});
    say("different_calls", {{"parties", words_of_parties(one)}});
  }

  /// Says which of the parties to look at, and why.
  std::string words_of_parties(const Disagreement& one) const {
    if (one.what != "splits" && one.has_majority()) return "";
    const char* const name = one.what == "splits"                ? "parties_splits"
                             : found_.departs && found_.by_habit ? "parties_habit"
                             : found_.departs                    ? "parties_departed"
                             : one.parties.size() > 2            ? "parties_many"
                                                                 : "parties_two";
    return sentence(name, {{"ranks", ranks_}, {"others", words_of_others(job_, ranks_.size())}});
  }

  void write_without_suspects() {
    if (found_.is_unlisted || !waiting_.lost.empty())
      return say("cannot_be_told", {{"finding", found_.findings.back().text}});
    if (waiting_.suspects.has_run()) return write_running();
    if (!found_.early.ranks.empty()) {
      text_ = words_of_early();
      if (!found_.findings.empty()) say("early_findings");
      return;
    }
    if (!found_.findings.empty()) return say("see_findings");
    const bool is_idle = waiting_.held.empty();
    say("nothing", {{"waits", sentence(is_idle ? "nothing_pending" : "nothing_waits")},
                    {"idle", is_idle && job_.ranks_without_dump().empty() ? sentence("nothing_idle") : ""}});
  }

  /// Where the job ran while the dumps were written.
  void write_running() {
    const Suspects& suspects = waiting_.suspects;
    if (suspects.running == 0) {
      say("ran_meanwhile", {{"early", words_of_early()}});
    } else {
      const auto first = std::ranges::find_if(waiting_.calls, [](const HoldingCall& call) {
        return !call.awaits() && !call.is_message && call.waiting.size() > 1;
      });
      const std::string example = first == waiting_.calls.end()
                                      ? ""
                                      : sentence(suspects.running == 1 ? "ran_only" : "ran_example",
                                                 {{"call", call_words(job_, *first)}});
      say("ran_calls", {{"n", static_cast<std::int64_t>(suspects.running)}, {"example", example}});
    }
    if (!suspects.behind.empty()) say("ran_behind", {{"ranks", suspects.behind}});
  }

  /// Where dumps were written before calls that others have completed, and nobody is a suspect.
  std::string words_of_early() const {
    const EarlyDumps& early = found_.early;
    if (early.last < 0) return sentence("early", {{"ranks", early.ranks}});
    return sentence("early_last", {{"last", early.last},
                                   {"call", call_words(job_, early.last_call)},
                                   {"waiting", early.last_call.waiting},
                                   {"ranks", early.ranks}});
  }

  // ---- what makes a verdict doubtful that names ranks by their kinds

  void doubt_kinds() {
    if (!found_.ranks_of(SuspectKind::host).empty()) doubt_hosts(found_.ranks_of(SuspectKind::host));
    doubt_devices();
    doubt_absent();
    const std::vector<int>& unknown = waiting_.suspects.unknown;
    if (!unknown.empty()) say("doubt_unknown", {{"ranks", unknown}});
  }

  /// Hosts that stopped keep all others waiting, sooner or later. Where more ranks have no pending call than
  /// wait in one, and they are no suspects, those that wait may be the ones that went on.
  void doubt_hosts(const std::vector<int>& hosts) {
    std::vector<int> idle = waiting_.idle;
    std::erase_if(idle, [&](int rank) {
      return std::ranges::find(found_.suspects, rank, &Suspect::rank) != found_.suspects.end();
    });
    const std::int64_t others =
        job_.world_size - std::ssize(found_.suspects) - waiting_.waiting_ranks - std::ssize(idle);
    if (job_.world_size == 2 && waiting_.held.size() == 1 && !waiting_.calls.empty() &&
        waiting_.calls.front().awaits()) {
      say("doubt_two_hosts", {{"held", waiting_.held.front()}, {"suspect", found_.suspects.front().rank}});
    } else if (idle.size() > waiting_.held.size()) {
      say("doubt_idle", {{"ranks", idle}, {"held", waiting_.held}});
    } else if (others > 0 && knows_all()) {
      say("doubt_others", {{"n", others}, {"suspects", std::ssize(found_.suspects)}});
    }
    // Where no message of Gloo is recorded, a rank may wait in one.
    const auto is_collective_of_gloo = [](const JobCall& call) {
      return call.operation().backend == "gloo" && !call.operation().is_message();
    };
    if (std::ranges::all_of(job_.calls(), is_collective_of_gloo)) say("doubt_gloo", {{"ranks", hosts}});
  }

  /// Where nobody waits for a rank whose device is behind, its dump may be early: of two ranks, where the
  /// other one has no pending call.
  void doubt_devices() {
    const std::vector<int>& idle = waiting_.idle;
    const std::vector<int> behind = found_.ranks_of(SuspectKind::device);
    if (behind.empty()) return;
    if (job_.world_size == 2) {
      if (idle.size() == 1 && behind.size() == 1 && behind != idle)
        say("doubt_two_devices", {{"behind", behind.front()}, {"idle", idle.front()}});
    } else if (behind.size() == found_.suspects.size() && waiting_.waiting_ranks == 0) {
      say("doubt_device", {{"ranks", behind}});
    }
  }

  /// Where most ranks with dumps have no pending call, a rank without a dump may not keep them waiting. Other
  /// ranks without one, for which nobody with a dump waits, may be those for which the suspects wait, as
  /// where a node is gone.
  void doubt_absent() {
    const std::vector<int> suspects = found_.ranks_of(SuspectKind::absent);
    if (suspects.size() < found_.suspects.size()) return;
    if (waiting_.idle.size() > waiting_.held.size()) say("doubt_absent", {{"ranks", waiting_.idle}});
    std::vector<int> others = job_.ranks_without_dump();
    std::erase_if(others, [&](int rank) { return std::ranges::find(suspects, rank) != suspects.end(); });
    if (!others.empty()) say("doubt_no_dump", {{"ranks", others}, {"suspects", suspects}});
  }

  /// Whether every rank has a dump that has all that is pending.
  bool knows_all() const {
    return std::ssize(job_.recordings) == job_.world_size && waiting_.lost.empty() &&
           found_.early.ranks.empty() && std::ranges::none_of(job_.recordings, &Recording::is_truncated);
  }

  /// A call that is pending in an early dump may have ended since, and others may have been made.
  void doubt_early_dumps() {
    std::vector<int> doubted = found_.ranks_of(SuspectKind::unknown);
    std::erase_if(doubted, [&](int rank) { return !std::ranges::binary_search(found_.early.ranks, rank); });
    if (!doubted.empty()) say("doubt_early", {{"ranks", doubted}});
  }

  // ---- the calls and lines with which it ends

  void write_lines() {
    if (found_.leading) {
      add_parties(*found_.leading);
    } else if (found_.is_late) {
      add_call_before(found_.early);
    } else if (found_.order.ranks.empty() && !found_.suspects.empty()) {  // no call made the groups
      add_waits();
    }
    if (!lines_.empty()) text_ += fmt::format(" {}.", capital(fmt::format("{}", fmt::join(lines_, "; "))));
  }

  void add_line(std::string_view name, std::initializer_list<Fact> facts) {
    lines_.push_back(sentence(name, facts));
  }

  void add_waits() {
    // The last call of the first rank that stands still and has one.
    for (const Suspect& one : found_.suspects) {
      const auto last = last_call_of(job_, one);
      if (!last) continue;
      add_line("last_call",
               {{"rank", one.rank}, {"call", call_words(*last)}, {"line", made_in(line_of(*last))}});
      break;
    }
    // The call that holds the first suspect of a device or of another order.
    const auto first = std::ranges::find_if(found_.suspects, [](const Suspect& one) {
      return one.kind == SuspectKind::order || one.kind == SuspectKind::device;
    });
    const HoldingCall* const own =
        first == found_.suspects.end() ? nullptr : find_call_of(waiting_, first->rank);
    if (!waiting_.suspects.departed.empty()) {
      // Where a rank made another call, and where another rank made the call that it did not make.
      const OddProgram& one = waiting_.suspects.departed.front();
      for (const HoldingCall* const made : {&one.own, &one.others}) {
        const std::string line = line_of(job_, *made);
        if (!line.empty()) add_line("made_its_call", {{"rank", job_.rank_of(made->dump)}, {"line", line}});
      }
    } else if (own != nullptr) {
      add_wait(*own);
    }
    if (const HoldingCall* const others = call_of_others(own)) add_wait(*others);
  }

  /// Whether the verdict has named the calls in which the suspects wait.
  bool are_calls_named() const {
    const Suspects& suspects = waiting_.suspects;
    return suspects.are_stuck() || suspects.seen == Seen::counted || !suspects.circles.empty();
  }

  /// Adds the call that a rank made before the one to which it came late.
  void add_call_before(const EarlyDumps& early) {
    const auto late = job_.find_call(*job_.dump_of(early.last), early.last_call.id());
    if (!late || late->index() == 0) return;
    const JobCall before = job_.call_at(late->dump, late->index() - 1);
    add_line("call_before", {{"call", call_words(before)}, {"line", made_in(line_of(before))}});
  }

  /// Returns the call in which others wait, the nearest to a suspect, a collective if there is one; null
  /// where there is none, or where it has been named and has no line.
  const HoldingCall* call_of_others(const HoldingCall* own) const {
    const HoldingCall* found = nullptr;
    for (const HoldingCall& call : waiting_.calls) {
      const bool needs_line = call.distance < 0 || are_calls_named();
      if (&call == own || (needs_line && line_of(job_, call).empty())) continue;
      if (found != nullptr && call.distance != found->distance) break;
      if (found == nullptr || (found->is_message && !call.is_message)) found = &call;
    }
    return found;
  }

  /// Adds in which call ranks wait, unless it has been named, and in which line.
  void add_wait(const HoldingCall& call) {
    const std::string line = line_of(job_, call);
    if (!are_calls_named()) {
      add_line("waits_in",
               {{"ranks", call.waiting}, {"call", call_words(job_, call)}, {"line", made_in(line)}});
    } else if (!line.empty()) {
      add_line("waits_in", {{"ranks", call.waiting}, {"call", line}, {"line", ""}});
    }
  }

  /// Adds where each party of a collective makes it: "rank 2 makes it in step (/home/me/train.py:41)".
  void add_parties(const Disagreement& one) {
    for (const Disagreement::Party& party : one.parties) {
      const auto made = job_.find_call(*job_.dump_of(party.ranks.front()), {one.group, one.sequence});
      const std::string line = one.is_message || !made ? "" : line_of(*made);
      if (!line.empty()) add_line("makes_it", {{"ranks", party.ranks}, {"line", line}});
    }
  }

  const Inspection& found_;
  const Job& job_;
  const Waiting& waiting_;
  const std::vector<int> ranks_;  // of the suspects
  std::string text_;
  std::vector<std::string> lines_;
};

// ---- what the dumps cannot tell

constexpr int kNewestMinor = 10;  // of the format's version 2

bool is_known(std::string_view version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos) return false;
  const auto major = number_of<int>(version.substr(0, dot)), minor = number_of<int>(version.substr(dot + 1));
  return minor && (major == 1 || (major == 2 && minor <= kNewestMinor));
}

class LimitWriter {
 public:
  explicit LimitWriter(const Inspection& found) : found_(found), job_(found.job) {}

  std::vector<std::string> write() {
    say("no_splits");
    write_unlisted();
    const std::string missing = words_of_missing_dumps(job_);
    if (!found_.suspects.empty() && !missing.empty()) limits_.push_back(missing + ".");
    write_lost_calls();
    write_early_dumps();
    write_states_and_frames();
    write_what_is_not_understood();
    say("one_after_the_other");
    return std::move(limits_);
  }

 private:
  void say(std::string_view name, std::initializer_list<Fact> facts = {}) {
    limits_.push_back(sentence(name, facts));
  }

  void write_unlisted() {
    constexpr std::ptrdiff_t kMostNames = 8;
    std::vector<std::string> unlisted;
    for (const JobGroup& group : job_.groups) {
      if (!group.has_known_members && !group.is_default())
        unlisted.push_back(fmt::format("'{}'", sim::printable_text(group.name.substr(0, 20))));
    }
    const std::ptrdiff_t count = std::ssize(unlisted);
    if (count == 0) return;
    unlisted.resize(static_cast<std::size_t>(std::min(kMostNames, count)));
    say("not_listed", {{"n", count},
                       {"groups", count == 1 ? "a group" : counted(count, "group")},
                       {"names", fmt::format("{}", fmt::join(unlisted, ", "))}});
  }

  void write_lost_calls() {
    const auto say_count = [&](std::string_view name, const auto& counts) {
      const std::int64_t n = std::ranges::count_if(job_.recordings, counts);
      if (n > 0) say(name, {{"n", n}, {"dumps", std::ssize(job_.recordings)}});
    };
    say_count("begin_later",
              [](const Recording& one) { return !one.calls.empty() && one.calls.front().record_id > 0; });
    say_count("no_calls", [](const Recording& one) { return one.calls.empty(); });
  }

  void write_early_dumps() {
    const EarlyDumps& early = found_.early;
    if (early.ranks.empty()) return;
    const std::string example =
        early.completed_by < 0
            ? "messages"
            : sentence("ends_early_call", {{"sequence", early.sequence},
                                           {"group", group_words(job_.groups[early.group])},
                                           {"rank", early.completed_by}});
    say("ends_early", {{"ranks", early.ranks}, {"example", example}});
  }

  void write_states_and_frames() {
    const auto has_no_state = [](const JobCall& call) { return call->state == CallState::scheduled; };
    const auto has_no_frame = [](const JobCall& call) { return call->frames == 0; };
    if (std::ranges::all_of(job_.calls(), has_no_state)) say("no_states");
    if (std::ranges::all_of(job_.calls(), has_no_frame)) say("no_frames");
  }

  void write_what_is_not_understood() {
    if (job_.unassigned_statuses > 0)
      say("no_group_of_status", {{"n", static_cast<std::int64_t>(job_.unassigned_statuses)}});
    std::set<std::string> unknown;
    for (const Recording& recording : job_.recordings)
      if (!is_known(recording.version)) unknown.insert(recording.version);
    for (const std::string& version : unknown)
      say("new_version", {{"version", sim::printable_text(version.substr(0, 40))}});
  }

  const Inspection& found_;
  const Job& job_;
  std::vector<std::string> limits_;
};

}  // namespace

std::string verdict_of(const Inspection& found) { return VerdictWriter(found).write(); }

std::vector<std::string> limits_of(const Inspection& found) { return LimitWriter(found).write(); }

}  // namespace verify
