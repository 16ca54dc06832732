#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/sentences.h"
#include "verify/inspect/verdict.h"
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
    const std::int64_t dumps = std::ssize(job_.recordings);
    const auto begins_later = [](const Recording& one) {
      return !one.calls.empty() && one.calls.front().record_id > 0;
    };
    const std::int64_t later = std::ranges::count_if(job_.recordings, begins_later);
    const std::int64_t empty =
        std::ranges::count_if(job_.recordings, [](const Recording& one) { return one.calls.empty(); });
    if (later > 0) say("begin_later", {{"n", later}, {"dumps", dumps}});
    if (empty > 0) say("no_calls", {{"n", empty}, {"dumps", dumps}});
  }

  void write_early_dumps() {
    const EarlyDumps& early = found_.early;
    if (early.ranks.empty()) return;
    const std::string example =
        early.group == kNoGroup
            ? "messages"
            : sentence("ends_early_call", {{"sequence", early.sequence},
                                           {"group", group_words(job_.groups[early.group])},
                                           {"rank", early.completed_by}});
    say("ends_early", {{"ranks", early.ranks}, {"example", example}});
  }

  void write_states_and_frames() {
    bool has_states = false, has_frames = false;
    for (const JobCall call : job_.calls()) {
      has_states = has_states || call->state != CallState::scheduled;
      has_frames = has_frames || call->frames != 0;
    }
    if (!has_states) say("no_states");
    if (!has_frames) say("no_frames");
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

std::vector<std::string> limits_of(const Inspection& found) { return LimitWriter(found).write(); }

std::string words_of_missing_dumps(const Job& job) {
  const std::vector<int> missing = job.ranks_without_dump();
  if (missing.empty()) return "";
  return sentence("missing_dumps",
                  {{"n", std::ssize(missing)}, {"world", job.world_size}, {"ranks", missing}});
}

}  // namespace verify
