#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

constexpr std::size_t kMostContradictions = 100;

class ContradictionFinder {
 public:
  explicit ContradictionFinder(const Job& job) : job_(job) {}

  std::vector<InspectionFinding> find() {
    std::map<std::size_t, std::vector<int>> worlds;  // by the size of the default group
    std::map<std::string, std::vector<int>> versions;
    for (const std::size_t dump : job_.dumps()) {
      const Recording& recording = job_.recordings[dump];
      versions[recording.version].push_back(recording.rank);
      for (std::size_t own = 0; own < recording.groups.size(); ++own) {
        const RecordedGroup& group = recording.groups[own];
        if (group.ranks == nullptr) continue;
        if (group.description == "default_pg") worlds[group.ranks->size()].push_back(recording.rank);
        judge_members(dump, own);
      }
    }
    std::vector<std::string> sizes, names;
    for (const auto& [size, ranks] : worlds)
      sizes.push_back(fmt::format("{} of {}", counted(std::ssize(ranks), "dump"),
                                  counted(static_cast<std::int64_t>(size), "rank")));
    for (const auto& [version, ranks] : versions)
      names.push_back(
          fmt::format("'{}' on {}", sim::printable_text(version.substr(0, 20)), ranks_words(ranks)));
    if (worlds.size() > 1) {
      const auto &smallest = worlds.begin()->second, &largest = worlds.rbegin()->second;
      contradict("world", sentence("found_worlds", {{"parts", fmt::format("{}", fmt::join(sizes, ", "))}}),
                 smallest.size() < largest.size() ? smallest : largest);
    }
    if (versions.size() > 1)
      contradict("version",
                 sentence("found_versions", {{"parts", fmt::format("{}", fmt::join(names, ", "))}}), {});
    return std::move(found_);
  }

 private:
  void contradict(std::string what, std::string text, std::vector<int> ranks) {
    if (found_.size() < kMostContradictions)
      found_.push_back({std::move(what), std::move(text), std::move(ranks)});
  }

  /// Holds what a rank says of a group against what the other members say.
  void judge_members(std::size_t dump, std::size_t own) {
    const int rank = job_.rank_of(dump);
    const std::uint32_t id = job_.groups_of[dump][own].group;
    const JobGroup& group = job_.groups[id];
    if (!group.has_member(rank)) {
      contradict(
          "rank",
          sentence("found_rank", {{"rank", rank}, {"group", shown(group)}, {"members", group.members}}),
          {rank});
      return;
    }
    // gloo's own recorder names no group, and has one entry for all of them.
    if (group.name.empty() || !is_first_member_with(id, rank)) return;
    for (const int member : group.members) {
      const auto other = job_.dump_of(member);
      if (!other || job_.find(*other, id) != nullptr) continue;
      const std::vector<int>* const theirs = ranks_of_namesake(*other, job_.recordings[dump].groups[own]);
      const bool is_told = theirs != nullptr && group.is_default() &&
                           theirs->size() != group.members.size();  // as worlds of different sizes
      if (theirs == nullptr || is_told) continue;
      contradict("members",
                 sentence("found_members", {{"rank", rank},
                                            {"members", group.members},
                                            {"group", shown(group)},
                                            {"other", member},
                                            {"others", *theirs}}),
                 {rank, member});
    }
  }

  bool is_first_member_with(std::uint32_t id, int rank) const {
    const auto has_it = [&](int member) {
      const auto dump = job_.dump_of(member);
      return dump && job_.find(*dump, id) != nullptr;
    };
    const std::vector<int>& members = job_.groups[id].members;
    return *std::ranges::find_if(members, has_it) == rank;
  }

  static std::string shown(const JobGroup& group) {
    return fmt::format("'{}' ({})", sim::printable_text(group.name.substr(0, 40)),
                       sim::printable_text(group.description.substr(0, 60)));
  }

  /// Returns the ranks of a group of the same name and description that a dump has with other ranks; null
  /// without one.
  const std::vector<int>* ranks_of_namesake(std::size_t dump, const RecordedGroup& group) const {
    for (const RecordedGroup& other : job_.recordings[dump].groups) {
      if (other.name == group.name && other.description == group.description && other.ranks != nullptr &&
          *other.ranks != *group.ranks)
        return other.ranks.get();
    }
    return nullptr;
  }

  const Job& job_;
  std::vector<InspectionFinding> found_;
};

}  // namespace

std::vector<InspectionFinding> contradictions_of(const Job& job) { return ContradictionFinder(job).find(); }

}  // namespace verify
