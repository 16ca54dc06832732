#include "verify/inspect/job.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "sim/base/printable_text.h"
#include "sim/layout/kind_table.h"
#include "verify/inspect/ended_parts.h"
#include "verify/inspect/unlisted_members.h"
#include "verify/output/phrases.h"
#include "verify/recordings/value_tree.h"

namespace verify {

namespace {

constexpr std::string_view kDefaultGroupOfJob = "default_pg";
constexpr std::size_t kMostContradictions = 100;

std::optional<std::int64_t> as_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Names that are numbers come first, in the order of the numbers.
bool comes_before(const std::string& a, const std::string& b) {
  const auto x = as_number(a), y = as_number(b);
  if (x && y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

std::string kind_of_description(const std::string& description) {
  std::string plain = description;
  if (const std::size_t at = plain.find("_GLOO"); at != std::string::npos) plain.erase(at, 5);
  return sim::kind_described_as(plain);
}

/// Whether a description says that the members are the stages of a pipeline.
bool is_of_pipeline(const std::string& kind, std::string_view description) {
  const std::string_view dimension = mesh_dimension(description);
  return kind == "pp" || dimension == "pp" || dimension == "pipe" || dimension == "pipeline";
}

/// Numbers for lists of ranks: equal lists have one number.
class ListNumbers {
 public:
  int of(const std::shared_ptr<const std::vector<int>>& list) {
    const auto [known, is_new] = by_address_.try_emplace(list.get(), 0);
    if (is_new) {
      const auto [found, is_new_list] = by_ranks_.try_emplace(*list, static_cast<int>(lists_.size()));
      if (is_new_list) lists_.push_back(list.get());
      known->second = found->second;
    }
    return known->second;
  }
  const std::vector<int>& list(int number) const { return *lists_[static_cast<std::size_t>(number)]; }

 private:
  std::map<const std::vector<int>*, int> by_address_;
  std::map<std::vector<int>, int> by_ranks_;
  std::vector<const std::vector<int>*> lists_;
};

/// Where a dump has a group.
struct Place {
  std::size_t dump;
  std::size_t own;  // index into the recording's groups
};

/// Builds a job from its recordings.
class JobBuilder {
 public:
  explicit JobBuilder(Recordings recordings) {
    job_.recordings = std::move(recordings.ranks);
    job_.blank = std::move(recordings.blank);
  }

  Job build() {
    for (const Recording& recording : job_.recordings) job_.groups_of.emplace_back(recording.groups.size());
    make_groups();
    measure_world();
    name_operations();
    complete_unlisted_members(job_);
    assign_statuses();
    judge_statuses();
    find_contradictions();
    return std::move(job_);
  }

 private:
  void make_groups() {
    std::map<std::pair<int, std::string>, std::vector<Place>> known;            // by list and description
    std::map<std::pair<std::string, std::string>, std::vector<Place>> by_name;  // where no list is known
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const auto& groups = job_.recordings[dump].groups;
      for (std::size_t own = 0; own < groups.size(); ++own) {
        if (groups[own].ranks != nullptr) {
          known[{lists_.of(groups[own].ranks), groups[own].description}].push_back({dump, own});
        } else if (groups[own].is_of_rank) {
          add_group({{dump, own}}, {job_.recordings[dump].rank}, false);
        } else {
          by_name[{groups[own].name, groups[own].description}].push_back({dump, own});
        }
      }
    }
    for (const auto& [key, places] : known) {
      for (const auto& same : divided(places)) add_group(same, lists_.list(key.first), true);
    }
    for (const auto& [key, places] : by_name) {
      std::vector<int> members;
      for (const Place& place : places) members.push_back(job_.recordings[place.dump].rank);
      add_group(places, members, false);
    }
    sort_groups();
  }

  const std::string& name_at(const Place& place) const {
    return job_.recordings[place.dump].groups[place.own].name;
  }

  /// Divides the places of one list and description into groups: one, unless a dump has several of them.
  std::vector<std::vector<Place>> divided(const std::vector<Place>& places) const {
    std::map<std::size_t, std::vector<Place>> by_dump;
    for (const Place& place : places) by_dump[place.dump].push_back(place);
    std::size_t most = 0;
    std::set<std::vector<std::string>> names;
    for (auto& [dump, own] : by_dump) {
      std::ranges::sort(own,
                        [&](const Place& a, const Place& b) { return comes_before(name_at(a), name_at(b)); });
      std::vector<std::string> of_dump;
      for (const Place& place : own) of_dump.push_back(name_at(place));
      names.insert(std::move(of_dump));
      most = std::max(most, own.size());
    }
    if (most <= 1) return {places};
    // With the same names on all ranks they tell the groups apart; otherwise the order does.
    std::map<std::string, std::vector<Place>> by_name;
    std::vector<std::vector<Place>> by_order(most);
    for (const auto& [dump, own] : by_dump) {
      for (std::size_t i = 0; i < own.size(); ++i) {
        by_order[i].push_back(own[i]);
        by_name[name_at(own[i])].push_back(own[i]);
      }
    }
    const bool share_names =
        std::ranges::any_of(names, [&](const auto& of_dump) { return of_dump.size() == by_name.size(); });
    if (!share_names) return by_order;
    std::vector<std::vector<Place>> groups;
    for (auto& [name, same] : by_name) groups.push_back(std::move(same));
    return groups;
  }

  void add_group(const std::vector<Place>& places, const std::vector<int>& members, bool known) {
    members_ += members.size();
    if (members_ > kMostMembers)
      refuse_limit(job_.recordings[places.front().dump].path,
                   fmt::format("more than {} members in the groups of all dumps", kMostMembers),
                   "each group of a job is counted once");
    const RecordedGroup& first = job_.recordings[places.front().dump].groups[places.front().own];
    for (const Place& place : places)
      job_.groups_of[place.dump][place.own].group = static_cast<std::uint32_t>(job_.groups.size());
    const bool is_ascending = std::ranges::is_sorted(members);
    const std::string kind = kind_of_description(first.description);
    job_.groups.push_back({.name = first.name,
                           .description = first.description,
                           .kind = kind,
                           .members = members,
                           .has_known_members = known,
                           .may_lack_members = first.is_of_rank,
                           .is_pipeline = is_of_pipeline(kind, first.description),
                           .is_ascending = is_ascending});
  }

  void sort_groups() {
    std::vector<std::uint32_t> order(job_.groups.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
      const JobGroup &x = job_.groups[a], &y = job_.groups[b];
      if (x.name != y.name) return comes_before(x.name, y.name);
      return x.members < y.members;
    });
    std::vector<std::uint32_t> place(order.size());
    std::vector<JobGroup> sorted;
    for (const std::uint32_t group : order) {
      place[group] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(std::move(job_.groups[group]));
    }
    job_.groups = std::move(sorted);
    for (auto& own : job_.groups_of) {
      for (GroupOfRank& group : own) {
        if (group.group != kNoGroup) group.group = place[group.group];
      }
    }
  }

  void measure_world() {
    int largest = -1;
    for (const Recording& recording : job_.recordings) largest = std::max(largest, recording.rank);
    for (const BlankDump& blank : job_.blank) largest = std::max(largest, blank.rank);
    for (const JobGroup& group : job_.groups) {
      for (const int member : group.members) largest = std::max(largest, member);
    }
    job_.world_size = largest + 1;
    for (JobGroup& group : job_.groups) {
      if (group.has_known_members || group.description != kDefaultGroupOfJob) continue;
      group.members.resize(static_cast<std::size_t>(job_.world_size));
      std::iota(group.members.begin(), group.members.end(), 0);
      group.is_ascending = true;
    }
    job_.dump_of_rank.assign(static_cast<std::size_t>(job_.world_size), -1);
    job_.is_early.assign(job_.recordings.size(), false);
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump)
      job_.dump_of_rank[static_cast<std::size_t>(job_.recordings[dump].rank)] = static_cast<int>(dump);
  }

  void name_operations() {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const Recording& recording = job_.recordings[dump];
      std::vector<Operation> named;
      std::vector<bool> is_named;
      for (const RecordedCall& call : recording.calls) {
        if (call.operation >= named.size()) {
          named.resize(call.operation + 1);
          is_named.resize(call.operation + 1);
        }
        if (!is_named[call.operation]) {
          named[call.operation] = operation_named(recording.operation(call));
          is_named[call.operation] = true;
        }
        GroupOfRank& own = job_.groups_of[dump][call.group];
        own.last_recorded = std::max(own.last_recorded, call.sequence);
        if (named[call.operation].is_message() || call.is_p2p) job_.groups[own.group].has_messages = true;
      }
      job_.operations.push_back(std::move(named));
    }
  }

  /// Finds the group of every number of "pg_status".
  void assign_statuses() {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const Recording& recording = job_.recordings[dump];
      std::map<std::int64_t, std::size_t> own_of = numbers_by_order(recording);
      bool agrees = true;
      for (const auto& [number, own] : recording.numbered) {
        const auto found = own_of.find(number);
        agrees = agrees && (found == own_of.end() || found->second == own);
      }
      if (!agrees) own_of.clear();
      for (const auto& [number, own] : recording.numbered) own_of[number] = own;
      for (const RecordedStatus& status : recording.statuses) {
        const auto number = as_number(status.number);
        const auto found = number ? own_of.find(*number) : own_of.end();
        if (found == own_of.end()) {
          ++job_.unassigned_statuses;
        } else {
          job_.groups_of[dump][found->second].status = status;
        }
      }
    }
  }

  /// The groups of a recording by the numbers of "pg_status", both in ascending order; empty where this
  /// cannot be.
  static std::map<std::int64_t, std::size_t> numbers_by_order(const Recording& recording) {
    std::vector<std::pair<std::int64_t, std::size_t>> names;
    std::vector<std::int64_t> numbers;
    for (std::size_t own = 0; own < recording.configured; ++own) {
      const auto name = as_number(recording.groups[own].name);
      if (!name) return {};
      names.emplace_back(*name, own);
    }
    for (const RecordedStatus& status : recording.statuses) {
      const auto number = as_number(status.number);
      if (!number) return {};
      numbers.push_back(*number);
    }
    if (names.size() != numbers.size()) return {};
    std::ranges::sort(names);
    std::ranges::sort(numbers);
    std::map<std::int64_t, std::size_t> own_of;
    for (std::size_t i = 0; i < names.size(); ++i) own_of[numbers[i]] = names[i].second;
    return own_of;
  }

  /// Decides in which groups the statuses count collectives alone, as the calls do.
  void judge_statuses() {
    std::vector<bool> confirmed(job_.groups.size()), refuted(job_.groups.size()), seen(job_.groups.size());
    for (const auto& groups : job_.groups_of) {
      for (const GroupOfRank& own : groups) {
        if (own.group == kNoGroup || !own.status) continue;
        seen[own.group] = true;
        if (own.last_recorded < 0) continue;
        if (own.last_recorded == own.status->enqueued) confirmed[own.group] = true;
        if (own.last_recorded > own.status->enqueued) refuted[own.group] = true;
      }
    }
    for (std::size_t i = 0; i < job_.groups.size(); ++i) {
      JobGroup& group = job_.groups[i];
      const bool may_have_messages = group.description == kDefaultGroupOfJob || group.kind.empty();
      group.has_status = seen[i] && !refuted[i] && !group.has_messages && group.kind != "pp" &&
                         (confirmed[i] || !may_have_messages);
    }
  }

  void contradict(std::string what, std::string text, std::vector<int> ranks) {
    if (job_.contradictions.size() < kMostContradictions)
      job_.contradictions.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  void find_contradictions() {
    std::map<std::size_t, std::vector<int>> worlds;  // by the size of the default group
    std::map<std::string, std::vector<int>> versions;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      const Recording& recording = job_.recordings[dump];
      versions[recording.version].push_back(recording.rank);
      for (std::size_t own = 0; own < recording.groups.size(); ++own) {
        const RecordedGroup& group = recording.groups[own];
        if (group.ranks == nullptr) continue;
        if (group.description == kDefaultGroupOfJob) worlds[group.ranks->size()].push_back(recording.rank);
        judge_members(dump, own);
      }
    }
    if (worlds.size() > 1) {
      std::vector<std::string> parts;
      for (const auto& [size, ranks] : worlds)
        parts.push_back(fmt::format("{} of {}", counted(std::ssize(ranks), "dump"),
                                    counted(static_cast<std::int64_t>(size), "rank")));
      contradict("world",
                 fmt::format("The dumps are of different worlds ({}): they may be of several jobs.",
                             fmt::join(parts, ", ")),
                 worlds.begin()->second.size() < worlds.rbegin()->second.size() ? worlds.begin()->second
                                                                                : worlds.rbegin()->second);
    }
    if (versions.size() > 1) {
      std::vector<std::string> parts;
      for (const auto& [version, ranks] : versions)
        parts.push_back(
            fmt::format("'{}' on {}", sim::printable_text(version.substr(0, 20)), ranks_words(ranks)));
      contradict("version",
                 fmt::format("The dumps have different versions ({}): they may be of several jobs.",
                             fmt::join(parts, ", ")),
                 {});
    }
  }

  /// Holds what a rank says of a group against what the other members say.
  void judge_members(std::size_t dump, std::size_t own) {
    const Recording& recording = job_.recordings[dump];
    const std::uint32_t id = job_.groups_of[dump][own].group;
    const JobGroup& group = job_.groups[id];
    const bool is_first_member_with_dump = [&] {
      for (const int member : group.members) {
        const int other = job_.dump_of_rank[static_cast<std::size_t>(member)];
        if (other >= 0 && job_.find(static_cast<std::size_t>(other), id) != nullptr)
          return other == static_cast<int>(dump);
      }
      return true;
    }();
    if (!group.has_member(recording.rank)) {
      contradict(
          "rank",
          fmt::format("The dump of rank {} has group {} of {}, in which rank {} is not: the file's name "
                      "may say another rank, or --rank-from has to.",
                      recording.rank, shown(group), ranks_words(group.members), recording.rank),
          {recording.rank});
      return;
    }
    // gloo's own recorder names no group, and has one entry for all of them.
    if (!is_first_member_with_dump || group.name.empty()) return;
    for (const int member : group.members) {
      const int other = job_.dump_of_rank[static_cast<std::size_t>(member)];
      if (other < 0 || job_.find(static_cast<std::size_t>(other), id) != nullptr) continue;
      const RecordedGroup* const theirs = namesake(static_cast<std::size_t>(other), recording.groups[own]);
      const bool is_told = theirs != nullptr && group.description == kDefaultGroupOfJob &&
                           theirs->ranks->size() != group.members.size();  // as worlds of different sizes
      if (theirs != nullptr && !is_told) {
        contradict("members",
                   fmt::format("Rank {} has {} in group {}, and rank {} has {} in it.", recording.rank,
                               ranks_words(group.members), shown(group), member, ranks_words(*theirs->ranks)),
                   {recording.rank, member});
      }
    }
  }

  static std::string shown(const JobGroup& group) {
    return fmt::format("'{}' ({})", sim::printable_text(group.name.substr(0, 40)),
                       sim::printable_text(group.description.substr(0, 60)));
  }

  /// Returns the group of the same name and description that a dump has with other ranks; null without one.
  const RecordedGroup* namesake(std::size_t dump, const RecordedGroup& group) const {
    for (const RecordedGroup& other : job_.recordings[dump].groups) {
      if (other.name == group.name && other.description == group.description && other.ranks != nullptr &&
          *other.ranks != *group.ranks)
        return &other;
    }
    return nullptr;
  }

  Job job_;
  ListNumbers lists_;
  std::size_t members_ = 0;  // of all groups
};

}  // namespace

bool JobGroup::has_member(int rank) const {
  if (is_ascending) return std::ranges::binary_search(members, rank);
  return std::ranges::find(members, rank) != members.end();
}

const GroupOfRank* Job::find(std::size_t dump, std::uint32_t group) const {
  for (const GroupOfRank& own : groups_of[dump]) {
    if (own.group == group) return &own;
  }
  return nullptr;
}

std::vector<Job::Member> Job::counterparts(int rank, std::uint32_t group) const {
  const JobGroup& own = groups[group];
  const auto place = static_cast<int>(std::ranges::find(own.members, rank) - own.members.begin());
  std::vector<Member> found;
  for (std::uint32_t other = 0; other < groups.size(); ++other) {
    const JobGroup& alike = groups[other];
    if (other == group || alike.description != own.description || alike.kind != own.kind ||
        alike.members.size() != own.members.size())
      continue;
    const int there = alike.rank_at(place);
    if (there >= 0 && there != rank && find_recording(there) != nullptr) found.push_back({there, other});
  }
  return found;
}

bool Job::has_pipelines() const { return std::ranges::any_of(groups, &JobGroup::is_pipeline); }

std::ptrdiff_t Job::stage_of(std::size_t dump) const {
  for (const GroupOfRank& own : groups_of[dump]) {
    if (own.group == kNoGroup || !groups[own.group].is_pipeline) continue;
    const std::vector<int>& members = groups[own.group].members;
    return std::ranges::find(members, recordings[dump].rank) - members.begin();
  }
  return 0;
}

std::vector<int> Job::ranks_without_dump() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    if (dump_of_rank[static_cast<std::size_t>(rank)] < 0) ranks.push_back(rank);
  }
  return ranks;
}

const BlankDump* Job::find_blank(int rank) const {
  const auto found = std::ranges::find(blank, rank, &BlankDump::rank);
  return found == blank.end() ? nullptr : &*found;
}

Job job_of(Recordings recordings) {
  leave_out_ended_parts(recordings.ranks);
  return JobBuilder(std::move(recordings)).build();
}

}  // namespace verify
