#include "verify/inspect/inspection.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/call_line.h"
#include "verify/inspect/early_dumps.h"
#include "verify/inspect/group_order.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::size_t kMostOfAKind = 20;  // findings of waiting calls, unless all are asked for
constexpr int kNewestMinor = 10;          // of the format's version 2

std::vector<int> ranks_of_kind(const std::vector<Suspect>& suspects, SuspectKind kind) {
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects) {
    if (suspect.kind == kind) ranks.push_back(suspect.rank);
  }
  return ranks;
}

const char* verb(const std::vector<int>& ranks, const char* one, const char* several) {
  return ranks.size() == 1 ? one : several;
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
          "consistent "
          "with a device, a link or a driver that stopped.",
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

/// Writes the verdict, and the findings on the way.
class Inspector {
 public:
  Inspector(Recordings recordings, const GivenLayout& given, bool all) : all_(all) {
    result_.shows_all = all;
    result_.notes = std::move(recordings.notes);
    result_.job = job_of(std::move(recordings));
    if (given) {
      if (std::optional<sim::Layout> layout = given(result_.job.world_size))
        result_.layout = judged_layout(result_.job, *std::move(layout));
    }
    if (!result_.layout) result_.layout = inferred_layout(result_.job);
  }

  Inspection run() {
    std::optional<Progresses> progresses(std::in_place, result_.job);
    disagreements_ = disagreements_of(result_.job, *progresses, all_);
    early_ = early_dumps_of(result_.job, *progresses);
    if (!early_.ranks.empty()) {
      mark_early_dumps(early_, result_.job);
      progresses.emplace(result_.job);
    }
    result_.waiting = waiting_of(result_.job, *progresses);
    result_.suspects = result_.waiting.suspects.ranks;
    add_disagreements();
    add_group_order();
    add_waits();
    add_contradictions();
    judge_layout();
    add_lost();
    add_unlisted();
    write_verdict();
    write_lines();
    doubt_early_dumps();
    doubt_verdict();
    write_limits();
    return std::move(result_);
  }

 private:
  const Job& job() const { return result_.job; }
  void find(std::string what, std::string text, std::vector<int> ranks) {
    result_.findings.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  void add_disagreements() {
    std::map<int, Suspect> odd;
    for (const Disagreement& one : disagreements_) {
      const std::string words = words_of(one);
      find(one.what, words, one.odd_ranks());
      if (!one.holds_ranks || leading_ != nullptr) continue;
      if (one.what == "splits" && !is_in_calls_of_all()) continue;
      leading_ = &one;
      for (const int rank : one.odd_ranks()) odd[rank] = {rank, SuspectKind::order, words};
    }
    if (leading_ == nullptr) return;
    add_sisters(odd);
    tell_parties_apart(odd);
    result_.suspects.clear();
    for (auto& [rank, suspect] : odd) result_.suspects.push_back(std::move(suspect));
  }

  /// Whether nothing is known but calls to which all of their members have come.
  bool is_in_calls_of_all() const {
    return result_.waiting.suspects.is_stuck || result_.waiting.suspects.running > 0;
  }

  /// Groups of one kind may differ in one call in one way, as where all ranks of a replica of the model make
  /// a call that the others do not make: then the ranks of all these groups are named.
  void add_sisters(std::map<int, Suspect>& odd) {
    for (const Disagreement& one : disagreements_) {
      if (&one == leading_ || !one.holds_ranks || !are_sisters(one, *leading_)) continue;
      ++sisters_;
      for (const int rank : one.odd_ranks())
        odd.try_emplace(rank, Suspect{rank, SuspectKind::order, words_of(one)});
    }
  }

  /// Whether two groups of one kind differ in one way. Groups of other stages may be at another call.
  bool are_sisters(const Disagreement& one, const Disagreement& other) const {
    const JobGroup& group = job().groups[one.group];
    const auto calls_of = [](const Disagreement& of) {
      std::vector<std::string> calls;
      for (const Disagreement::Party& party : of.parties) calls.push_back(party.call);
      if (!of.has_majority()) std::ranges::sort(calls);
      return calls;
    };
    return one.group != other.group && group.description == job().groups[other.group].description &&
           one.what == other.what && one.is_message == other.is_message &&
           one.has_majority() == other.has_majority() && calls_of(one) == calls_of(other);
  }

  /// Where no party is the smaller one, the ranks are named that depart from the calls of their pipeline
  /// stages.
  void tell_parties_apart(std::map<int, Suspect>& odd) {
    if (leading_->has_majority()) return;
    std::map<int, Suspect> departing;
    for (const OddProgram& one : odd_programs(job(), Elements::compared)) {
      const auto known = odd.find(one.rank);
      if (known == odd.end()) continue;
      departing.insert(*known);
      by_habit_ = by_habit_ || one.by_habit;
    }
    if (departing.empty() || departing.size() == odd.size()) return;
    odd = std::move(departing);
    departs_ = true;
  }

  std::string words_of(const Disagreement& one) const {
    std::vector<std::string> parties;
    for (const Disagreement::Party& party : one.parties)
      parties.push_back(fmt::format("{} {} {}", ranks_words(party.ranks),
                                    party.ranks.size() == 1 ? "makes" : "make", party.call));
    const JobGroup& group = job().groups[one.group];
    if (one.what == "splits")
      return fmt::format("The members of {} make call {} as an {}: the splits of two of them do not fit.",
                         group_words(group), one.sequence, one.parties.front().call);
    if (one.is_message)
      return fmt::format("The halves of a message in {} differ in {}: {}.", group_words(group), one.what,
                         fmt::join(parties, ", "));
    return fmt::format("Call {} of {} differs in {}: {}.", one.sequence, group_words(group), one.what,
                       fmt::join(parties, ", "));
  }

  /// Members of groups that are never formed wait for each other, whatever else they seem to do.
  void add_group_order() {
    order_ = odd_group_order_of(job());
    if (order_.ranks.empty()) return;
    find("groups", capital(order_.text), order_.ranks);
    if (leading_ != nullptr) return;
    result_.suspects.clear();
    for (const int rank : order_.ranks)
      result_.suspects.push_back({rank, SuspectKind::order, "It has made groups in another order."});
  }

  void add_waits() {
    std::set<std::pair<std::uint32_t, bool>> seen;  // groups, of which only the first call is told
    std::size_t told = 0;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits()) continue;
      if (!all_ && (told == kMostOfAKind || !seen.insert({call.group, call.is_message}).second)) continue;
      ++told;
      add_wait(call);
    }
    for (const std::vector<int>& circle : result_.waiting.suspects.circles)
      find("circle", fmt::format("{} wait for each other in a circle.", capital(ranks_words(circle))),
           circle);
    if (!result_.waiting.suspects.is_stuck && result_.waiting.suspects.running == 0) return;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (!call.awaits() && call.waiting.size() > 1 && !is_disagreed_about(call))
        find("stuck", stuck_words(job(), call), call.waiting);
    }
  }

  /// Whether the members of a call made different ones under its number.
  bool is_disagreed_about(const HoldingCall& call) const {
    return std::ranges::any_of(disagreements_, [&](const Disagreement& one) {
      return !one.is_message && !call.is_message && one.group == call.group && one.sequence == call.sequence;
    });
  }

  void add_wait(const HoldingCall& call) {
    const std::vector<int>& awaited = call.targets();
    const std::string waiting =
        capital(ranks_words(call.waiting)) + (call.waiting.size() == 1 ? " waits" : " wait");
    find(call.is_message        ? "message"
         : call.awaited.empty() ? "absent"
                                : "waiting",
         fmt::format("{} in {} for {}{}.", waiting, call_words(job(), call), ranks_words(awaited),
                     call.awaited.empty() ? ", of whom no dump tells" : ""),
         awaited);
  }

  void add_contradictions() {
    for (const Contradiction& one : job().contradictions) find(one.what, one.text, one.ranks);
    for (const BlankDump& blank : job().blank)
      find("truncated",
           fmt::format("The dump of rank {} {}, so nothing is known of this rank.", blank.rank,
                       verify::words_of(blank)),
           {blank.rank});
    for (const Recording& recording : job().recordings) {
      if (recording.is_truncated)
        find("truncated", fmt::format("The dump of rank {} ends in the middle.", recording.rank),
             {recording.rank});
    }
  }

  /// Where nothing else explains why ranks wait, the calls that hold them may be those that are lost.
  void add_lost() {
    const std::vector<int>& lost = result_.waiting.lost;
    if (!result_.suspects.empty() || lost.empty()) return;
    find("lost",
         fmt::format(
             "The rings of {} have overwritten calls that may be pending, and these may hold the ranks. A "
             "larger ring (TORCH_FR_BUFFER_SIZE) keeps them.",
             ranks_words(lost)),
         lost);
  }

  /// Where nothing else explains why ranks wait, members that no dump lists may keep them waiting.
  void add_unlisted() {
    if (!result_.suspects.empty()) return;
    std::set<int> held;
    for (const HoldingCall& call : result_.waiting.calls) {
      if (job().groups[call.group].may_lack_members) held.insert(call.waiting.begin(), call.waiting.end());
    }
    if (held.empty()) return;
    const std::vector<int> ranks(held.begin(), held.end());
    is_unlisted_ = true;
    find("unlisted",
         fmt::format("{} {} in calls whose groups the dumps do not list (\"pg_config\"), and these may have "
                     "other members.",
                     capital(ranks_words(ranks)), verb(ranks, "waits", "wait")),
         ranks);
  }

  void judge_layout() {
    if (!result_.layout) return;
    const GroupComparison& comparison = result_.layout->comparison;
    if (!comparison.world.empty()) find("layout", capital(comparison.world) + ".", {});
    std::size_t told = 0;
    for (const GroupDifference& difference : comparison.differences) {
      if (difference.what == GroupDifference::What::missing) continue;  // groups that were not used
      if (!all_ && ++told > kMostOfAKind) break;
      find("layout",
           fmt::format("Group {} of {} is not a group of the {} layout{}{}.", ranks_text(difference.ranks),
                       sim::printable_text(difference.description),
                       result_.layout->is_inferred ? "inferred" : "given",
                       difference.explanation.empty() ? "" : ": ", difference.explanation),
           difference.ranks);
    }
  }

  void write_verdict() {
    if (result_.suspects.empty() && (is_unlisted_ || !result_.waiting.lost.empty())) {
      result_.verdict =
          "It cannot be told which rank keeps the others waiting. " + result_.findings.back().text;
      return;
    }
    if (result_.suspects.empty() && result_.waiting.suspects.running > 0) {
      result_.verdict = fmt::format(
          "{} of different ranks are pending to which every member has come: no rank keeps all of them "
          "waiting. This is consistent with dumps that were written while the job ran, or with a "
          "network that stopped for many ranks at once.",
          capital(counted(static_cast<std::int64_t>(result_.waiting.suspects.running), "call")));
      return;
    }
    if (result_.suspects.empty()) {
      result_.verdict = words_without_suspects();
      return;
    }
    if (leading_ != nullptr) {
      result_.verdict =
          words_of(*leading_) +
          (sisters_ == 0
               ? ""
               : fmt::format(" {} of this kind {} in the same way.", counted(sisters_, "other group"),
                             sisters_ == 1 ? "differs" : "differ")) +
          fmt::format(" This is consistent with ranks that make different calls: {}.", where_to_look());
      return;
    }
    if (!order_.ranks.empty()) {
      result_.verdict = capital(order_.text);
      return;
    }
    if (result_.waiting.suspects.is_stuck) return write_stuck();
    if (!result_.waiting.suspects.counted.empty()) {
      result_.verdict = fmt::format(
          "{}. This is consistent with another call that was made under this number, which dumps of active "
          "calls alone do not tell, with dumps that were written at different times, or with a device that "
          "stopped on those that wait.",
          capital(result_.waiting.suspects.counted));
      return;
    }
    if (result_.waiting.suspects.is_ahead) return write_ahead();
    if (result_.waiting.suspects.is_unreceived) return write_unreceived();
    bool is_first = true;
    for (const SuspectKind kind : {SuspectKind::device, SuspectKind::host, SuspectKind::order,
                                   SuspectKind::absent, SuspectKind::unknown}) {
      const std::vector<int> ranks = ranks_of_kind(result_.suspects, kind);
      if (ranks.empty()) continue;
      result_.verdict += is_first ? "" : " ";
      result_.verdict += capital(kind == SuspectKind::order
                                     ? circle_sentence(ranks)
                                     : sentence_of(kind, ranks, is_first ? who_waits() : "", are_cut(ranks)));
      is_first = false;
    }
    doubt_hosts();
    doubt_device_of_two();
    add_others_without_dump();
    const std::vector<int>& unknown = result_.waiting.suspects.unknown;
    if (!unknown.empty())
      result_.verdict +=
          fmt::format(" {} {} no whole dump, and others wait for {}: {} may wait, too, or have stopped.",
                      capital(ranks_words(unknown)), verb(unknown, "has", "have"),
                      verb(unknown, "it", "them"), verb(unknown, "it", "they"));
  }

  /// Where no rank is a suspect.
  std::string words_without_suspects() const {
    const std::vector<int>& early = early_.ranks;
    if (!early.empty())
      return fmt::format(
                 "No rank is known to keep the others waiting. But the {} of {} {} written before calls that "
                 "others have completed, and what {} did last is not known.",
                 verb(early, "dump", "dumps"), ranks_words(early), verb(early, "was", "were"),
                 verb(early, "this rank", "these ranks")) +
             words_of_last() + (result_.findings.empty() ? "" : " See the findings, too.") +
             words_of_missing_dumps();
    if (!result_.findings.empty())
      return "No rank is known to keep the others waiting, but the dumps show what should not be: see the "
             "findings." +
             words_of_missing_dumps();
    const bool are_idle = result_.waiting.held.empty() && ranks_without_dump().empty();
    return fmt::format(
        "Nothing was found: {}, and the ranks agree in the calls that the dumps have.{}{}",
        result_.waiting.held.empty() ? "no rank has a pending call" : "no rank waits for another one",
        are_idle ? " If the job hangs, its ranks have ended, or wait in something that is not "
                   "recorded (gloo, a store, a file, a data loader)."
                 : "",
        words_of_missing_dumps());
  }

  std::vector<int> ranks_without_dump() const {
    std::vector<int> absent;
    for (int rank = 0; rank < job().world_size; ++rank) {
      if (job().dump_of_rank[static_cast<std::size_t>(rank)] < 0) absent.push_back(rank);
    }
    return absent;
  }

  std::string words_of_missing_dumps() const {
    const std::vector<int> absent = ranks_without_dump();
    if (absent.empty()) return "";
    return fmt::format(
        " But {} of {} ranks {} no dump here ({}): what {} did is not known, and the cause may be there.",
        absent.size(), job().world_size, verb(absent, "has", "have"), ranks_words(absent),
        verb(absent, "it", "they"));
  }

  /// Says which rank came last to the calls in which the others waited when they wrote their dumps.
  std::string words_of_last() const {
    if (early_.last < 0) return "";
    return fmt::format(
        " Rank {} alone has completed the calls that are pending there: it came to them last, or its dump "
        "was "
        "written later than the others, so look at what it did before them.",
        early_.last);
  }

  /// Ranks without a dump for which nobody with a dump waits may be those for which the suspects wait, as
  /// where a node is gone.
  void add_others_without_dump() {
    const std::vector<int> suspects = ranks_of_kind(result_.suspects, SuspectKind::absent);
    if (suspects.empty() || suspects.size() < result_.suspects.size()) return;
    std::vector<int> others;
    for (int rank = 0; rank < job().world_size; ++rank) {
      if (job().dump_of_rank[static_cast<std::size_t>(rank)] < 0 &&
          std::ranges::find(suspects, rank) == suspects.end())
        others.push_back(rank);
    }
    if (others.empty()) return;
    result_.verdict +=
        fmt::format(" But {} {} no dump either, and {} may wait for {}.", ranks_words(others),
                    verb(others, "has", "have"), ranks_words(suspects), verb(others, "it", "them"));
  }

  /// Hosts that stopped keep all others waiting, sooner or later. Where more ranks have no pending call than
  /// wait in one, and they are no suspects, those that wait may be the ones that went on.
  void doubt_hosts() {
    if (ranks_of_kind(result_.suspects, SuspectKind::host).empty()) return;
    const std::vector<int>& held = result_.waiting.held;
    const std::vector<HoldingCall>& calls = result_.waiting.calls;
    if (job().world_size == 2 && held.size() == 1 && !calls.empty() && calls.front().awaits()) {
      result_.verdict += fmt::format(
          " With two ranks the dumps do not tell whether rank {} has made a call that rank {} is not meant "
          "to "
          "make: compare what they did after their last common call.",
          held.front(), result_.suspects.front().rank);
      return;
    }
    std::vector<int> idle;
    std::ranges::copy_if(result_.waiting.idle, std::back_inserter(idle), [&](int rank) {
      return std::ranges::find(result_.suspects, rank, &Suspect::rank) == result_.suspects.end();
    });
    if (idle.size() > held.size()) {
      result_.verdict += fmt::format(
          " But {} {} no pending call either. If {} in something that is not recorded (gloo, a store, a "
          "file), {} may have gone on without them.",
          ranks_words(idle), verb(idle, "has", "have"), verb(idle, "it waits", "they wait"),
          ranks_words(held));
      return;
    }
    const std::int64_t others =
        job().world_size - std::ssize(result_.suspects) - result_.waiting.waiting_ranks - std::ssize(idle);
    if (others <= 0 || !knows_all()) return;
    result_.verdict += fmt::format(
        " But {} with pending calls {} not wait for {}: the dumps may have been written while the job ran.",
        counted(others, "other rank"), others == 1 ? "does" : "do",
        result_.suspects.size() == 1 ? "it" : "them");
  }

  /// Of two ranks, one whose device is behind, and one without a pending call.
  void doubt_device_of_two() {
    const std::vector<int>& idle = result_.waiting.idle;
    if (job().world_size != 2 || idle.size() != 1 || result_.suspects.size() != 1) return;
    const Suspect& one = result_.suspects.front();
    if (one.kind != SuspectKind::device || one.rank == idle.front()) return;
    result_.verdict += fmt::format(
        " With two ranks it is as consistent with a dump of rank {} that was written before that of rank {}.",
        one.rank, idle.front());
  }

  /// Whether every rank has a dump that has all that is pending.
  bool knows_all() const {
    return std::ssize(job().recordings) == job().world_size && result_.waiting.lost.empty() &&
           early_.ranks.empty() && std::ranges::none_of(job().recordings, &Recording::is_truncated);
  }

  std::string where_to_look() const {
    std::vector<int> ranks;
    for (const Suspect& one : result_.suspects) ranks.push_back(one.rank);
    if (leading_->what == "splits")
      return "the dumps have no splits, so compare the counts of tokens that each of them sends and expects";
    if (leading_->has_majority())
      return sisters_ == 0 ? fmt::format("look at {} first", ranks_words(ranks))
                           : fmt::format("look at the smaller parties first, {}", ranks_words(ranks));
    if (!departs_ && leading_->parties.size() > 2) return "no party is the largest, so look at all";
    if (!departs_) return "no party is the smaller one, so look at both";
    if (by_habit_)
      return fmt::format(
          "look at {} first, of the two parties the one that did not make what both have made before after "
          "the same calls",
          ranks_words(ranks));
    return fmt::format("look at {} first, whose calls are not those of {}", ranks_words(ranks),
                       words_of_others(job(), ranks.size()));
  }

  /// Adds the lines of the program: of the last call of the first rank that stands still, or of the call that
  /// holds one that made another call than others; and of the call in which others wait for a suspect.
  void write_lines() {
    if (result_.suspects.empty()) return;
    if (leading_ != nullptr) return say(lines_of(*leading_));
    if (!order_.ranks.empty()) return;  // no call made the groups
    std::vector<std::string> parts;
    for (const Suspect& one : result_.suspects) {
      const RecordedCall* const last = last_call_of(job(), one);
      const std::string line = last == nullptr ? "" : line_of(*job().find_recording(one.rank), *last);
      if (line.empty()) continue;
      parts.push_back(fmt::format("rank {} made its last call in {}", one.rank, line));
      break;
    }
    const HoldingCall* const own = call_of_order();
    if (!result_.waiting.suspects.departed.empty()) {
      add_lines(result_.waiting.suspects.departed.front(), parts);
    } else if (own != nullptr) {
      add_line(*own, parts);
    }
    for (const HoldingCall& call : result_.waiting.calls) {
      const std::string line = line_of(job(), call);
      if (line.empty() || &call == own) continue;
      add_line(call, parts);
      break;
    }
    say(parts);
  }

  /// Returns the call that holds the first suspect of another order; null where there is none.
  const HoldingCall* call_of_order() const {
    const auto first = std::ranges::find(result_.suspects, SuspectKind::order, &Suspect::kind);
    if (first == result_.suspects.end()) return nullptr;
    const std::vector<HoldingCall>& calls = result_.waiting.calls;
    const auto holds = [&](const HoldingCall& call) {
      return std::ranges::find(call.waiting, first->rank) != call.waiting.end();
    };
    const auto found = std::ranges::find_if(calls, holds);
    return found == calls.end() ? nullptr : &*found;
  }

  /// Adds where a rank made another call, and where another rank made the call that it did not make.
  void add_lines(const OddProgram& one, std::vector<std::string>& parts) const {
    for (const CallOfDump& made : {one.own, one.others}) {
      const Recording& recording = job().recordings[made.dump];
      const std::string line = line_of(recording, recording.calls[made.call]);
      if (!line.empty()) parts.push_back(fmt::format("rank {} made its call in {}", recording.rank, line));
    }
  }

  void add_line(const HoldingCall& call, std::vector<std::string>& parts) const {
    const std::string line = line_of(job(), call);
    if (line.empty()) return;
    parts.push_back(fmt::format("{} {} in {}", ranks_words(call.waiting),
                                call.waiting.size() == 1 ? "waits" : "wait", line));
  }

  /// Returns where each party of a collective makes it: "rank 2 makes it in step (/home/me/train.py:41)".
  std::vector<std::string> lines_of(const Disagreement& one) const {
    std::vector<std::string> parts;
    for (const Disagreement::Party& party : one.parties) {
      const int dump = job().dump_of_rank[static_cast<std::size_t>(party.ranks.front())];
      const Recording& recording = job().recordings[static_cast<std::size_t>(dump)];
      const auto made = std::ranges::find_if(recording.calls, [&](const RecordedCall& call) {
        return job().is_collective(static_cast<std::size_t>(dump), call) && call.sequence == one.sequence &&
               job().group_of(static_cast<std::size_t>(dump), call) == one.group;
      });
      const std::string line =
          one.is_message || made == recording.calls.end() ? "" : line_of(recording, *made);
      if (!line.empty())
        parts.push_back(fmt::format("{} {} it in {}", ranks_words(party.ranks),
                                    party.ranks.size() == 1 ? "makes" : "make", line));
    }
    return parts;
  }

  void say(const std::vector<std::string>& parts) {
    if (!parts.empty())
      result_.verdict += fmt::format(" {}.", capital(fmt::format("{}", fmt::join(parts, "; "))));
  }

  /// Where the dumps cannot be of one job, what they say together may be wrong, and the verdict says so.
  void doubt_verdict() {
    const bool contradict =
        std::any_of(job().contradictions.begin(), job().contradictions.end(), [](const Contradiction& one) {
          return one.what == "world" || one.what == "rank" || one.what == "members";
        });
    if (contradict && !result_.suspects.empty())
      result_.verdict +=
          " This holds if the dumps are of one job and under the right ranks, and they contradict each other "
          "in "
          "their groups: see the findings first.";
  }

  /// Whether one of these ranks has a dump of which a part is missing.
  bool are_cut(const std::vector<int>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
      return job().find_blank(rank) != nullptr || job().dump_of_rank[static_cast<std::size_t>(rank)] >= 0;
    });
  }

  /// The ranks of circles, or those that are alone in them.
  std::string circle_sentence(const std::vector<int>& ranks) const {
    const bool is_one = result_.waiting.suspects.circles.size() == 1;
    if (!result_.waiting.suspects.missed.empty())
      return fmt::format(
          "{} {} not come to {}{}. This is consistent with a call that {} left out or made in another order.",
          ranks_words(ranks), verb(ranks, "has", "have"), result_.waiting.suspects.missed, who_waits(),
          verb(ranks, "it", "they"));
    if (!result_.waiting.suspects.departed.empty()) return departure_sentence(ranks);
    if (!result_.waiting.suspects.facing.empty())
      return fmt::format(
          "Two parties wait for each other: {}{}. This is consistent with a call that one party makes, "
          "and the other leaves out or makes in another order.",
          result_.waiting.suspects.facing, who_waits());
    const std::string text =
        result_.waiting.suspects.are_alone
            ? fmt::format("{} {} in another call than the others of {} of waits", ranks_words(ranks),
                          verb(ranks, "is", "are"), is_one ? "a circle" : "circles")
            : fmt::format(
                  "{} wait for each other in {}", ranks_words(ranks),
                  is_one ? "a circle" : fmt::format("{} circles", result_.waiting.suspects.circles.size()));
    return text + who_waits() +
           ". This is consistent with calls that are left out, or made in another order, on some ranks.";
  }

  /// Ranks of circles that depart from the calls of their pipeline stages.
  std::string departure_sentence(const std::vector<int>& ranks) const {
    const Suspect& first = result_.suspects.front();
    const std::vector<OddProgram>& departed = result_.waiting.suspects.departed;
    if (departed.front().by_habit)
      return fmt::format(
          "{} {} not go on as before{}. {}{} This is consistent with a call that is left out, made twice or "
          "made in another order there, or, where something begins that is done now and then (an "
          "evaluation, a checkpoint), with rank {} leaving it out.",
          ranks_words(ranks), verb(ranks, "does", "do"), who_waits(),
          ranks.size() == 1 ? "" : fmt::format("Rank {}: ", first.rank), first.reason,
          job().recordings[departed.front().others.dump].rank);
    return fmt::format(
        "{} {} made other calls than {}{}. {}{} "
        "This is consistent with a call that is left out, made twice or made in another order there.",
        ranks_words(ranks), verb(ranks, "has", "have"), words_of_others(job(), ranks.size()), who_waits(),
        ranks.size() == 1 ? "" : fmt::format("Rank {}: ", first.rank), first.reason);
  }

  /// Returns "; all others wait for them, through tp, then ep".
  std::string who_waits() const {
    const Waiting& waiting = result_.waiting;
    const std::int64_t others = job().world_size - std::ssize(result_.suspects);
    std::string text = "; ";
    if (waiting.waiting_ranks > 0) {
      const bool is_one = result_.suspects.size() == 1;
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
    for (const Suspect& suspect : result_.suspects) ranks.push_back(suspect.rank);
    if (result_.suspects.front().reason.starts_with("Its device")) {
      const HoldingCall* const call = stuck_call_of(ranks);
      result_.verdict = fmt::format(
          "{} {} not begun {} on {}, which the devices of the other members have begun{}. This is consistent "
          "with a device that stopped.",
          capital(ranks_words(ranks)), verb(ranks, "has", "have"),
          call == nullptr ? "calls" : call_words(job(), *call), verb(ranks, "its device", "their devices"),
          who_waits());
      return;
    }
    result_.verdict = fmt::format(
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
    const std::vector<HoldingCall>& calls = result_.waiting.calls;
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
    const std::vector<int> ranks = ranks_of_kind(result_.suspects, SuspectKind::order);
    result_.verdict = fmt::format(
        "{} {} not come to messages that wait for {}{}. This is consistent with a message that one side has "
        "and the other has not, or that goes to another rank.",
        capital(ranks_words(ranks)), verb(ranks, "has", "have"), verb(ranks, "it", "them"), who_waits());
  }

  void write_ahead() {
    const std::vector<int> ranks = ranks_of_kind(result_.suspects, SuspectKind::order);
    result_.verdict = fmt::format(
        "{} made calls that the others did not make, which have no pending call. This is consistent with a "
        "call, batch or step that is made twice or by some ranks only, or with others that ended too early, "
        "or wait in something that is not recorded (gloo, a store, a file).",
        capital(ranks_words(ranks)));
    const std::vector<int> awaited = ranks_of_kind(result_.suspects, SuspectKind::host);
    if (!awaited.empty())
      result_.verdict +=
          fmt::format(" It is as consistent with {}, which {} for, having stopped or left out the call.",
                      ranks_words(awaited), ranks.size() == 1 ? "it waits" : "they wait");
  }

  bool is_early(int rank) const { return std::ranges::find(early_.ranks, rank) != early_.ranks.end(); }

  /// A call that is pending in an early dump may have ended since, and others may have been made.
  void doubt_early_dumps() {
    std::vector<int> doubted;
    for (const Suspect& one : result_.suspects) {
      if (one.kind == SuspectKind::unknown && is_early(one.rank)) doubted.push_back(one.rank);
    }
    if (doubted.empty()) return;
    result_.verdict += fmt::format(
        " But the {} of {} {} before calls that others have completed: {} written early, and what is pending "
        "or "
        "missing in {} may have ended or come since.",
        verb(doubted, "dump", "dumps"), ranks_words(doubted), verb(doubted, "ends", "end"),
        verb(doubted, "it was", "they were"), verb(doubted, "it", "them"));
  }

  void write_early_dumps() {
    const std::vector<int>& ranks = early_.ranks;
    if (ranks.empty()) return;
    const std::string example =
        early_.group == kNoGroup ? std::string("messages")
                                 : fmt::format("call {} of {} on rank {}", early_.sequence,
                                               group_words(job().groups[early_.group]), early_.completed_by);
    result_.cannot_tell.push_back(
        fmt::format("{} before calls that others have completed ({}): {} written early, and what {} did last "
                    "is not known.",
                    ranks.size() == 1 ? fmt::format("The dump of rank {} ends", ranks.front())
                                      : fmt::format("The dumps of {} end", ranks_words(ranks)),
                    example, verb(ranks, "it was", "they were"), verb(ranks, "this rank", "these ranks")));
  }

  void write_limits() {
    auto& cannot = result_.cannot_tell;
    cannot.emplace_back(
        "A dump has no reduction operation, no root and no splits of an all_to_all, so ranks that disagree "
        "about "
        "these cannot be found.");
    std::vector<std::string> unlisted;
    for (const JobGroup& group : job().groups) {
      if (!group.has_known_members && group.description != "default_pg")
        unlisted.push_back(fmt::format("'{}'", sim::printable_text(group.name.substr(0, 20))));
    }
    if (!unlisted.empty())
      cannot.push_back(
          fmt::format("The dumps do not list the ranks of {} ({}): its members are taken to be the "
                      "ranks whose dumps have its calls.",
                      unlisted.size() == 1 ? "a group" : counted(std::ssize(unlisted), "group"),
                      fmt::join(unlisted.begin(),
                                unlisted.begin() + std::min<std::ptrdiff_t>(8, std::ssize(unlisted)), ", ")));
    const std::vector<int> absent = ranks_without_dump();
    if (!absent.empty())
      cannot.push_back(fmt::format("{} of {} ranks {} no dump here ({}): what they did is unknown.",
                                   absent.size(), job().world_size, verb(absent, "has", "have"),
                                   ranks_words(absent)));
    std::int64_t lost = 0, empty = 0;
    bool has_started = false, has_frames = false, has_completed = false;
    std::set<std::string> unknown_versions;
    for (const Recording& recording : job().recordings) {
      empty += recording.calls.empty() ? 1 : 0;
      lost += !recording.calls.empty() && recording.calls.front().record_id > 0 ? 1 : 0;
      for (const RecordedCall& call : recording.calls) {
        has_started = has_started || call.state == CallState::started;
        has_completed = has_completed || call.state == CallState::completed;
        has_frames = has_frames || call.frames != 0;
      }
      if (!is_known(recording.version)) unknown_versions.insert(recording.version);
    }
    const std::int64_t dumps = std::ssize(job().recordings);
    if (lost > 0)
      cannot.push_back(
          fmt::format("{} of {} dumps {} with a later call: earlier calls were overwritten in the ring, or "
                      "were completed and "
                      "left out, so a disagreement in them is not seen.",
                      lost, dumps, lost == 1 ? "begins" : "begin"));
    if (empty > 0)
      cannot.push_back(fmt::format("{} of {} dumps {} no calls.", empty, dumps, empty == 1 ? "has" : "have"));
    write_early_dumps();
    if (!has_started && !has_completed)
      cannot.emplace_back(
          "No call is known to have started or completed: the recorder had no timing, or wrote active calls "
          "only.");
    if (!has_frames)
      cannot.emplace_back("The dumps have no stack frames, so no line of a program can be named.");
    if (job().unassigned_statuses > 0)
      cannot.push_back(
          fmt::format("{} of 'pg_status' belong to no group that could be found, and were not used.",
                      counted(static_cast<std::int64_t>(job().unassigned_statuses), "row")));
    for (const std::string& version : unknown_versions)
      cannot.push_back(
          fmt::format("The version '{}' of a dump is not known here; it was read by the names of its "
                      "fields.",
                      sim::printable_text(version.substr(0, 40))));
    cannot.emplace_back(
        "Ranks write their dumps one after the other: a call that was about to end looks pending in an early "
        "dump.");
  }

  static bool is_known(std::string_view version) {
    int major = 0, minor = 0;
    const char* const end = version.data() + version.size();
    const auto [dot, error] = std::from_chars(version.data(), end, major);
    if (error != std::errc() || dot == end || *dot != '.') return false;
    const auto [last, problem] = std::from_chars(dot + 1, end, minor);
    return problem == std::errc() && last == end && (major == 1 || (major == 2 && minor <= kNewestMinor));
  }

  Inspection result_;
  bool all_;
  std::vector<Disagreement> disagreements_;
  bool is_unlisted_ = false;  // ranks wait in groups whose members are not known
  const Disagreement* leading_ = nullptr;
  std::int64_t sisters_ = 0;  // other groups that differ as the leading one does
  OddGroupOrder order_;
  bool departs_ = false;   // the suspects of the leading disagreement are told apart by their programs
  bool by_habit_ = false;  // one of them by what it made before (odd_programs.h)
  EarlyDumps early_;
};

}  // namespace

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all) {
  return Inspector(std::move(recordings), given, shows_all).run();
}

}  // namespace verify
