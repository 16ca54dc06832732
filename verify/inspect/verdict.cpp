#include "verify/inspect/verdict.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>
#include <vector>

#include "verify/inspect/doubts.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/limits.h"
#include "verify/inspect/program_lines.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// Says what is seen of the suspects of one kind, and with what it is consistent.
std::string sentence_of(SuspectKind kind, const std::vector<int>& ranks, const std::string& who_waits,
                        bool are_cut) {
  const std::string words = ranks_words(ranks);
  switch (kind) {
    case SuspectKind::host:
      return fmt::format(
          "{} stopped issuing calls{}. This is consistent with a host that stopped or ended (a lock, a data "
          "loader, an exception, an exit), and not with a device: every call that was issued there has ended "
          "or waits for others.",
          words, who_waits);
    case SuspectKind::device:
      return fmt::format(
          "{} {} behind on {}: calls are pending there that other members have completed{}. This is "
          "consistent with a device, a link or a driver that stopped.",
          words, verb(ranks, "is", "are"), verb(ranks, "its device", "their devices"), who_waits);
    case SuspectKind::absent:
      return fmt::format(
          "{} {} no dump{}{}. This is consistent with a rank that died before it could write one, or whose "
          "file is missing here.",
          words, verb(ranks, "has", "have"), are_cut ? " that is whole" : "", who_waits);
    case SuspectKind::order:
    case SuspectKind::unknown:
      return fmt::format("{} {} to be looked at{}.", words, verb(ranks, "is", "are"), who_waits);
  }
  return "";
}

class VerdictWriter {
 public:
  VerdictWriter(const Inspection& found, const VerdictFacts& facts) : found_(found), facts_(facts) {}

  std::string write() {
    write_verdict();
    text_ += words_of_lines(found_, facts_);
    doubt_early_dumps();
    doubt_verdict();
    return std::move(text_);
  }

 private:
  const Job& job() const { return found_.job; }

  void write_verdict() {
    const Suspects& suspects = found_.waiting.suspects;
    if (found_.suspects.empty()) {
      text_ = words_without_suspects();
      const std::string missing = words_of_missing_dumps(job());
      if (!missing.empty()) text_ += fmt::format(" But {}, and the cause may be there.", missing);
    } else if (facts_.leading != nullptr) {
      write_disagreement(*facts_.leading);
    } else if (!facts_.order.ranks.empty()) {
      text_ = capital(facts_.order.text);
    } else if (facts_.is_late) {
      write_late();
    } else if (suspects.is_stuck) {
      write_stuck();
    } else if (!suspects.counted.empty()) {
      write_counted();
    } else if (suspects.is_ahead) {
      write_ahead();
    } else if (suspects.is_unreceived) {
      write_unreceived();
    } else {
      write_kinds();
    }
  }

  /// Writes what is seen of the suspects of each kind, and what makes it doubtful.
  void write_kinds() {
    bool is_first = true;
    for (const SuspectKind kind : {SuspectKind::device, SuspectKind::host, SuspectKind::order,
                                   SuspectKind::absent, SuspectKind::unknown}) {
      const std::vector<int> ranks = ranks_of_kind(found_.suspects, kind);
      if (ranks.empty()) continue;
      text_ += is_first ? "" : " ";
      text_ += capital(kind == SuspectKind::order
                           ? circle_sentence(ranks)
                           : sentence_of(kind, ranks, is_first ? who_waits() : "", are_cut(ranks)));
      is_first = false;
    }
    text_ += words_of_doubts(found_, facts_);
  }

  /// A rank that came to a call after the others had written the dumps in which they wait in it.
  void write_late() {
    const EarlyDumps& early = facts_.early;
    const std::vector<int>& waiting = early.last_call.waiting;
    text_ = fmt::format(
        "Rank {} came {} after {} to {}, in which {} waited when {} wrote {}. This is consistent with a host "
        "that stood still for so long (a data loader, a checkpoint, a compilation, a slow disk), and then "
        "went on: look at what it did before that call.",
        early.last, seconds_text(early.late_ns), ranks_words(waiting), call_words(job(), early.last_call),
        verb(waiting, "it", "they"), verb(waiting, "it", "they"), verb(waiting, "its dump", "their dumps"));
  }

  void write_counted() {
    text_ = fmt::format(
        "{}. This is consistent with another call that was made under this number, which dumps of active "
        "calls alone do not tell, with dumps that were written at different times, or with a device that "
        "stopped on those that wait.",
        capital(found_.waiting.suspects.counted));
  }

  /// Where no rank is a suspect.
  std::string words_without_suspects() const {
    if (facts_.is_unlisted || !found_.waiting.lost.empty())
      return "It cannot be told which rank keeps the others waiting. " + found_.findings.back().text;
    if (found_.waiting.suspects.has_run()) return words_of_running();
    if (!facts_.early.ranks.empty())
      return words_of_early() + (found_.findings.empty() ? "" : " See the findings, too.");
    if (!found_.findings.empty())
      return "No rank is known to keep the others waiting, but the dumps show what should not be: see the "
             "findings.";
    const bool are_idle = found_.waiting.held.empty() && job().ranks_without_dump().empty();
    return fmt::format(
        "Nothing was found: {}, and the ranks agree in the calls that the dumps have.{}",
        found_.waiting.held.empty() ? "no rank has a pending call" : "no rank waits for another one",
        are_idle ? " If the job hangs, its ranks have ended, or wait in something that is not recorded "
                   "(gloo, a store, a file, a data loader)."
                 : "");
  }

  /// Where the job ran while the dumps were written.
  std::string words_of_running() const {
    const Suspects& suspects = found_.waiting.suspects;
    const std::string words = suspects.running > 0
                                  ? words_of_calls_that_run()
                                  : words_of_early() + " This is consistent with a job that ran meanwhile.";
    if (suspects.behind.empty()) return words;
    return words + fmt::format(" Others wait for {}: look there first if the job hangs all the same.",
                               ranks_words(suspects.behind));
  }

  /// Where calls of different ranks are pending to which all have come.
  std::string words_of_calls_that_run() const {
    const auto is_first = [](const HoldingCall& call) {
      return !call.awaits() && !call.is_message && call.waiting.size() > 1;
    };
    const auto calls = static_cast<std::int64_t>(found_.waiting.suspects.running);
    const auto first = std::ranges::find_if(found_.waiting.calls, is_first);
    return fmt::format(
        "No single rank keeps the others waiting: every member has come to {} {}{}. This is consistent with "
        "dumps that were written while the job ran, or with a network that stopped for many ranks at once.",
        counted(calls, "call"), calls == 1 ? "that is pending" : "of different ranks that are pending",
        first == found_.waiting.calls.end() ? ""
        : calls == 1                        ? fmt::format(": {}", call_words(job(), *first))
                                            : fmt::format(", for example {}", call_words(job(), *first)));
  }

  /// Where dumps were written before calls that others have completed, and nobody is a suspect.
  std::string words_of_early() const {
    const std::vector<int>& early = facts_.early.ranks;
    return (facts_.early.last < 0 ? "No rank is known to keep the others waiting. But the "
                                  : words_of_last()) +
           fmt::format(
               "{} of {} {} written before calls that others have completed, and what {} did last is "
               "not known.",
               verb(early, "dump", "dumps"), ranks_words(early), verb(early, "was", "were"),
               verb(early, "this rank", "these ranks"));
  }

  /// Says which rank came last to the calls in which the others waited when they wrote their dumps.
  std::string words_of_last() const {
    return fmt::format(
        "Look first at what rank {} did before {}: it alone has completed this call, in which {} waited when "
        "{} wrote {}, so it came last to it, or its dump was written later. No rank is known to keep the "
        "others waiting now: the ",
        facts_.early.last, call_words(job(), facts_.early.last_call),
        ranks_words(facts_.early.last_call.waiting), verb(facts_.early.last_call.waiting, "it", "they"),
        verb(facts_.early.last_call.waiting, "its dump", "their dumps"));
  }

  /// A disagreement about a call. Where some ranks are odd, the first sentence names them.
  void write_disagreement(const Disagreement& one) {
    const std::string ranks = ranks_words(ranks_of_suspects());
    if (one.what != "splits" && (one.has_majority() || facts_.departs))
      text_ = fmt::format("Look at {} first{}. ", ranks, facts_.sisters == 0 ? "" : ", the smaller parties");
    text_ += disagreement_words(job(), one);
    if (facts_.sisters > 0)
      text_ += fmt::format(" {} of this kind {} in the same way.", counted(facts_.sisters, "other group"),
                           facts_.sisters == 1 ? "differs" : "differ");
    text_ +=
        fmt::format(" This is consistent with ranks that make different calls{}.", words_of_parties(one));
  }

  /// Says which of the parties to look at, and why.
  std::string words_of_parties(const Disagreement& one) const {
    if (one.what == "splits")
      return ": the dumps have no splits, so compare the counts of tokens that each of them sends and "
             "expects";
    if (one.has_majority()) return "";
    const std::string ranks = ranks_words(ranks_of_suspects());
    if (facts_.departs && facts_.by_habit)
      return fmt::format(
          ": of the two parties, {} did not make what both have made before after the same calls", ranks);
    if (facts_.departs)
      return fmt::format(": the calls of {} are not those of {}", ranks,
                         words_of_others(job(), found_.suspects.size()));
    return one.parties.size() > 2 ? ": no party is the largest, so look at all"
                                  : ": no party is the smaller one, so look at both";
  }

  std::vector<int> ranks_of_suspects() const {
    std::vector<int> ranks;
    for (const Suspect& one : found_.suspects) ranks.push_back(one.rank);
    return ranks;
  }

  /// Where the dumps cannot be of one job, what they say together may be wrong, and the verdict says so.
  void doubt_verdict() {
    const bool contradict = std::ranges::any_of(job().contradictions, [](const Contradiction& one) {
      return one.what == "world" || one.what == "rank" || one.what == "members";
    });
    if (contradict && !found_.suspects.empty())
      text_ +=
          " This holds if the dumps are of one job and under the right ranks, and they contradict each other "
          "in their groups: see the findings first.";
  }

  /// Whether one of these ranks has a dump of which a part is missing.
  bool are_cut(const std::vector<int>& ranks) const {
    return std::ranges::any_of(ranks, [&](int rank) {
      return job().find_blank(rank) != nullptr || job().dump_of_rank[static_cast<std::size_t>(rank)] >= 0;
    });
  }

  /// The ranks of circles, or those that are alone in them.
  std::string circle_sentence(const std::vector<int>& ranks) const {
    const bool is_one = found_.waiting.suspects.circles.size() == 1;
    if (!found_.waiting.suspects.missed.empty())
      return fmt::format(
          "{} {} not come to {}{}. This is consistent with a call that {} left out or made in another order.",
          ranks_words(ranks), verb(ranks, "has", "have"), found_.waiting.suspects.missed, who_waits(),
          verb(ranks, "it", "they"));
    if (!found_.waiting.suspects.odd_peer.empty())
      return fmt::format(
          "{} waits in {}, and no other rank has a message that goes as far{}. This is consistent with a "
          "message that is sent to a wrong rank, or received from one.",
          ranks_words(ranks), found_.waiting.suspects.odd_peer, who_waits());
    if (!found_.waiting.suspects.uneven.empty())
      return fmt::format(
          "{}{}. This is consistent with a number of microbatches that is not the same on all stages "
          "(another "
          "batch size, a data loader that ended), or with a message or a call that one stage alone makes or "
          "leaves out.",
          found_.waiting.suspects.uneven, who_waits());
    if (!found_.waiting.suspects.departed.empty()) return departure_sentence(ranks);
    if (!found_.waiting.suspects.facing.empty())
      return fmt::format(
          "Two parties wait for each other: {}{}. This is consistent with a call that one party makes, and "
          "the other leaves out or makes in another order.",
          found_.waiting.suspects.facing, who_waits());
    const char* const end =
        ". This is consistent with calls that are left out, or made in another order, on some ranks.";
    if (found_.waiting.suspects.are_alone)
      return fmt::format("{} {} in {} than the ranks that wait for {}: {}{}{}", ranks_words(ranks),
                         verb(ranks, "waits", "wait"), verb(ranks, "another call", "other calls"),
                         verb(ranks, "it", "them"), words_of_calls(ranks), who_waits(), end);
    const std::string circles =
        is_one ? "" : fmt::format(" in {} circles", found_.waiting.suspects.circles.size());
    return fmt::format("{} wait for each other{}: {}{}{}", ranks_words(ranks), circles, words_of_calls(ranks),
                       who_waits(), end);
  }

  /// Returns "rank 0 waits in nccl:all_reduce, call 3 of the tp group of ranks 0 and 1, and rank 2 in ...":
  /// of many ranks the first one.
  std::string words_of_calls(const std::vector<int>& ranks) const {
    const bool are_few = ranks.size() <= 3;
    std::vector<std::string> parts;
    for (const int rank : ranks) {
      if (!are_few && !parts.empty()) break;
      const HoldingCall* const call = find_call_of(found_.waiting, rank);
      if (call == nullptr) continue;
      parts.push_back(fmt::format("rank {}{} in {}", rank,
                                  !are_few        ? ", for example, is"
                                  : parts.empty() ? " is"
                                                  : "",
                                  call_words(job(), *call)));
    }
    return fmt::format("{}", fmt::join(parts, ", and "));
  }

  /// Ranks of circles that depart from the calls of their pipeline stages.
  std::string departure_sentence(const std::vector<int>& ranks) const {
    const Suspect& first = found_.suspects.front();
    const std::vector<OddProgram>& departed = found_.waiting.suspects.departed;
    if (departed.front().by_habit)
      return fmt::format(
          "{} {} not go on as {} did before{}. {}{} This is consistent with a call that is left out, made "
          "twice or "
          "made in another order there, or, where something begins that is done now and then (an evaluation, "
          "a checkpoint), with rank {} leaving it out.",
          ranks_words(ranks), verb(ranks, "does", "do"), verb(ranks, "it", "they"), who_waits(),
          ranks.size() == 1 ? "" : fmt::format("Rank {}: ", first.rank), first.reason,
          job().recordings[departed.front().others.dump].rank);
    return fmt::format(
        "{} {} made other calls than {}{}. {}{} This is consistent with a call that is left out, made twice "
        "or made in another order there.",
        ranks_words(ranks), verb(ranks, "has", "have"), words_of_others(job(), ranks.size()), who_waits(),
        ranks.size() == 1 ? "" : fmt::format("Rank {}: ", first.rank), first.reason);
  }

  /// Returns "; all others wait for them, through tp, then ep".
  std::string who_waits() const {
    const Waiting& waiting = found_.waiting;
    const std::int64_t others = job().world_size - std::ssize(found_.suspects);
    std::string text = "; ";
    if (waiting.waiting_ranks > 0) {
      const bool is_one = found_.suspects.size() == 1;
      text += waiting.waiting_ranks == others
                  ? (others == 1 ? "the other rank waits" : "all others wait")
                  : fmt::format("{} of {} others wait", waiting.waiting_ranks, others);
      text += is_one ? " for it" : " for them";
      if (!waiting.through.empty())
        text += fmt::format(", through {}", fmt::join(waiting.through, ", then "));
    }
    return text == "; " ? "" : text;
  }

  void write_stuck() {
    const std::vector<int> ranks = ranks_of_suspects();
    const HoldingCall* const call = stuck_call_of(ranks);
    if (found_.waiting.suspects.are_behind) {
      text_ = fmt::format(
          "The {} of {} {} not begun {}, which the devices of the other members have begun{}. This is "
          "consistent with a device that stopped.",
          verb(ranks, "device", "devices"), ranks_words(ranks), verb(ranks, "has", "have"),
          call == nullptr ? "calls" : call_words(job(), *call), who_waits());
      return;
    }
    text_ = fmt::format(
        "{} {} in {}{}. This is consistent with a device or a link between them that stopped, or with dumps "
        "that were written while the {} ran.{}",
        capital(ranks_words(ranks)), verb(ranks, "is", "are"), words_of_stuck_call(call), who_waits(),
        call == nullptr ? "calls" : "call", hint_of_timing());
  }

  /// Returns the only collective in which all of these ranks are, and to which all have come; or null.
  const HoldingCall* stuck_call_of(const std::vector<int>& ranks) const {
    const auto has_all = [&](const HoldingCall& call) {
      return !call.awaits() && !call.is_message && std::ranges::includes(call.waiting, ranks);
    };
    const std::vector<HoldingCall>& calls = found_.waiting.calls;
    if (std::ranges::count_if(calls, has_all) != 1) return nullptr;
    return &*std::ranges::find_if(calls, has_all);
  }

  std::string words_of_stuck_call(const HoldingCall* call) const {
    if (call == nullptr) return "calls to which every member has come and which have not ended there";
    const std::string words = call_words(job(), *call);
    if (call->completed.empty())
      return words + ", to which every member has come and which none has completed";
    return fmt::format("{}, to which every member has come and which {} {} completed{}", words,
                       ranks_words(call->completed), verb(call->completed, "has", "have"),
                       is_broadcast(*call) ? " (a broadcast may end on its root alone)" : "");
  }

  bool is_broadcast(const HoldingCall& call) const {
    if (call.call < 0) return false;
    const RecordedCall& recorded = job().recordings[call.dump].calls[static_cast<std::size_t>(call.call)];
    return job().operation(call.dump, recorded).name == "broadcast";
  }

  /// Says how the recorder learns which devices have begun a call, where no dump tells it.
  std::string hint_of_timing() const {
    const auto has_started = [](const Recording& recording) {
      return std::ranges::any_of(recording.calls,
                                 [](const RecordedCall& call) { return call.state == CallState::started; });
    };
    return std::ranges::any_of(job().recordings, has_started)
               ? ""
               : " The dumps do not tell which device has not begun it: the recorder knows this with "
                 "TORCH_NCCL_ENABLE_TIMING=1.";
  }

  void write_unreceived() {
    const std::vector<int> ranks = ranks_of_kind(found_.suspects, SuspectKind::order);
    text_ = fmt::format(
        "{} {} not come to messages that wait for {}{}. This is consistent with a message that one side has "
        "and the other has not, or that goes to another rank.",
        capital(ranks_words(ranks)), verb(ranks, "has", "have"), verb(ranks, "it", "them"), who_waits());
  }

  void write_ahead() {
    const std::vector<int> ranks = ranks_of_kind(found_.suspects, SuspectKind::order);
    text_ = fmt::format(
        "{} made calls that the others did not make, and the others have no pending call. This is consistent "
        "with a call, batch or step that is made twice or by some ranks only, or with others that ended too "
        "early, or wait in something that is not recorded (gloo, a store, a file).",
        capital(ranks_words(ranks)));
    const std::vector<int> awaited = ranks_of_kind(found_.suspects, SuspectKind::host);
    if (!awaited.empty())
      text_ += fmt::format(" It is as consistent with {}, which {} for, having stopped or left out the call.",
                           ranks_words(awaited), ranks.size() == 1 ? "it waits" : "they wait");
  }

  bool is_early(int rank) const {
    return std::ranges::find(facts_.early.ranks, rank) != facts_.early.ranks.end();
  }

  /// A call that is pending in an early dump may have ended since, and others may have been made.
  void doubt_early_dumps() {
    std::vector<int> doubted;
    for (const Suspect& one : found_.suspects) {
      if (one.kind == SuspectKind::unknown && is_early(one.rank)) doubted.push_back(one.rank);
    }
    if (doubted.empty()) return;
    text_ += fmt::format(
        " But the {} of {} {} before calls that others have completed: {} written early, and what is pending "
        "or missing in {} may have ended or come since.",
        verb(doubted, "dump", "dumps"), ranks_words(doubted), verb(doubted, "ends", "end"),
        verb(doubted, "it was", "they were"), verb(doubted, "it", "them"));
  }

  const Inspection& found_;
  const VerdictFacts& facts_;
  std::string text_;
};

}  // namespace

std::string seconds_text(std::int64_t nanoseconds) {
  return fmt::format("{} s", nanoseconds / 1'000'000'000);
}

std::string verdict_of(const Inspection& found, const VerdictFacts& facts) {
  return VerdictWriter(found, facts).write();
}

}  // namespace verify
