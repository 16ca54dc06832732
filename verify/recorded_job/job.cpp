#include "verify/recorded_job/job.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "verify/checks/group_comparison.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

/// Names that are numbers come first, in the order of the numbers.
bool comes_before(const std::string& a, const std::string& b) {
  const auto x = number_of(a), y = number_of(b);
  if (x && y) return *x < *y;
  return x.has_value() != y.has_value() ? x.has_value() : a < b;
}

/// Whether a description says that the members are the stages of a pipeline.
bool is_of_pipeline(const std::string& kind, std::string_view description) {
  const std::string_view dimension = mesh_dimension(description);
  return kind == "pp" || dimension == "pp" || dimension == "pipe" || dimension == "pipeline";
}

/// The ranks of a group, and its description. Dumps share lists that are equal, so few are compared.
struct ListedGroup {
  const std::vector<int>* ranks;
  std::string description;
  bool operator<(const ListedGroup& other) const {
    if (ranks != other.ranks && *ranks != *other.ranks) return *ranks < *other.ranks;
    return description < other.description;
  }
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
    for (JobGroup& group : job_.groups)
      group.has_all_dumps = !group.may_lack_members && std::ranges::all_of(group.members, [&](int member) {
        return job_.dump_of(member).has_value();
      });
    for (const std::size_t dump : job_.dumps()) assign_statuses(dump);
    judge_statuses();
    for (const std::size_t dump : job_.dumps()) job_.has_failed_calls.push_back(has_failed_calls(dump));
    return std::move(job_);
  }

 private:
  const RecordedGroup& group_at(const Place& place) const {
    return job_.recordings[place.dump].groups[place.own];
  }

  void make_groups() {
    std::map<ListedGroup, std::vector<Place>> listed;
    std::map<std::pair<std::string, std::string>, std::vector<Place>> by_name;  // where no list is known
    for (const std::size_t dump : job_.dumps()) {
      for (std::size_t own = 0; own < job_.recordings[dump].groups.size(); ++own) {
        const Place place{dump, own};
        const RecordedGroup& group = group_at(place);
        if (group.ranks != nullptr) {
          listed[{group.ranks.get(), group.description}].push_back(place);
        } else if (group.is_of_rank) {
          add_group({place}, {job_.rank_of(dump)}, false);
        } else {
          by_name[{group.name, group.description}].push_back(place);
        }
      }
    }
    for (const auto& [key, places] : listed) {
      for (const auto& same : divided(places)) add_group(same, *key.ranks, true);
    }
    for (const auto& [key, places] : by_name) {
      std::vector<int> members;
      for (const Place& place : places) members.push_back(job_.rank_of(place.dump));
      add_group(places, members, false);
    }
    sort_groups();
  }

  /// Divides the places of one list and description into groups: one, unless a dump has several of them.
  std::vector<std::vector<Place>> divided(const std::vector<Place>& places) const {
    const auto name_at = [&](const Place& place) -> const std::string& { return group_at(place).name; };
    std::map<std::size_t, std::vector<Place>> by_dump;
    for (const Place& place : places) by_dump[place.dump].push_back(place);
    if (by_dump.size() == places.size()) return {places};
    std::map<std::string, std::vector<Place>> by_name;
    std::vector<std::vector<Place>> by_order;
    std::size_t most_names = 0;  // of a dump
    for (auto& [dump, own] : by_dump) {
      std::ranges::sort(own, comes_before, name_at);
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (i == by_order.size()) by_order.emplace_back();
        by_order[i].push_back(own[i]);
        by_name[name_at(own[i])].push_back(own[i]);
      }
      most_names = std::max(most_names, own.size());
    }
    // With the same names on all ranks they tell the groups apart; otherwise the order does.
    if (most_names != by_name.size()) return by_order;
    std::vector<std::vector<Place>> groups;
    for (auto& [name, same] : by_name) groups.push_back(std::move(same));
    return groups;
  }

  void add_group(const std::vector<Place>& places, const std::vector<int>& members, bool known) {
    members_ += members.size();
    if (members_ > kMostMembers)
      refuse_by("dump_limit/members", job_.recordings[places.front().dump].path, kMostMembers);
    const RecordedGroup& first = group_at(places.front());
    for (const Place& place : places)
      job_.groups_of[place.dump][place.own].group = static_cast<std::uint32_t>(job_.groups.size());
    const std::string kind = kind_of_description(first.description);
    job_.groups.push_back({.name = first.name,
                           .description = first.description,
                           .kind = kind,
                           .members = members,
                           .has_known_members = known,
                           .may_lack_members = first.is_of_rank,
                           .is_pipeline = is_of_pipeline(kind, first.description),
                           .is_ascending = std::ranges::is_sorted(members)});
  }

  void sort_groups() {
    std::vector<std::uint32_t> order(job_.groups.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
      const JobGroup &x = job_.groups[a], &y = job_.groups[b];
      return x.name != y.name ? comes_before(x.name, y.name) : x.members < y.members;
    });
    std::vector<std::uint32_t> place(order.size());
    std::vector<JobGroup> sorted;
    for (const std::uint32_t group : order) {
      place[group] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(std::move(job_.groups[group]));
    }
    job_.groups = std::move(sorted);
    for (auto& own : job_.groups_of) {
      for (GroupOfRank& group : own) group.group = place[group.group];
    }
  }

  void measure_world() {
    int largest = -1;
    for (const Recording& recording : job_.recordings)
      largest = std::max({largest, recording.rank, recording.last_rank});
    for (const BlankDump& blank : job_.blank) largest = std::max(largest, blank.rank);
    for (const JobGroup& group : job_.groups) {
      for (const int member : group.members) largest = std::max(largest, member);
    }
    job_.world_size = largest + 1;
    for (JobGroup& group : job_.groups) {
      if (group.has_known_members || !group.is_default()) continue;
      group.members.resize(static_cast<std::size_t>(job_.world_size));
      std::iota(group.members.begin(), group.members.end(), 0);
      group.is_ascending = true;
    }
    job_.dump_of_rank.assign(static_cast<std::size_t>(job_.world_size), -1);
    for (const std::size_t dump : job_.dumps())
      job_.dump_of_rank[static_cast<std::size_t>(job_.rank_of(dump))] = static_cast<int>(dump);
  }

  void name_operations() {
    for (const std::size_t dump : job_.dumps()) {
      const Recording& recording = job_.recordings[dump];
      std::vector<std::optional<Operation>> named(recording.texts.size());
      for (const RecordedCall& call : recording.calls) {
        std::optional<Operation>& operation = named[call.operation];
        if (!operation) operation = operation_named(recording.operation(call));
        GroupOfRank& own = job_.groups_of[dump][call.group];
        own.last_recorded = std::max(own.last_recorded, call.sequence);
        if (operation->is_message() || call.is_p2p) job_.groups[own.group].has_messages = true;
      }
      auto& operations = job_.operations.emplace_back();
      for (std::optional<Operation>& one : named) operations.push_back(one ? *std::move(one) : Operation());
    }
  }

  /// Finds the group of every number of "pg_status" of a dump.
  void assign_statuses(std::size_t dump) {
    const Recording& recording = job_.recordings[dump];
    std::map<std::int64_t, std::size_t> own_of = numbers_by_order(recording);
    const bool agrees = std::ranges::all_of(recording.numbered, [&](const auto& one) {
      const auto found = own_of.find(one.first);
      return found == own_of.end() || found->second == one.second;
    });
    if (!agrees) own_of.clear();
    for (const auto& [number, own] : recording.numbered) own_of[number] = own;
    for (const RecordedStatus& status : recording.statuses) {
      const auto number = number_of(status.number);
      const auto found = number ? own_of.find(*number) : own_of.end();
      if (found == own_of.end()) {
        ++job_.unassigned_statuses;
      } else {
        job_.groups_of[dump][found->second].status = status;
      }
    }
  }

  /// The groups of a recording by the numbers of "pg_status", both in ascending order; empty where this
  /// cannot be.
  static std::map<std::int64_t, std::size_t> numbers_by_order(const Recording& recording) {
    std::vector<std::pair<std::int64_t, std::size_t>> names;
    std::vector<std::int64_t> numbers;
    for (std::size_t own = 0; own < recording.configured; ++own) {
      const auto name = number_of(recording.groups[own].name);
      if (!name) return {};
      names.emplace_back(*name, own);
    }
    for (const RecordedStatus& status : recording.statuses) {
      const auto number = number_of(status.number);
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

  bool has_failed_calls(std::size_t dump) const {
    return std::ranges::any_of(job_.calls_of(dump), [&](const JobCall& call) {
      if (call.operation().backend != "gloo" || !call.is_completed() || call.group().has_all_dumps)
        return false;
      const RecordedStatus* const counted = job_.counts_of(&job_.groups_of[dump][call->group]);
      return counted != nullptr && counted->completed < call->sequence;
    });
  }

  /// Decides in which groups the statuses count collectives alone, as the calls do.
  void judge_statuses() {
    std::vector<bool> confirmed(job_.groups.size()), refuted(job_.groups.size()), seen(job_.groups.size());
    for (const auto& groups : job_.groups_of) {
      for (const GroupOfRank& own : groups) {
        if (!own.status) continue;
        seen[own.group] = true;
        if (own.last_recorded < 0) continue;
        if (own.last_recorded == own.status->enqueued) confirmed[own.group] = true;
        if (own.last_recorded > own.status->enqueued) refuted[own.group] = true;
      }
    }
    for (std::size_t i = 0; i < job_.groups.size(); ++i) {
      JobGroup& group = job_.groups[i];
      const bool may_have_messages = group.is_default() || group.kind.empty();
      group.has_status = seen[i] && !refuted[i] && !group.has_messages && group.kind != "pp" &&
                         (confirmed[i] || !may_have_messages);
    }
  }

  Job job_;
  std::size_t members_ = 0;  // of all groups
};

}  // namespace

bool JobGroup::has_member(int rank) const {
  if (is_ascending) return std::ranges::binary_search(members, rank);
  return std::ranges::find(members, rank) != members.end();
}

bool JobCall::is_other_half_of(const JobCall& other) const {
  const Operation &own = operation(), &theirs = other.operation();
  return own.is_message() && theirs.is_message() && own.kind != theirs.kind && own.from == theirs.from &&
         own.to == theirs.to && group_id() == other.group_id();
}

std::optional<JobCall> Job::find_call(std::size_t dump, const CollectiveId& id) const {
  for (const JobCall call : calls_of(dump))
    if (call.id() == id && call.is_collective()) return call;
  return std::nullopt;
}

const GroupOfRank* Job::find(std::size_t dump, std::uint32_t group) const {
  const auto found = std::ranges::find(groups_of[dump], group, &GroupOfRank::group);
  return found == groups_of[dump].end() ? nullptr : &*found;
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
    if (there >= 0 && there != rank && dump_of(there)) found.push_back({there, other});
  }
  return found;
}

bool Job::proves(const JobCall& call) const {
  return call.operation().backend != "gloo" || call.group().has_all_dumps;
}

bool Job::has_pipelines() const { return std::ranges::any_of(groups, &JobGroup::is_pipeline); }

std::ptrdiff_t Job::stage_of(std::size_t dump) const {
  for (const GroupOfRank& own : groups_of[dump]) {
    if (!groups[own.group].is_pipeline) continue;
    const std::vector<int>& members = groups[own.group].members;
    return std::ranges::find(members, rank_of(dump)) - members.begin();
  }
  return 0;
}

std::vector<int> Job::ranks_without_dump() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    if (!dump_of(rank)) ranks.push_back(rank);
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
