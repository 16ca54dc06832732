#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "sim/base/printable_text.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"
#include "verify/recordings/value_tree.h"

namespace verify {

namespace {

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
    const std::int64_t count = std::ranges::count_if(
        job_.groups, [](const JobGroup& group) { return !group.has_known_members && !group.is_default(); });
    if (count > 0) say("not_listed", {{"n", count}});
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
    const std::vector<int> older = found_.snapshots.ranks_of(job_, found_.snapshots.older);
    if (older.empty()) return;
    const Lag& first =
        **std::ranges::find_if(found_.snapshots.older, [](const auto& one) { return one.has_value(); });
    const std::string example =
        first.completed_by < 0
            ? "messages"
            : sentence("ends_early_call", {{"sequence", first.completed},
                                           {"group", group_words(job_.groups[first.call.group])},
                                           {"rank", first.completed_by}});
    say("ends_early", {{"ranks", older}, {"example", example}});
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

std::string words_of_missing_dumps(const Job& job) {
  const std::vector<int> missing = job.ranks_without_dump();
  if (missing.empty()) return "";
  return sentence("missing_dumps",
                  {{"n", std::ssize(missing)}, {"world", job.world_size}, {"ranks", missing}});
}

std::vector<std::string> limits_of(const Inspection& found) { return LimitWriter(found).write(); }

}  // namespace verify
