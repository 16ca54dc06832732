#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/recorded_job/job.h"

namespace verify {

namespace {

class Completer {
 public:
  explicit Completer(Job& job) : job_(job), parts_(job.groups.size()), places_(job.groups.size(), -1) {}

  void complete() {
    std::map<std::string, std::vector<std::uint32_t>> alike;
    for (std::uint32_t id = 0; id < job_.groups.size(); ++id) {
      const JobGroup& group = job_.groups[id];
      if (!group.has_known_members && !group.may_lack_members && !group.is_default())
        alike[group.description].push_back(id);
    }
    if (alike.empty()) return;
    for (const JobCall call : job_.calls()) read_call(call);
    for (const auto& [description, groups] : alike) complete_alike(groups);
  }

 private:
  /// Notes how many members a call says that its group has.
  void read_call(const JobCall& call) {
    const std::uint32_t id = call.group_id();
    if (job_.groups[id].has_known_members) return;
    const Operation& operation = call.operation();
    if (operation.is_message()) places_[id] = std::max({places_[id], operation.from, operation.to});
    const std::int64_t in = call.elements_in(), out = call.elements_out();
    if (in <= 0 || out <= 0) return;
    if (operation.name == "all_gather" && out % in == 0) parts_[id].insert(out / in);
    if (operation.name == "reduce_scatter" && in % out == 0) parts_[id].insert(in / out);
  }

  /// Completes the groups of one description, and marks those that may lack members.
  void complete_alike(const std::vector<std::uint32_t>& alike) {
    const std::vector<int> absent = job_.ranks_without_dump();
    if (alike.size() == 1) add_all(job_.groups[alike.front()], absent, parts_[alike.front()]);
    const auto size_of = [&](std::uint32_t id) { return job_.groups[id].members.size(); };
    const std::uint32_t largest = *std::ranges::max_element(alike, {}, size_of);
    for (const std::uint32_t id : alike) {
      if (size_of(id) < size_of(largest))
        complete_by_form(job_.groups[id], job_.groups[largest].members, members_of(alike));
    }
    const std::set<int> covered = members_of(alike);
    const bool are_all_covered =
        std::ranges::all_of(absent, [&](int rank) { return covered.contains(rank); });
    for (const std::uint32_t id : alike) {
      const bool is_of_one_size = !absent.empty() || !job_.groups[id].kind.empty();
      const bool is_small = size_of(id) == 1 || (is_of_one_size && size_of(id) < size_of(largest));
      const bool is_confirmed = parts_[id].contains(std::ssize(job_.groups[id].members));
      job_.groups[id].may_lack_members = is_small || is_refuted(id) || (!are_all_covered && !is_confirmed);
    }
  }

  std::set<int> members_of(const std::vector<std::uint32_t>& groups) const {
    std::set<int> members;
    for (const std::uint32_t id : groups)
      members.insert(job_.groups[id].members.begin(), job_.groups[id].members.end());
    return members;
  }

  /// Whether a call of a group says that it has another number of members.
  bool is_refuted(std::uint32_t id) const {
    const std::ptrdiff_t size = std::ssize(job_.groups[id].members);
    return places_[id] >= size || (!parts_[id].empty() && !parts_[id].contains(size));
  }

  static void add_all(JobGroup& group, const std::vector<int>& absent, const std::set<std::int64_t>& parts) {
    if (!parts.contains(std::ssize(group.members) + std::ssize(absent))) return;
    for (const int rank : absent)
      if (!group.has_member(rank)) group.members.push_back(rank);
    settle(group);
  }

  /// Adds ranks that are in no group of the description to a group, where this gives it the form of another
  /// one in one way only. A rank with a dump is one of them where a kind of Megatron has each rank once.
  void complete_by_form(JobGroup& group, const std::vector<int>& form, const std::set<int>& covered) const {
    const auto may_be_added = [&](int rank) {
      return !covered.contains(rank) && (!job_.dump_of(rank) || !group.kind.empty());
    };
    std::set<std::vector<int>> fitting;
    for (const int first : form) {
      std::vector<int> moved;
      for (const int rank : form) moved.push_back(rank + group.members.front() - first);
      const bool is_possible = std::ranges::all_of(moved, [&](int rank) {
        return rank >= 0 && rank < job_.world_size && (group.has_member(rank) || may_be_added(rank));
      });
      const bool has_all = std::ranges::all_of(
          group.members, [&](int rank) { return std::ranges::find(moved, rank) != moved.end(); });
      if (is_possible && has_all) fitting.insert(std::move(moved));
    }
    if (fitting.size() != 1) return;
    group.members = *fitting.begin();
    settle(group);
  }

  static void settle(JobGroup& group) {
    std::ranges::sort(group.members);
    group.is_ascending = true;
  }

  Job& job_;
  std::vector<std::set<std::int64_t>> parts_;  // of gathers and reduce_scatters, by group
  std::vector<int> places_;                    // the last place of a message, by group
};

}  // namespace

void complete_unlisted_members(Job& job) { Completer(job).complete(); }

}  // namespace verify
