#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/disagreements.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The names of a group, each with the ranks that have it.
using Names = std::map<std::string, std::vector<int>>;

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

/// The groups whose members have different names of them, and in which no call is known to have completed.
std::map<std::uint32_t, Names> differing_names(const Job& job) {
  std::map<std::uint32_t, Names> names;
  for (const std::size_t dump : job.dumps()) {
    const Recording& recording = job.recordings[dump];
    for (std::size_t own = 0; own < recording.configured; ++own) {
      const RecordedGroup& group = recording.groups[own];
      if (group.ranks != nullptr && is_number(group.name))
        names[job.groups_of[dump][own].group][group.name].push_back(recording.rank);
    }
  }
  std::erase_if(names, [](const auto& one) { return one.second.size() < 2; });
  if (names.empty()) return names;
  bool has_completed = false;
  for (const JobCall call : job.calls()) {
    if (!call.is_completed()) continue;
    has_completed = true;
    names.erase(call.group_id());
  }
  if (!has_completed) names.clear();  // dumps of active calls do not tell which groups were formed
  return names;
}

/// Returns the name that more members of a group have than any other one; null where there is none.
const std::vector<int>* majority_of(const Names& names) {
  const auto smaller = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const auto most = std::ranges::max_element(names, smaller);
  const auto as_many =
      std::ranges::count_if(names, [&](const auto& one) { return one.second.size() == most->second.size(); });
  return as_many == 1 ? &most->second : nullptr;
}

}  // namespace

InspectionFinding odd_group_order_of(const Job& job) {
  const std::map<std::uint32_t, Names> differing = differing_names(job);
  std::map<int, int> times;  // by rank: groups of which it has another name
  for (const auto& [group, names] : differing) {
    const std::vector<int>* const most = majority_of(names);
    for (const auto& [name, ranks] : names) {
      if (&ranks == most) continue;
      for (const int rank : ranks) ++times[rank];
    }
  }
  int largest = 0;
  for (const auto& [rank, count] : times) largest = std::max(largest, count);
  InspectionFinding odd{.what = "groups"};
  for (const auto& [rank, count] : times)
    if (count == largest) odd.ranks.push_back(rank);
  if (odd.ranks.empty()) return odd;
  if (odd.ranks.size() > std::max<std::size_t>(2, job.recordings.size() / 8)) return {};
  const auto is_odd = [&](const auto& one) {
    return std::ranges::any_of(one.second, [&](const auto& name) {
      return std::ranges::find(name.second, odd.ranks.front()) != name.second.end();
    });
  };
  const auto& [group, names] = *std::ranges::find_if(differing, is_odd);
  const bool is_of_others = std::ranges::any_of(job.groups[group].members, [&](int member) {
    return std::ranges::find(odd.ranks, member) == odd.ranks.end();
  });
  std::vector<std::string> said;
  for (const auto& [name, ranks] : names)
    said.push_back(fmt::format("'{}' on {}", sim::printable_text(name.substr(0, 40)), ranks_words(ranks)));
  odd.text = sentence("found_order",
                      {{"ranks", odd.ranks},
                       {"order", is_of_others ? "another order than the other members" : "different orders"},
                       {"group", group_words(job.groups[group])},
                       {"names", fmt::format("{}", fmt::join(said, " and "))}});
  return odd;
}

}  // namespace verify
