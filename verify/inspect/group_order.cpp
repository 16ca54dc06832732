#include "verify/inspect/group_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
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
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    const Recording& recording = job.recordings[dump];
    for (std::size_t own = 0; own < recording.configured; ++own) {
      const RecordedGroup& group = recording.groups[own];
      const std::uint32_t index = job.groups_of[dump][own].group;
      if (index != kNoGroup && group.ranks != nullptr && is_number(group.name))
        names[index][group.name].push_back(recording.rank);
    }
  }
  std::erase_if(names, [](const auto& one) { return one.second.size() < 2; });
  if (names.empty()) return names;
  bool has_completed = false;
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    for (const RecordedCall& call : job.recordings[dump].calls) {
      if (call.state != CallState::completed) continue;
      has_completed = true;
      names.erase(job.group_of(dump, call));
    }
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

OddGroupOrder odd_group_order_of(const Job& job) {
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
  OddGroupOrder odd;
  for (const auto& [rank, count] : times)
    if (count == largest) odd.ranks.push_back(rank);
  if (odd.ranks.size() > std::max<std::size_t>(1, job.recordings.size() / 8)) return {};
  if (odd.ranks.empty()) return odd;
  const auto is_odd = [&](const auto& one) {
    return std::ranges::any_of(one.second, [&](const auto& name) {
      return std::ranges::find(name.second, odd.ranks.front()) != name.second.end();
    });
  };
  const auto& [group, names] = *std::ranges::find_if(differing, is_odd);
  std::vector<std::string> said;
  for (const auto& [name, ranks] : names)
    said.push_back(fmt::format("'{}' on {}", sim::printable_text(name.substr(0, 40)), ranks_words(ranks)));
  odd.text = fmt::format(
      "{} {} made groups in another order than the other members: {}, for example, is {}. "
      "PyTorch numbers the groups of a rank in their order, and a group whose members number it differently "
      "is "
      "never formed. "
      "This is consistent with calls of new_group() that are left out, made twice or made in another order "
      "there.",
      ranks_words(odd.ranks), odd.ranks.size() == 1 ? "has" : "have", group_words(job.groups[group]),
      fmt::join(said, " and "));
  return odd;
}

}  // namespace verify
