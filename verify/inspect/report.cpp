#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"
#include "verify/recorded_job/call_meaning.h"

namespace verify {

namespace {

std::string words_of(const Job& job, const std::optional<HoldingCall>& call) {
  return call ? call_words(job, *call) : "";
}

std::string words_of(const Inspection& found, const Facts& facts, int rank) {
  const Job& job = found.job;
  const std::string line = facts.call ? line_of(job, *facts.call) : "";
  return sentence(facts.sentence,
                  {{"rank", rank},
                   {"ranks", facts.ranks},
                   {"others", facts.others},
                   {"stage", words_of_others(job, 1)},
                   {"call", words_of(job, facts.call)},
                   {"other", words_of(job, facts.other)},
                   {"line", line},
                   {"own_line", facts.other ? line_of(job, *facts.other) : ""},
                   {"group", facts.group ? group_words(job.groups[*facts.group]) : ""},
                   {"gone", job.find_blank(rank) == nullptr ? sentence("gone_middle")
                                                            : verify::words_of(*job.find_blank(rank))},
                   {"n", facts.n},
                   {"m", facts.m},
                   {"at", facts.at},
                   {"ahead", facts.n == 1 ? "one call" : counted(facts.n, "call")},
                   {"issued", facts.m + facts.n}});
}

/// The nodes of ranks, as far as the folders and the names of the files tell.
class Nodes {
 public:
  explicit Nodes(const Job& job) {
    for (const Recording& one : job.recordings) add(one);
    const bool tells = ranks_of_.size() > 1 && ranks_of_.size() < job.recordings.size();
    if (!tells) ranks_of_.clear();
  }

  std::string words_of(int rank) const {
    for (const auto& [node, ranks] : ranks_of_) {
      const auto own = std::ranges::find(ranks, rank);
      if (own != ranks.end())
        return sentence("node",
                        {{"node", sim::printable_text(node.substr(0, 60))}, {"gpu", own - ranks.begin()}});
    }
    return "";
  }

 private:
  /// The folder and the name of a file, without the number of its rank.
  void add(const Recording& one) {
    const std::filesystem::path path(one.path);
    std::string name = path.filename().string();
    const std::string number = std::to_string(one.rank);
    if (const std::size_t at = name.rfind(number); at != std::string::npos) name.erase(at, number.size());
    const std::string folder = path.parent_path().filename().string();
    ranks_of_[folder + (folder.empty() || name.empty() ? "" : "/") + name].push_back(one.rank);
  }

  std::map<std::string, std::vector<int>> ranks_of_;
};

class ReportWriter {
 public:
  explicit ReportWriter(const Inspection& found)
      : found_(found),
        job_(found.job),
        waiting_(found.waiting),
        edits_(found.explanation),
        ranks_(found.ranks_of()) {}

  Report write() {
    if (ranks_.empty()) {
      write_nobody();
    } else {
      write_first();
      write_why();
      write_next();
    }
    if (edits_.kind != EditKind::extra && edits_.kind != EditKind::late) doubt_hosts();
    if (edits_.kind == EditKind::gone || edits_.kind == EditKind::unlinked) doubt_absent();
    if (!edits_.unknown.empty()) doubt("doubt_unknown", {{"ranks", edits_.unknown}});
    write_lines();
    doubt_jobs();
    const std::string missing = words_of_missing_dumps(job_);
    if (ranks_.empty() && !missing.empty()) doubt("but_missing", {{"missing", missing}});
    report_.confidence = confidence();
    return std::move(report_);
  }

 private:
  std::string say(std::string_view name, std::initializer_list<Fact> facts = {}) const {
    return sentence(name, facts);
  }
  void add(std::string_view name, std::initializer_list<Fact> facts = {}) {
    report_.rest += sentence(name, facts);
  }
  void doubt(std::string_view name, std::initializer_list<Fact> facts = {}) {
    is_doubted_ = true;
    add(name, facts);
  }

  void write_first() {
    const std::string node = ranks_.size() == 1 ? Nodes(job_).words_of(ranks_.front()) : "";
    report_.first = say("look_first", {{"ranks", ranks_}, {"node", node}});
  }

  // ---- why

  void write_why() {
    switch (edits_.kind) {
      case EditKind::altered:
        return write_altered(*edits_.altered);
      case EditKind::regrouped:
        report_.why = found_.order.text;
        return;
      case EditKind::departed:
        return write_departed();
      case EditKind::crossed:
        return write_crossed();
      case EditKind::unended:
      case EditKind::unbegun:
        return write_unended();
      case EditKind::stopped:
      case EditKind::silent:
      case EditKind::gone:
      case EditKind::unlinked:
        return write_kinds();
      default:
        return write_facts();
    }
  }

  /// What is seen of the suspects of each kind.
  void write_kinds() {
    for (const SuspectKind kind : {SuspectKind::device, SuspectKind::host, SuspectKind::absent}) {
      const std::vector<int> ranks = found_.ranks_of(kind);
      if (ranks.empty()) continue;
      const bool are_cut = std::ranges::any_of(
          ranks, [&](int rank) { return job_.find_blank(rank) != nullptr || job_.dump_of(rank); });
      const std::string name = suspect_kind_name(kind);
      const bool is_first = report_.why.empty();
      const std::string why = say(
          name,
          {{"ranks", ranks}, {"who", is_first ? who_waits() : ""}, {"cut", are_cut ? " that is whole" : ""}});
      (is_first ? report_.why : report_.rest) += is_first ? why : " " + why;
      add(name + "_means");
    }
  }

  /// Edits of which one sentence tells all: that of the table's kind, or of the facts.
  void write_facts() {
    static const std::map<EditKind, std::string_view> names = {
        {EditKind::late, "late"},     {EditKind::extra, "extra"},     {EditKind::unmet, "unmet"},
        {EditKind::uneven, "uneven"}, {EditKind::relined, "relined"}, {EditKind::unreceived, "unreceived"}};
    const std::string name(names.at(edits_.kind));
    const Facts& facts = edits_.kind == EditKind::uneven ? edits_.facts : found_.suspects.front().facts;
    const std::vector<int> order = found_.ranks_of(SuspectKind::order);
    report_.why =
        say(name, {{"ranks", order.empty() ? ranks_ : order},
                   {"others", facts.ranks},
                   {"detail", edits_.kind == EditKind::uneven ? capital(words_of(found_, facts, -1)) : ""},
                   {"call", words_of(job_, facts.call)},
                   {"line", facts.call ? line_of(job_, *facts.call) : ""},
                   {"own_line", facts.other ? line_of(job_, *facts.other) : ""},
                   {"n", facts.n},
                   {"who", who_waits()}});
    add(name + "_means");
    const std::vector<int> awaited = found_.ranks_of(SuspectKind::host);
    if (edits_.kind == EditKind::extra && !awaited.empty())
      doubt("extra_or_awaited", {{"ranks", order}, {"awaited", awaited}});
  }

  void write_departed() {
    report_.why =
        say("departed",
            {{"ranks", ranks_}, {"others", words_of_others(job_, ranks_.size())}, {"who", who_waits()}});
    add("departed_first",
        {{"rank", edits_.departed.front().rank}, {"reason", found_.suspects.front().reason}});
    add("departed_means");
  }

  /// Two parties that wait in calls of one kind each, or ranks in a circle.
  void write_crossed() {
    std::map<std::pair<std::string, std::string>, std::vector<int>> parties;
    for (const int rank : ranks_) {
      const HoldingCall& call = *edits_.ranks.at(rank).facts.call;
      const auto recorded = call.recorded_in(job_);
      parties[{job_.groups[call.group].description, recorded ? recorded->operation().name : ""}].push_back(
          rank);
    }
    const std::int64_t circles = std::ssize(edits_.circles);
    if (parties.size() == 2 && ranks_.size() > 2) {
      report_.why = say("facing", {{"party", words_of_party(parties.begin()->second)},
                                   {"others", words_of_party(parties.rbegin()->second)},
                                   {"who", who_waits()}});
    } else {
      report_.why = say(edits_.is_smaller ? "alone" : "crossed",
                        {{"ranks", ranks_},
                         {"circles", circles == 1 ? "" : say("circles", {{"n", circles}})},
                         {"calls", words_of_calls()},
                         {"who", who_waits()}});
    }
    add("crossed_means");
  }

  std::string words_of_party(const std::vector<int>& ranks) const {
    std::set<std::uint32_t> groups;
    for (const int rank : ranks) groups.insert(edits_.ranks.at(rank).facts.call->group);
    const std::int64_t more = std::ssize(groups) - 1;
    return say("party", {{"ranks", ranks},
                         {"call", words_of(job_, edits_.ranks.at(ranks.front()).facts.call)},
                         {"more", more == 0 ? "" : say("party_more", {{"n", more}})}});
  }

  /// Returns "rank 0 waits in nccl:all_reduce, call 3 of the tp group of ranks 0 and 1, and rank 2 in ...":
  /// of many ranks the first one.
  std::string words_of_calls() const {
    constexpr std::size_t kFew = 3;
    std::vector<std::string> parts;
    for (const int rank : ranks_) {
      const HoldingCall* const call = find_call_of(waiting_, rank);
      if (call == nullptr || (ranks_.size() > kFew && !parts.empty())) continue;
      parts.push_back(say(ranks_.size() > kFew ? "is_in_for_example" : "is_in",
                          {{"rank", rank}, {"call", call_words(job_, *call)}}));
    }
    return fmt::format("{}", fmt::join(parts, ", and "));
  }

  /// Returns "; all others wait for them, through tp, then ep".
  std::string who_waits() const {
    const std::int64_t others = job_.world_size - std::ssize(ranks_);
    if (waiting_.waiting_ranks == 0) return "";
    std::string text = say(waiting_.waiting_ranks == others ? "all_wait" : "some_wait",
                           {{"waiting", waiting_.waiting_ranks},
                            {"others", others},
                            {"for", say("for_suspects", {{"ranks", ranks_}})}});
    if (!waiting_.through.empty())
      text += say("through", {{"groups", fmt::format("{}", fmt::join(waiting_.through, ", then "))}});
    return text;
  }

  /// Returns the only collective in which all suspects are, and to which all have come; null where there are
  /// several.
  const HoldingCall* stuck_call() const {
    const HoldingCall* found = nullptr;
    for (const HoldingCall& call : waiting_.calls) {
      if (call.awaits() || call.is_message || !std::ranges::includes(call.waiting, ranks_)) continue;
      if (found != nullptr) return nullptr;
      found = &call;
    }
    return found;
  }

  void write_unended() {
    const HoldingCall* const call = stuck_call();
    if (edits_.kind == EditKind::unbegun) {
      report_.why = say("unbegun", {{"ranks", ranks_},
                                    {"call", call == nullptr ? "calls" : call_words(job_, *call)},
                                    {"who", who_waits()}});
      return add("unbegun_means");
    }
    const bool knows_started = std::ranges::any_of(job_.recordings, [](const Recording& one) {
      return std::ranges::find(one.calls, CallState::started, &RecordedCall::state) != one.calls.end();
    });
    report_.why =
        say("unended", {{"ranks", ranks_}, {"call", words_of_stuck_call(call)}, {"who", who_waits()}});
    doubt("unended_means", {{"calls", call == nullptr ? "calls" : "call"},
                            {"hint", knows_started ? "" : say("stuck_timing")}});
  }

  std::string words_of_stuck_call(const HoldingCall* call) const {
    if (call == nullptr) return say("stuck_calls");
    const auto recorded = call->recorded_in(job_);
    const bool is_broadcast = recorded && recorded->operation().name == "broadcast";
    return say(call->completed.empty() ? "stuck_call" : "stuck_call_ended",
               {{"call", call_words(job_, *call)},
                {"completed", call->completed},
                {"broadcast", is_broadcast ? say("stuck_broadcast") : ""}});
  }

  void write_altered(const Disagreement& one) {
    report_.why = disagreement_words(job_, one);
    if (edits_.sisters > 0) add("sisters", {{"n", edits_.sisters}});
    const char* const name = one.has_majority()       ? "altered_means"
                             : edits_.departs         ? "altered_departed"
                             : one.parties.size() > 2 ? "altered_many"
                                                      : "altered_two";
    add(name, {{"ranks", ranks_}, {"others", words_of_others(job_, ranks_.size())}});
  }

  // ---- where nobody is named

  void write_nobody() {
    report_.first = say(edits_.kind == EditKind::older ? "look_running" : "look_at_nobody");
    report_.next = say("next_again");
    if (found_.is_unlisted || !waiting_.lost.empty()) {
      report_.first = say("look_unknown");
      report_.next = say(waiting_.lost.empty() ? "next_lists" : "next_ring");
      report_.why = say("cannot_be_told", {{"finding", found_.findings.back().text}});
    } else if (edits_.kind == EditKind::older) {
      write_running();
    } else if (!found_.findings.empty()) {
      report_.why = say("see_findings");
    } else {
      const bool is_idle = waiting_.held.empty();
      report_.why = say("nothing", {{"waits", say(is_idle ? "nothing_pending" : "nothing_waits")}});
      if (is_idle && job_.ranks_without_dump().empty()) add("nothing_idle");
    }
  }

  void write_running() {
    const Slowest& slowest = edits_.slowest;
    report_.why = say(
        "ran", {{"slowest", slowest.rank < 0 ? say("slowest_unknown")
                                             : say("slowest", {{"rank", slowest.rank},
                                                               {"ms", slowest.ns / 1'000'000},
                                                               {"call", call_words(job_, slowest.call)}})}});
    const std::vector<int> older = found_.snapshots.ranks_of(job_, found_.snapshots.older);
    const std::vector<int> lagging = found_.snapshots.ranks_of(job_, found_.snapshots.lags);
    if (!older.empty()) add("ran_older", {{"ranks", older}});
    if (older.empty() && !lagging.empty()) add("ran_lagging", {{"ranks", lagging}});
    if (edits_.running > 0) {
      const auto first = std::ranges::find_if(waiting_.calls, [](const HoldingCall& call) {
        return !call.awaits() && !call.is_message && call.waiting.size() > 1;
      });
      add("ran_calls",
          {{"n", static_cast<std::int64_t>(edits_.running)},
           {"example",
            first == waiting_.calls.end() ? "" : say("ran_example", {{"call", call_words(job_, *first)}})}});
    }
    if (edits_.elsewhere > 0) add("ran_elsewhere", {{"n", edits_.elsewhere}, {"ranks", edits_.behind}});
    if (!edits_.behind.empty()) add("ran_behind", {{"ranks", edits_.behind}});
  }

  // ---- what makes a report doubtful that names ranks by their kinds

  /// Hosts that stopped keep all others waiting, sooner or later. If more ranks have no pending call than
  /// wait in one, and they are no suspects, those that wait may be the ones that went on.
  void doubt_hosts() {
    const std::vector<int> hosts = found_.ranks_of(SuspectKind::host);
    if (hosts.empty()) return;
    std::vector<int> idle = waiting_.idle;
    std::erase_if(idle, [&](int rank) { return std::ranges::binary_search(ranks_, rank); });
    const std::int64_t others =
        job_.world_size - std::ssize(ranks_) - waiting_.waiting_ranks - std::ssize(idle);
    if (job_.world_size == 2 && waiting_.held.size() == 1 && !waiting_.calls.empty() &&
        waiting_.calls.front().awaits()) {
      doubt("doubt_two_hosts", {{"held", waiting_.held.front()}, {"suspect", ranks_.front()}});
    } else if (idle.size() > waiting_.held.size()) {
      doubt("doubt_idle", {{"ranks", idle}, {"held", waiting_.held}});
    } else if (others > 0 && knows_all()) {
      doubt("doubt_others", {{"n", others}, {"suspects", std::ssize(ranks_)}});
    }
    // If no message of Gloo is recorded, a rank may wait in one.
    if (job_.has_no_messages()) doubt("doubt_gloo", {{"ranks", hosts}});
  }

  /// If most ranks with dumps have no pending call, a rank without a dump may not keep them waiting. Other
  /// ranks without one, for which nobody with a dump waits, may be those for which the suspects wait.
  void doubt_absent() {
    if (waiting_.idle.size() > waiting_.held.size()) doubt("doubt_absent", {{"ranks", waiting_.idle}});
    std::vector<int> others = job_.ranks_without_dump();
    std::erase_if(others, [&](int rank) { return std::ranges::binary_search(ranks_, rank); });
    if (!others.empty()) doubt("doubt_no_dump", {{"ranks", others}, {"suspects", ranks_}});
  }

  /// Whether every rank has a dump that has all that is pending.
  bool knows_all() const {
    return std::ssize(job_.recordings) == job_.world_size && waiting_.lost.empty() &&
           std::ranges::none_of(job_.recordings, &Recording::is_truncated);
  }

  void doubt_jobs() {
    const bool contradict = std::ranges::any_of(
        found_.contradictions, [](const InspectionFinding& one) { return one.what != "version"; });
    if (contradict && !ranks_.empty()) doubt("doubt_jobs");
  }

  Confidence confidence() const {
    static const std::set<EditKind> open = {EditKind::none,    EditKind::older, EditKind::crossed,
                                            EditKind::unended, EditKind::unmet, EditKind::unlinked};
    static const std::set<EditKind> clear = {EditKind::altered, EditKind::stopped, EditKind::gone,
                                             EditKind::departed, EditKind::unbegun};
    const bool is_tie = edits_.altered && !edits_.altered->has_majority() && !edits_.departs;
    if (open.contains(edits_.kind) || is_tie) return Confidence::open;
    return clear.contains(edits_.kind) && !is_doubted_ && waiting_.lost.empty() ? Confidence::clear
                                                                                : Confidence::likely;
  }

  // ---- what to type next

  void write_next() {
    const SuspectKind kind = found_.suspects.front().kind;
    const int rank = ranks_.front();
    const std::vector<std::string> lines = lines_of_program();
    if (edits_.kind == EditKind::unended || edits_.kind == EditKind::unmet) {
      report_.next = say("next_links", {{"rank", rank}, {"other", ranks_.back()}});
    } else if (kind == SuspectKind::device) {
      report_.next = say("next_device", {{"rank", rank}});
    } else if (kind == SuspectKind::absent) {
      report_.next = say("next_absent", {{"rank", rank}});
    } else if (kind == SuspectKind::host) {
      report_.next = say("next_host", {{"rank", rank}});
    } else if (!lines.empty()) {
      report_.next = say("next_lines", {{"lines", words_of_editor(lines)}});
    } else {
      report_.next = say("next_stacks");
    }
  }

  /// Returns places "train.py:15" as editors take them: "+15 train.py".
  static std::string words_of_editor(const std::vector<std::string>& places) {
    std::string words;
    for (const std::string& place : places) {
      const std::size_t end = place.rfind(':');
      words += words.empty() ? "" : " ";
      words += end == std::string::npos ? place
                                        : fmt::format("+{} {}", place.substr(end + 1), place.substr(0, end));
    }
    return words;
  }

  /// Returns the file and the line of each place of the program in which suspects, and the other party where
  /// there is one, made their calls.
  std::vector<std::string> lines_of_program() const {
    std::vector<std::string> lines;
    const auto add_line = [&](const std::string& frame) {
      const std::size_t begin = frame.rfind('('), end = frame.rfind(')');
      if (begin == std::string::npos || end == std::string::npos || end < begin) return;
      const std::string place = frame.substr(begin + 1, end - begin - 1);
      if (std::ranges::find(lines, place) == lines.end()) lines.push_back(place);
    };
    if (edits_.altered) {
      for (const Disagreement::Party& party : edits_.altered->parties) add_line(line_of_party(party));
      return lines;
    }
    for (const Suspect& suspect : found_.suspects)
      for (const std::optional<HoldingCall>* call : {&suspect.facts.other, &suspect.facts.call})
        if (*call) add_line(line_of(job_, **call));
    return lines;
  }

  std::string line_of_party(const Disagreement::Party& party) const {
    const Disagreement& one = *edits_.altered;
    const auto made = job_.find_call(*job_.dump_of(party.ranks.front()), {one.group, one.sequence});
    return one.is_message || !made ? "" : line_of(*made);
  }

  // ---- the calls and lines with which it ends

  void write_lines() {
    if (edits_.altered) {
      for (const Disagreement::Party& party : edits_.altered->parties) {
        const std::string line = line_of_party(party);
        if (!line.empty()) add_line("makes_it", {{"ranks", party.ranks}, {"line", line}});
      }
    } else if (edits_.kind == EditKind::late) {
      add_call_before(edits_.slowest);
    } else if (edits_.kind != EditKind::regrouped && !ranks_.empty()) {  // no call made the groups
      add_waits();
    }
    if (!lines_.empty())
      report_.rest += fmt::format(" {}.", capital(fmt::format("{}", fmt::join(lines_, "; "))));
  }

  void add_line(std::string_view name, std::initializer_list<Fact> facts) {
    lines_.push_back(sentence(name, facts));
  }

  static std::string made_in(const std::string& line) {
    return line.empty() ? "" : sentence("made_in", {{"line", line}});
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
    if (!edits_.departed.empty()) {
      // Where a rank made another call, and where another rank made the call that it did not make.
      const OddProgram& one = edits_.departed.front();
      for (const HoldingCall* const made : {&one.own, &one.others}) {
        const std::string line = line_of(job_, *made);
        if (!line.empty()) add_line("made_its_call", {{"rank", job_.rank_of(made->dump)}, {"line", line}});
      }
    } else if (own != nullptr && edits_.kind != EditKind::relined) {  // whose reason has both lines
      add_wait(*own);
    }
    if (const HoldingCall* const others = call_of_others(own)) add_wait(*others);
  }

  bool are_calls_named() const {
    return edits_.kind == EditKind::unended || edits_.kind == EditKind::unbegun ||
           edits_.kind == EditKind::relined || edits_.kind == EditKind::unmet || !edits_.circles.empty();
  }

  /// Adds the call that a rank made before the one to which it came late.
  void add_call_before(const Slowest& late) {
    if (late.call.call <= 0) return;
    const JobCall before = job_.call_at(late.call.dump, late.call.call - 1);
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

  const Inspection& found_;
  const Job& job_;
  const Waiting& waiting_;
  const Explanation& edits_;
  const std::vector<int> ranks_;  // of the suspects
  Report report_;
  bool is_doubted_ = false;
  std::vector<std::string> lines_;
};

}  // namespace

const char* confidence_name(Confidence confidence) {
  constexpr const char* kNames[] = {"clear", "likely", "open"};
  return kNames[static_cast<std::size_t>(confidence)];
}

Report report_of(Inspection& found) {
  for (Suspect& one : found.suspects)
    one.reason =
        one.facts.sentence == "why_altered"
            ? disagreement_words(found.job, found.disagreements[static_cast<std::size_t>(one.facts.n)])
            : words_of(found, one.facts, one.rank);
  return ReportWriter(found).write();
}

}  // namespace verify
