#include "verify/inspect/verdict.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <vector>

#include "verify/inspect/program_lines.h"
#include "verify/inspect/verb.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

std::vector<int> ranks_of_kind(const std::vector<Suspect>& suspects, SuspectKind kind) {
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects) {
    if (suspect.kind == kind) ranks.push_back(suspect.rank);
  }
  return ranks;
}

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
    if (found_.suspects.empty() && (facts_.is_unlisted || !found_.waiting.lost.empty())) {
      text_ = "It cannot be told which rank keeps the others waiting. " + found_.findings.back().text;
      return;
    }
    if (found_.suspects.empty() && found_.waiting.suspects.running > 0) {
      text_ = fmt::format(
          "{} of different ranks are pending to which every member has come: no rank keeps all of them "
          "waiting. This is consistent with dumps that were written while the job ran, or with a network "
          "that stopped for many ranks at once.",
          capital(counted(static_cast<std::int64_t>(found_.waiting.suspects.running), "call")));
      return;
    }
    if (found_.suspects.empty()) {
      text_ = words_without_suspects();
      return;
    }
    if (facts_.leading != nullptr) {
      text_ = disagreement_words(job(), *facts_.leading) +
              (facts_.sisters == 0 ? ""
                                   : fmt::format(" {} of this kind {} in the same way.",
                                                 counted(facts_.sisters, "other group"),
                                                 facts_.sisters == 1 ? "differs" : "differ")) +
              fmt::format(" This is consistent with ranks that make different calls: {}.", where_to_look());
      return;
    }
    if (!facts_.order.ranks.empty()) {
      text_ = capital(facts_.order.text);
      return;
    }
    if (found_.waiting.suspects.is_stuck) return write_stuck();
    if (!found_.waiting.suspects.counted.empty()) {
      text_ = fmt::format(
          "{}. This is consistent with another call that was made under this number, which dumps of active "
          "calls alone do not tell, with dumps that were written at different times, or with a device that "
          "stopped on those that wait.",
          capital(found_.waiting.suspects.counted));
      return;
    }
    if (found_.waiting.suspects.is_ahead) return write_ahead();
    if (found_.waiting.suspects.is_unreceived) return write_unreceived();
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
    doubt_hosts();
    doubt_device_of_two();
    add_others_without_dump();
    const std::vector<int>& unknown = found_.waiting.suspects.unknown;
    if (!unknown.empty())
      text_ += fmt::format(" {} {} no whole dump, and others wait for {}: {} may wait, too, or have stopped.",
                           capital(ranks_words(unknown)), verb(unknown, "has", "have"),
                           verb(unknown, "it", "them"), verb(unknown, "it", "they"));
  }

  /// Where no rank is a suspect.
  std::string words_without_suspects() const {
    const std::vector<int>& early = facts_.early.ranks;
    if (!early.empty())
      return fmt::format(
                 "No rank is known to keep the others waiting. But the {} of {} {} written before calls that "
                 "others have completed, and what {} did last is not known.",
                 verb(early, "dump", "dumps"), ranks_words(early), verb(early, "was", "were"),
                 verb(early, "this rank", "these ranks")) +
             words_of_last() + (found_.findings.empty() ? "" : " See the findings, too.") +
             words_of_missing_dumps();
    if (!found_.findings.empty())
      return "No rank is known to keep the others waiting, but the dumps show what should not be: see the "
             "findings." +
             words_of_missing_dumps();
    const bool are_idle = found_.waiting.held.empty() && job().ranks_without_dump().empty();
    return fmt::format(
        "Nothing was found: {}, and the ranks agree in the calls that the dumps have.{}{}",
        found_.waiting.held.empty() ? "no rank has a pending call" : "no rank waits for another one",
        are_idle ? " If the job hangs, its ranks have ended, or wait in something that is not recorded "
                   "(gloo, a store, a file, a data loader)."
                 : "",
        words_of_missing_dumps());
  }

  std::string words_of_missing_dumps() const {
    const std::vector<int> absent = job().ranks_without_dump();
    if (absent.empty()) return "";
    return fmt::format(
        " But {} of {} ranks {} no dump here ({}): what {} did is not known, and the cause may be there.",
        absent.size(), job().world_size, verb(absent, "has", "have"), ranks_words(absent),
        verb(absent, "it", "they"));
  }

  /// Says which rank came last to the calls in which the others waited when they wrote their dumps.
  std::string words_of_last() const {
    if (facts_.early.last < 0) return "";
    return fmt::format(
        " Rank {} alone has completed the calls that are pending there: it came to them last, or its dump "
        "was written later than the others, so look at what it did before them.",
        facts_.early.last);
  }

  /// Ranks without a dump for which nobody with a dump waits may be those for which the suspects wait, as
  /// where a node is gone.
  void add_others_without_dump() {
    const std::vector<int> suspects = ranks_of_kind(found_.suspects, SuspectKind::absent);
    if (suspects.empty() || suspects.size() < found_.suspects.size()) return;
    std::vector<int> others;
    for (int rank = 0; rank < job().world_size; ++rank) {
      if (job().dump_of_rank[static_cast<std::size_t>(rank)] < 0 &&
          std::ranges::find(suspects, rank) == suspects.end())
        others.push_back(rank);
    }
    if (others.empty()) return;
    text_ += fmt::format(" But {} {} no dump either, and {} may wait for {}.", ranks_words(others),
                         verb(others, "has", "have"), ranks_words(suspects), verb(others, "it", "them"));
  }

  /// Hosts that stopped keep all others waiting, sooner or later. Where more ranks have no pending call than
  /// wait in one, and they are no suspects, those that wait may be the ones that went on.
  void doubt_hosts() {
    if (ranks_of_kind(found_.suspects, SuspectKind::host).empty()) return;
    const std::vector<int>& held = found_.waiting.held;
    const std::vector<HoldingCall>& calls = found_.waiting.calls;
    if (job().world_size == 2 && held.size() == 1 && !calls.empty() && calls.front().awaits()) {
      text_ += fmt::format(
          " With two ranks the dumps do not tell whether rank {} has made a call that rank {} is not meant "
          "to make: compare what they did after their last common call.",
          held.front(), found_.suspects.front().rank);
      return;
    }
    std::vector<int> idle;
    std::ranges::copy_if(found_.waiting.idle, std::back_inserter(idle), [&](int rank) {
      return std::ranges::find(found_.suspects, rank, &Suspect::rank) == found_.suspects.end();
    });
    if (idle.size() > held.size()) {
      text_ += fmt::format(
          " But {} {} no pending call either. If {} in something that is not recorded (gloo, a store, a "
          "file), {} may have gone on without them.",
          ranks_words(idle), verb(idle, "has", "have"), verb(idle, "it waits", "they wait"),
          ranks_words(held));
      return;
    }
    const std::int64_t others =
        job().world_size - std::ssize(found_.suspects) - found_.waiting.waiting_ranks - std::ssize(idle);
    if (others <= 0 || !knows_all()) return;
    text_ += fmt::format(
        " But {} with pending calls {} not wait for {}: the dumps may have been written while the job ran.",
        counted(others, "other rank"), others == 1 ? "does" : "do",
        found_.suspects.size() == 1 ? "it" : "them");
  }

  /// Of two ranks, one whose device is behind, and one without a pending call.
  void doubt_device_of_two() {
    const std::vector<int>& idle = found_.waiting.idle;
    if (job().world_size != 2 || idle.size() != 1 || found_.suspects.size() != 1) return;
    const Suspect& one = found_.suspects.front();
    if (one.kind != SuspectKind::device || one.rank == idle.front()) return;
    text_ += fmt::format(
        " With two ranks it is as consistent with a dump of rank {} that was written before that of rank {}.",
        one.rank, idle.front());
  }

  /// Whether every rank has a dump that has all that is pending.
  bool knows_all() const {
    return std::ssize(job().recordings) == job().world_size && found_.waiting.lost.empty() &&
           facts_.early.ranks.empty() && std::ranges::none_of(job().recordings, &Recording::is_truncated);
  }

  std::string where_to_look() const {
    std::vector<int> ranks;
    for (const Suspect& one : found_.suspects) ranks.push_back(one.rank);
    if (facts_.leading->what == "splits")
      return "the dumps have no splits, so compare the counts of tokens that each of them sends and expects";
    if (facts_.leading->has_majority())
      return facts_.sisters == 0 ? fmt::format("look at {} first", ranks_words(ranks))
                                 : fmt::format("look at the smaller parties first, {}", ranks_words(ranks));
    if (!facts_.departs && facts_.leading->parties.size() > 2)
      return "no party is the largest, so look at all";
    if (!facts_.departs) return "no party is the smaller one, so look at both";
    if (facts_.by_habit)
      return fmt::format(
          "look at {} first, of the two parties the one that did not make what both have made before after "
          "the same calls",
          ranks_words(ranks));
    return fmt::format("look at {} first, whose calls are not those of {}", ranks_words(ranks),
                       words_of_others(job(), ranks.size()));
  }

  /// Where the dumps cannot be of one job, what they say together may be wrong, and the verdict says so.
  void doubt_verdict() {
    const bool contradict =
        std::any_of(job().contradictions.begin(), job().contradictions.end(), [](const Contradiction& one) {
          return one.what == "world" || one.what == "rank" || one.what == "members";
        });
    if (contradict && !found_.suspects.empty())
      text_ +=
          " This holds if the dumps are of one job and under the right ranks, and they contradict each other "
          "in their groups: see the findings first.";
  }

  /// Whether one of these ranks has a dump of which a part is missing.
  bool are_cut(const std::vector<int>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
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
    if (!found_.waiting.suspects.departed.empty()) return departure_sentence(ranks);
    if (!found_.waiting.suspects.facing.empty())
      return fmt::format(
          "Two parties wait for each other: {}{}. This is consistent with a call that one party makes, and "
          "the other leaves out or makes in another order.",
          found_.waiting.suspects.facing, who_waits());
    const std::string text =
        found_.waiting.suspects.are_alone
            ? fmt::format("{} {} in another call than the others of {} of waits", ranks_words(ranks),
                          verb(ranks, "is", "are"), is_one ? "a circle" : "circles")
            : fmt::format(
                  "{} wait for each other in {}", ranks_words(ranks),
                  is_one ? "a circle" : fmt::format("{} circles", found_.waiting.suspects.circles.size()));
    return text + who_waits() +
           ". This is consistent with calls that are left out, or made in another order, on some ranks.";
  }

  /// Ranks of circles that depart from the calls of their pipeline stages.
  std::string departure_sentence(const std::vector<int>& ranks) const {
    const Suspect& first = found_.suspects.front();
    const std::vector<OddProgram>& departed = found_.waiting.suspects.departed;
    if (departed.front().by_habit)
      return fmt::format(
          "{} {} not go on as before{}. {}{} This is consistent with a call that is left out, made twice or "
          "made in another order there, or, where something begins that is done now and then (an evaluation, "
          "a checkpoint), with rank {} leaving it out.",
          ranks_words(ranks), verb(ranks, "does", "do"), who_waits(),
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
    std::vector<int> ranks;
    for (const Suspect& suspect : found_.suspects) ranks.push_back(suspect.rank);
    if (found_.suspects.front().reason.starts_with("Its device")) {
      const HoldingCall* const call = stuck_call_of(ranks);
      text_ = fmt::format(
          "{} {} not begun {} on {}, which the devices of the other members have begun{}. This is consistent "
          "with a device that stopped.",
          capital(ranks_words(ranks)), verb(ranks, "has", "have"),
          call == nullptr ? "calls" : call_words(job(), *call), verb(ranks, "its device", "their devices"),
          who_waits());
      return;
    }
    text_ = fmt::format(
        "{} {} in {}{}. This is consistent with a device or a link between them that stopped, or with dumps "
        "that were written while the {} ran.{}",
        capital(ranks_words(ranks)), verb(ranks, "is", "are"), words_of_stuck_calls(ranks), who_waits(),
        stuck_call_of(ranks) == nullptr ? "calls" : "call", hint_of_timing());
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

  std::string words_of_stuck_calls(const std::vector<int>& ranks) const {
    const HoldingCall* const call = stuck_call_of(ranks);
    if (call == nullptr) return "calls to which every member has come and which have not ended there";
    if (call->completed.empty())
      return call_words(job(), *call) + ", to which every member has come and which none has completed";
    const bool is_broadcast = call_words(job(), *call).find("broadcast") != std::string::npos;
    return fmt::format("{}, to which every member has come and which {} {} completed{}",
                       call_words(job(), *call), ranks_words(call->completed),
                       verb(call->completed, "has", "have"),
                       is_broadcast ? " (a broadcast may end on its root alone)" : "");
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
        "{} made calls that the others did not make, which have no pending call. This is consistent with a "
        "call, batch or step that is made twice or by some ranks only, or with others that ended too early, "
        "or wait in something that is not recorded (gloo, a store, a file).",
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

std::string verdict_of(const Inspection& found, const VerdictFacts& facts) {
  return VerdictWriter(found, facts).write();
}

}  // namespace verify
