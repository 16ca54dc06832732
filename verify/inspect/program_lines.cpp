#include "verify/inspect/program_lines.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "verify/inspect/call_line.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class LineFinder {
 public:
  LineFinder(const Inspection& found, const VerdictFacts& facts)
      : found_(found), facts_(facts) {}

  /// Returns the lines of the program: of the last call of the first rank that stands still, or of the call that
  /// holds one that made another call than others; and of the call in which others wait for a suspect.
  std::vector<std::string> find() const {
    if (found_.suspects.empty()) return {};
    if (facts_.leading != nullptr) return lines_of(*facts_.leading);
    if (!facts_.order.ranks.empty()) return {};  // no call made the groups
    std::vector<std::string> parts;
    for (const Suspect& one : found_.suspects) {
      const RecordedCall* const last = last_call_of(job(), one);
      const std::string line = last == nullptr ? "" : line_of(*job().find_recording(one.rank), *last);
      if (line.empty()) continue;
      parts.push_back(fmt::format("rank {} made its last call in {}", one.rank, line));
      break;
    }
    const HoldingCall* const own = call_of_order();
    if (!found_.waiting.suspects.departed.empty()) {
      add_lines(found_.waiting.suspects.departed.front(), parts);
    } else if (own != nullptr) {
      add_line(*own, parts);
    }
    for (const HoldingCall& call : found_.waiting.calls) {
      const std::string line = line_of(job(), call);
      if (line.empty() || &call == own) continue;
      add_line(call, parts);
      break;
    }
    return parts;
  }

 private:
  const Job& job() const { return found_.job; }

  /// Returns the call that holds the first suspect of another order; null where there is none.
  const HoldingCall* call_of_order() const {
    const auto first = std::ranges::find(found_.suspects, SuspectKind::order, &Suspect::kind);
    if (first == found_.suspects.end()) return nullptr;
    const std::vector<HoldingCall>& calls = found_.waiting.calls;
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

  const Inspection& found_;
  const VerdictFacts& facts_;
};

}  // namespace

std::string words_of_lines(const Inspection& found, const VerdictFacts& facts) {
  const std::vector<std::string> parts = LineFinder(found, facts).find();
  return parts.empty() ? "" : fmt::format(" {}.", capital(fmt::format("{}", fmt::join(parts, "; "))));
}

}  // namespace verify
