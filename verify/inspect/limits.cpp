#include "verify/inspect/limits.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>
#include <string_view>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr int kNewestMinor = 10;  // of the format's version 2

bool is_known(std::string_view version) {
  int major = 0, minor = 0;
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error != std::errc() || dot == end || *dot != '.') return false;
  const auto [last, problem] = std::from_chars(dot + 1, end, minor);
  return problem == std::errc() && last == end && (major == 1 || (major == 2 && minor <= kNewestMinor));
}

/// What the dumps have, of which they may have nothing.
struct Kept {
  std::int64_t begin_later = 0;  // dumps whose first call is not the first one of the rank
  std::int64_t empty = 0;        // dumps without calls
  bool has_started = false, has_completed = false, has_frames = false;
  std::set<std::string> unknown_versions;
};

Kept kept_of(const Job& job) {
  Kept kept;
  for (const Recording& recording : job.recordings) {
    kept.empty += recording.calls.empty() ? 1 : 0;
    kept.begin_later += !recording.calls.empty() && recording.calls.front().record_id > 0 ? 1 : 0;
    for (const RecordedCall& call : recording.calls) {
      kept.has_started = kept.has_started || call.state == CallState::started;
      kept.has_completed = kept.has_completed || call.state == CallState::completed;
      kept.has_frames = kept.has_frames || call.frames != 0;
    }
    if (!is_known(recording.version)) kept.unknown_versions.insert(recording.version);
  }
  return kept;
}

class LimitWriter {
 public:
  LimitWriter(const Job& job, const EarlyDumps& early) : job_(job), early_(early), kept_(kept_of(job)) {}

  std::vector<std::string> write(bool tells_missing_dumps) {
    say("A dump has no reduction operation, no root and no splits of an all_to_all, so ranks that disagree "
        "about these cannot be found.");
    write_unlisted();
    const std::string missing = words_of_missing_dumps(job_);
    if (tells_missing_dumps && !missing.empty()) say(missing + ".");
    write_lost_calls();
    write_early_dumps();
    write_states_and_frames();
    write_what_is_not_understood();
    say("Ranks write their dumps one after the other: a call that was about to end looks pending in an early "
        "dump.");
    return std::move(limits_);
  }

 private:
  void say(std::string sentence) { limits_.push_back(std::move(sentence)); }

  void write_unlisted() {
    constexpr std::ptrdiff_t kMostNames = 8;
    std::vector<std::string> unlisted;
    for (const JobGroup& group : job_.groups) {
      if (!group.has_known_members && group.description != "default_pg")
        unlisted.push_back(fmt::format("'{}'", sim::printable_text(group.name.substr(0, 20))));
    }
    if (unlisted.empty()) return;
    const bool is_one = unlisted.size() == 1;
    const auto end = unlisted.begin() + std::min(kMostNames, std::ssize(unlisted));
    say(fmt::format(
        "The dumps do not list the ranks of {} ({}): {} members are taken to be the ranks whose "
        "dumps have {} calls.",
        is_one ? "a group" : counted(std::ssize(unlisted), "group"), fmt::join(unlisted.begin(), end, ", "),
        is_one ? "its" : "their", is_one ? "its" : "their"));
  }

  void write_lost_calls() {
    const std::int64_t dumps = std::ssize(job_.recordings);
    if (kept_.begin_later > 0)
      say(
          fmt::format("{} of {} dumps {} with a later call: earlier calls were overwritten in the ring, or "
                      "were completed and left out, so a disagreement in them is not seen.",
                      kept_.begin_later, dumps, kept_.begin_later == 1 ? "begins" : "begin"));
    if (kept_.empty > 0)
      say(fmt::format("{} of {} dumps {} no calls.", kept_.empty, dumps, kept_.empty == 1 ? "has" : "have"));
  }

  void write_early_dumps() {
    const std::vector<int>& ranks = early_.ranks;
    if (ranks.empty()) return;
    const std::string example =
        early_.group == kNoGroup ? "messages"
                                 : fmt::format("call {} of {} on rank {}", early_.sequence,
                                               group_words(job_.groups[early_.group]), early_.completed_by);
    say(fmt::format(
        "The {} of {} {} before calls that others have completed ({}): {} written early, and what {} did "
        "last is not known.",
        verb(ranks, "dump", "dumps"), ranks_words(ranks), verb(ranks, "ends", "end"), example,
        verb(ranks, "it was", "they were"), verb(ranks, "this rank", "these ranks")));
  }

  void write_states_and_frames() {
    if (!kept_.has_started && !kept_.has_completed)
      say("No call is known to have started or completed: the recorder had no timing, or wrote active calls "
          "only.");
    if (!kept_.has_frames) say("The dumps have no stack frames, so no line of a program can be named.");
  }

  void write_what_is_not_understood() {
    if (job_.unassigned_statuses > 0)
      say(fmt::format("{} of 'pg_status' {} to no group that could be found, and {} not used.",
                      counted(static_cast<std::int64_t>(job_.unassigned_statuses), "row"),
                      job_.unassigned_statuses == 1 ? "belongs" : "belong",
                      job_.unassigned_statuses == 1 ? "was" : "were"));
    for (const std::string& version : kept_.unknown_versions)
      say(fmt::format("The version '{}' of a dump is not known here; it was read by the names of its fields.",
                      sim::printable_text(version.substr(0, 40))));
  }

  const Job& job_;
  const EarlyDumps& early_;
  const Kept kept_;
  std::vector<std::string> limits_;
};

}  // namespace

std::vector<std::string> limits_of(const Job& job, const EarlyDumps& early,
                                   const std::vector<Suspect>& suspects) {
  return LimitWriter(job, early).write(!suspects.empty());
}

std::string words_of_missing_dumps(const Job& job) {
  const std::vector<int> missing = job.ranks_without_dump();
  if (missing.empty()) return "";
  return fmt::format("{} of {} ranks {} no dump here ({}): what {} did is not known", missing.size(),
                     job.world_size, verb(missing, "has", "have"), ranks_words(missing),
                     verb(missing, "it", "they"));
}

}  // namespace verify
