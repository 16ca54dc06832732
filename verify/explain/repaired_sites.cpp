#include "verify/explain/repaired_sites.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "verify/output/phrases.h"

namespace verify {

namespace {

/// A repair, with the ranks on which it makes all right.
struct RepairOnRanks {
  std::string text;
  std::vector<Fault> faults;  // on top of those that are planted
};

class RepairSearch {
 public:
  explicit RepairSearch(ChangedSites& changes) : changes_(changes) {
    const WrongTensor& first = changes.tensors().wrong.front();
    if (first.is_of_some_ranks()) ranks_ = first.wrong_ranks;
  }

  /// Tries the sites that reach all that is wrong, and every kernel, because a kernel that is made zero may
  /// reach less than one that is changed in another way. Several changes may make all right.
  std::string said() {
    std::vector<RepairOnRanks> repairs;
    std::vector<ChangedSite> repaired;
    for (const ChangedSite& site : changes_.sites()) {
      if ((!site.reaches_all && !site.is_kernel()) || has_site(repaired, site.site)) continue;
      RepairOnRanks found = repair(site);
      if (found.text.empty()) continue;
      repairs.push_back(std::move(found));
      repaired.push_back(site);
      if (repairs.size() == kMostNamedSites) break;
    }
    for (const ChangedSite& site : changes_.unscaled()) {
      if (!repairs.empty()) break;
      RepairOnRanks found = repair_on_all_ranks(site);
      if (!found.text.empty()) repairs.push_back(std::move(found));
    }
    if (repairs.empty() && !changes_.run().setting.text) repairs = shared_repairs();
    keep_those_that_hold(repairs);
    std::vector<std::string> texts;
    for (const RepairOnRanks& one : repairs) texts.push_back(one.text);
    return fmt::format("{}", fmt::join(texts, ", and also "));
  }

 private:
  /// Tries the same change at all sites of one operation: a function that they share may be wrong.
  std::vector<RepairOnRanks> shared_repairs() {
    constexpr std::size_t kMostShared = 12;
    ChangedSites::Names wrong;
    for (const WrongTensor& tensor : changes_.tensors().wrong) wrong.insert(tensor.output.name);
    std::map<std::pair<std::set<sim::Operation>, int>, std::vector<ChangedSite>> alike;
    for (const ChangedSite& site : changes_.sites()) {
      if (site.is_kernel() || !site.kind.empty()) continue;
      const ChangedSites::Names reached = changes_.changed_by(*site.changed);
      const auto is_wrong = [&](const std::string& name) { return wrong.contains(name); };
      if (std::any_of(reached.begin(), reached.end(), is_wrong))
        alike[{site.operations, site.places}].push_back(site);
    }
    for (const auto& [kind, sites] : alike) {
      if (sites.size() < 2 || sites.size() > kMostShared) continue;
      const Repair found =
          find_shared_repair(changes_.bench(), changes_.run(), changes_.tensors(), sites, changes_.planted());
      if (!found.is_none())
        return {{fmt::format("all is right if {} on all ranks", found.says), found.faults}};
    }
    return {};
  }

  /// Keeps the repairs that make all right with other seeds, too, and of several those that do so at larger
  /// sizes, on which the number of a repair may depend.
  void keep_those_that_hold(std::vector<RepairOnRanks>& repairs) {
    constexpr int kEnough = 3;
    if (changes_.run().setting.text) return;
    int seeds = 0;
    for (const CaseSetting& other : changes_.other_settings()) {
      const bool is_of_seed = other.seed != changes_.run().setting.seed;
      if (repairs.empty() || seeds == kEnough) return;
      if (repairs.size() == 1 && !is_of_seed) continue;
      const std::shared_ptr<const sim::RunReport> report =
          fit_run(changes_.bench(), changes_.run().the_case, other);
      if (report == nullptr) continue;
      const ComparedRun run = compared_run(changes_.bench(), changes_.run().the_case, other, *report);
      if (wrong_tensors(run).wrong.empty()) continue;
      std::vector<RepairOnRanks> holding;
      for (const RepairOnRanks& one : repairs) {
        if (makes_all_right(changes_.bench(), run, changes_.planted(), one.faults)) holding.push_back(one);
      }
      if (is_of_seed || !holding.empty()) repairs = std::move(holding);
      if (is_of_seed) ++seeds;
    }
  }

  /// Changes all ranks first, and then the wrong ones alone, where others are right, or one of each group.
  RepairOnRanks repair(const ChangedSite& site) {
    RepairOnRanks found = repair_on_all_ranks(site);
    if (!found.text.empty() || site.is_kernel()) return found;
    if (ranks_.empty())
      return changes_.run().setting.text ? RepairOnRanks()
                                         : repair_at_one_place(site);  // of a text each takes long
    const Repair of_wrong = repair_at(site, {.ranks = {ranks_.begin(), ranks_.end()}});
    if (of_wrong.is_none()) return {};
    return {fmt::format("all is right if {} on {}", of_wrong.says,
                        text_of_ranks(ranks_, changes_.run().report.ranks.size())),
            of_wrong.faults};
  }

  RepairOnRanks repair_on_all_ranks(const ChangedSite& site) {
    const Repair found =
        find_repair(changes_.bench(), changes_.run(), changes_.tensors(), site, changes_.planted(), {});
    if (found.is_none()) return {};
    return {fmt::format("all is right if {} on all ranks", found.says), found.faults};
  }

  Repair repair_at(ChangedSite site, const FaultWhere& where) {
    site.changed = changes_.run_with(site, "scale=3", where);
    return site.changed == nullptr ? Repair()
                                   : find_repair(changes_.bench(), changes_.run(), changes_.tensors(), site,
                                                 changes_.planted(), where);
  }

  /// What is summed afterwards may be repaired on any rank of the group: all that would do are named.
  RepairOnRanks repair_at_one_place(const ChangedSite& site) {
    std::vector<std::pair<Repair, std::vector<int>>> repairs;  // each with its places
    for (int place = 0; place < site.places; ++place) {
      Repair found = repair_at(site, {.place = place});
      if (found.is_none()) continue;
      if (repairs.empty() || repairs.back().first.says != found.says)
        repairs.push_back({std::move(found), {}});
      repairs.back().second.push_back(place);
    }
    RepairOnRanks all;
    for (const auto& [found, places] : repairs) {
      all.text += fmt::format("{} if {} on rank {} of each group", all.text.empty() ? "all is right" : ", or",
                              found.says, fmt::join(places, " or "));
      if (all.faults.empty()) all.faults = found.faults;
    }
    return all;
  }

  ChangedSites& changes_;
  std::set<int> ranks_;  // the wrong ones, where others are right
};

}  // namespace

std::string text_of_repairs(ChangedSites& changes) { return RepairSearch(changes).said(); }

}  // namespace verify
