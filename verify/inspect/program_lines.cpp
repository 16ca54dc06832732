#include "verify/inspect/program_lines.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <vector>

#include "verify/inspect/call_meaning.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class LineFinder {
 public:
  LineFinder(const Inspection& found, const VerdictFacts& facts) : found_(found), facts_(facts) {}

  std::vector<std::string> find() const {
    if (found_.suspects.empty()) return {};
    if (facts_.leading != nullptr) return lines_of(*facts_.leading);
    if (!facts_.order.ranks.empty()) return {};  // no call made the groups
    if (facts_.is_late) return lines_before(facts_.early);
    std::vector<std::string> parts;
    add_last_call(parts);
    const HoldingCall* const own = call_of_suspect();
    if (!found_.waiting.suspects.departed.empty()) {
      add_lines(found_.waiting.suspects.departed.front(), parts);
    } else if (own != nullptr) {
      add_wait(*own, parts);
    }
    const HoldingCall* const others = call_of_others(own);
    if (others != nullptr) add_wait(*others, parts);
    return parts;
  }

 private:
  const Job& job() const { return found_.job; }

  /// Whether the verdict has named the calls in which the suspects wait.
  bool are_calls_named() const {
    const Suspects& suspects = found_.waiting.suspects;
    return suspects.is_stuck || !suspects.counted.empty() || !suspects.circles.empty();
  }

  /// The last call of the first rank that stands still and has one.
  void add_last_call(std::vector<std::string>& parts) const {
    for (const Suspect& one : found_.suspects) {
      const RecordedCall* const last = last_call_of(job(), one);
      if (last == nullptr) continue;
      const auto dump = static_cast<std::size_t>(job().dump_of_rank[static_cast<std::size_t>(one.rank)]);
      const std::string line = line_of(job().recordings[dump], *last);
      parts.push_back(fmt::format("the last call of rank {} was {}{}", one.rank,
                                  call_words(job(), holding_call_of(job(), dump, *last)),
                                  line.empty() ? "" : ", made in " + line));
      return;
    }
  }

  /// Returns the call that a rank made before the one to which it came late.
  std::vector<std::string> lines_before(const EarlyDumps& early) const {
    const auto dump = static_cast<std::size_t>(job().dump_of_rank[static_cast<std::size_t>(early.last)]);
    const std::vector<RecordedCall>& calls = job().recordings[dump].calls;
    const auto late = std::ranges::find_if(calls, [&](const RecordedCall& call) {
      return call.sequence == early.last_call.sequence && job().is_collective(dump, call) &&
             job().group_of(dump, call) == early.last_call.group;
    });
    if (late == calls.begin() || late == calls.end()) return {};
    const RecordedCall& before = *std::prev(late);
    const std::string line = line_of(job().recordings[dump], before);
    return {fmt::format("its call before that was {}{}",
                        call_words(job(), holding_call_of(job(), dump, before)),
                        line.empty() ? "" : ", made in " + line)};
  }

  /// Returns the call that holds the first suspect of a device or of another order; null where there is none.
  const HoldingCall* call_of_suspect() const {
    const auto is_held = [](const Suspect& one) {
      return one.kind == SuspectKind::order || one.kind == SuspectKind::device;
    };
    const auto first = std::ranges::find_if(found_.suspects, is_held);
    return first == found_.suspects.end() ? nullptr : find_call_of(found_.waiting, first->rank);
  }

  /// Returns the call in which others wait, the nearest to a suspect, a collective if there is one; null
  /// where there is none, or where it has been named and has no line.
  const HoldingCall* call_of_others(const HoldingCall* own) const {
    const HoldingCall* found = nullptr;
    for (const HoldingCall& call : found_.waiting.calls) {
      if (&call == own || (call.distance < 0 && !has_line(call))) continue;
      if (are_calls_named() && !has_line(call)) continue;
      if (found != nullptr && call.distance != found->distance) break;
      if (found == nullptr || (found->is_message && !call.is_message)) found = &call;
    }
    return found;
  }

  bool has_line(const HoldingCall& call) const { return !line_of(job(), call).empty(); }

  /// Adds where a rank made another call, and where another rank made the call that it did not make.
  void add_lines(const OddProgram& one, std::vector<std::string>& parts) const {
    for (const CallOfDump& made : {one.own, one.others}) {
      const Recording& recording = job().recordings[made.dump];
      const std::string line = line_of(recording, recording.calls[made.call]);
      if (!line.empty()) parts.push_back(fmt::format("rank {} made its call in {}", recording.rank, line));
    }
  }

  /// Adds in which call ranks wait, unless it has been named, and in which line.
  void add_wait(const HoldingCall& call, std::vector<std::string>& parts) const {
    const std::string line = line_of(job(), call);
    const std::string who =
        fmt::format("{} {} in ", ranks_words(call.waiting), call.waiting.size() == 1 ? "waits" : "wait");
    if (!are_calls_named()) {
      parts.push_back(who + call_words(job(), call) + (line.empty() ? "" : ", made in " + line));
    } else if (!line.empty()) {
      parts.push_back(who + line);
    }
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

  const Inspection& found_;
  const VerdictFacts& facts_;
};

}  // namespace

std::string words_of_lines(const Inspection& found, const VerdictFacts& facts) {
  const std::vector<std::string> parts = LineFinder(found, facts).find();
  return parts.empty() ? "" : fmt::format(" {}.", capital(fmt::format("{}", fmt::join(parts, "; "))));
}

}  // namespace verify
