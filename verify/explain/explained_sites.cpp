#include "verify/explain/explained_sites.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/explain/changed_sites.h"
#include "verify/explain/repeated_inputs.h"
#include "verify/explain/unused_sites.h"
#include "verify/output/phrases.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

// ---- repairs at sites
//
// Says which change at which site makes all tensors of a wrong run right (changed_sites.h): at one site,
// on all ranks, the wrong ones or one of each group; or at several sites of one operation.
//
// Exact   A repair makes all right with other seeds, too. Of several those are said that do so at larger
//         sizes.

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
      if (std::ranges::any_of(reached, is_wrong)) alike[{site.operations, site.places}].push_back(site);
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

/// Returns a phrase such as "all is right if the result of 'mlp.forward' is multiplied by 2 on all ranks", or
/// "" where there is no repair. All sites have been changed.
std::string text_of_repairs(ChangedSites& changes) { return RepairSearch(changes).said(); }

// ---- explained sites

class SiteSearch {
 public:
  SiteSearch(Bench& bench, const Case& the_case, const CaseSetting& setting, const sim::RunReport& report)
      : changes_(bench, the_case, setting, report) {}

  std::string said() {
    if (changes_.tensors().wrong.empty()) return "";
    changes_.change_all();
    std::string repairs = text_of_repairs(changes_);
    if (!repairs.empty()) return repairs;
    std::vector<std::string> phrases;
    const auto say = [&](std::string phrase) {
      if (!phrase.empty()) phrases.push_back(std::move(phrase));
    };
    say(text_of_zero_kernels(changes_));
    const bool has_zeros = !phrases.empty();
    say(text_of_repeated());
    say(text_of_zero_results());
    if (!has_zeros)
      say(text_of_unused(changes_));  // where a kernel gives only zeros, nothing uses what it gets
    say(text_of_hidden(changes_));
    if (phrases.empty() && !changes_.run().setting.text) say(text_of_one_layer(changes_));
    if (phrases.empty() && has_few_changes()) say(text_of_one_rank(changes_));
    if (phrases.empty()) say(text_of_reaching());
    return fmt::format("{}", fmt::join(phrases, "; "));
  }

 private:
  /// Calls that are given again what the call before them was given, where that may be what is wrong: a site
  /// whose result reaches less than what is wrong is not meant. A send has no result to change.
  std::string text_of_repeated() {
    const CaseSetting setting = changes_.largest_setting();
    // In the smallest setting different tokens may well leave the same. In a larger one, of as many calls,
    // even one number that is the same again is no chance, and neither are a few ids.
    const bool is_larger = !(setting == changes_.run().setting);
    const ComparedInputs compared =
        is_larger ? ComparedInputs{.least_numbers = 1, .least_ids = 4} : ComparedInputs{};
    std::vector<std::string> phrases;
    for (const RepeatedInput& repeated :
         repeated_inputs(changes_.bench(), changes_.run().the_case, setting, compared)) {
      const auto changed = std::ranges::find_if(changes_.sites(), [&](const auto& site) {
        return site.name() == ChangedSite{.site = repeated.site}.name();
      });
      if (changed != changes_.sites().end() && !changed->reaches_all) continue;
      if (!may_be_wrong(repeated, setting)) continue;
      phrases.push_back(fmt::format("call {} of '{}' on {} has the input of the call before it",
                                    repeated.call, repeated.site,
                                    text_of_ranks(repeated.ranks, changes_.run().report.ranks.size())));
    }
    return phrases.size() <= kMostNamedSites ? fmt::format("{}", fmt::join(phrases, "; ")) : "";
  }

  /// Right programs repeat inputs, too, as those that gather keys for the way forward and again for the way
  /// back. A call whose result reaches a right tensor is right. A send and a broadcast of ids, whose results
  /// cannot be changed, are told of a training alone, whose passes are compared apart.
  bool may_be_wrong(const RepeatedInput& repeated, const CaseSetting& setting) {
    const ChangedSites::Names reached =
        changes_.reached_at(setting, {.site = repeated.site, .kind = repeated.kind},
                            {.ranks = {repeated.ranks.begin(), repeated.ranks.end()}, .call = repeated.call});
    if (reached.empty()) return !changes_.run().the_case.stretches(setting).empty();
    return std::ranges::includes(changes_.wrong_at(setting), reached);
  }

  /// Calls whose results are zero on some ranks, although ranks give them something else. Of parts that
  /// differ from rank to rank, some may well be zero.
  std::string text_of_zero_results() {
    std::map<std::set<int>, std::vector<ChangedSite>> sites_of;
    for (const auto& [site, of_ranks] : changes_.values()) {
      std::set<int> zero;
      bool gives_a_value = false, gets_parts = false;
      std::size_t getting = 0;
      for (int rank = 0; rank < std::ssize(of_ranks); ++rank) {
        const CallValues& values = of_ranks[static_cast<std::size_t>(rank)];
        gives_a_value = gives_a_value || values.gives_a_value;
        gets_parts = gets_parts || values.gets_a_part;
        getting += values.gets ? 1 : 0;
        if (values.gets && !values.gets_a_value) zero.insert(rank);
      }
      const bool is_natural = gets_parts && zero.size() < getting;
      if (gives_a_value && !zero.empty() && !is_natural) sites_of[zero].push_back({.site = site});
    }
    std::vector<std::string> phrases;
    for (const auto& [ranks, sites] : sites_of) {
      const std::string named = one_of(sites);
      if (named.empty()) continue;
      phrases.push_back(fmt::format("every result of {} is zero on {}, and what ranks give to it is not",
                                    named, text_of_ranks(ranks, changes_.run().report.ranks.size())));
    }
    return phrases.size() <= kMostNamedSites ? fmt::format("{}", fmt::join(phrases, "; ")) : "";
  }

  /// Whether each site can be changed on each rank: a training has many of both.
  bool has_few_changes() const {
    constexpr std::ptrdiff_t kMostChanges = 200;
    const auto sites =
        std::ranges::count_if(changes_.sites(), [](const auto& site) { return site.kind.empty(); });
    return changes_.run().setting.group_size * sites <= kMostChanges;
  }

  /// Whether a call of a kernel reaches the first wrong tensor and nothing that is right. A call that reaches
  /// a right tensor, which may be its own result, is right.
  bool may_be_wrong(const ChangedSite& kernel) {
    constexpr std::int64_t kMostCalls = 16;
    ChangedSites::Names wrong;
    for (const WrongTensor& tensor : changes_.tensors().wrong) wrong.insert(tensor.output.name);
    for (std::int64_t call = 0; call < kMostCalls; ++call) {
      const auto changed = changes_.run_with(kernel, "zero", {.call = call});
      if (changed == nullptr) return false;  // there are no more calls
      const ChangedSites::Names reached = changes_.changed_by(*changed);
      const bool reaches_first = reached.contains(changes_.tensors().wrong.front().output.name);
      if (reaches_first && std::ranges::includes(wrong, reached)) return true;
    }
    return true;
  }

  /// Where too many sites cannot be told apart, the calls among them may be few.
  std::string text_of_reaching() {
    std::vector<ChangedSite> sites, calls;
    for (const ChangedSite& site : changes_.sites()) {
      if (!site.reaches_all || site.others != changes_.sites().front().others || has_site(sites, site.site))
        continue;
      if (site.is_kernel() && site.others > 0 && !may_be_wrong(site)) continue;
      sites.push_back(site);
      if (!site.is_kernel()) calls.push_back(site);
    }
    const bool are_few = sites.size() <= kMostNamedSites;
    const std::string named = one_of(are_few ? sites : calls);
    if (named.empty()) return "";
    return fmt::format("the wrong tensors are {} {} {}",
                       changes_.sites().front().others == 0 ? "those that" : "among those that", named,
                       are_few ? "reaches" : "and several kernels reach: what is wrong may lie between them");
  }

  ChangedSites changes_;
};

bool is_wrong(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = fit_run(bench, the_case, setting);
  return run != nullptr && !wrong_tensors(compared_run(bench, the_case, setting, *run)).wrong.empty();
}

/// An explanation does without what bends where something is wrong all the same.
std::string explain_without(Bench& bench, const Case& the_case, CaseSetting setting) {
  std::vector<std::string> without;
  for (const Dimension& dimension : the_case.dimensions()) {
    std::int64_t& value = setting.dimensions[dimension.name];
    if (!bends(dimension) || value == dimension.least) continue;
    const std::int64_t before = std::exchange(value, dimension.least);
    if (is_wrong(bench, the_case, setting)) {
      without.push_back(fmt::format("{} {}", dimension.name, value));
    } else {
      value = before;
    }
  }
  if (without.empty()) return "";
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const std::string said = SiteSearch(bench, the_case, setting, *run).said();
  return said.empty() ? "" : fmt::format("with {}, {}", fmt::join(without, " and "), said);
}

/// What is wrong in the smallest setting may be too little to tell anything.
std::string explain_at_larger(Bench& bench, const Case& the_case, const CaseSetting& setting,
                              const sim::RunReport& report) {
  for (const CaseSetting& larger : larger_settings(bench, the_case, setting, report)) {
    if (!is_wrong(bench, the_case, larger)) continue;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, larger);
    const std::string said = SiteSearch(bench, the_case, larger, *run).said();
    return said.empty() ? "" : fmt::format("at {}: {}", text_of_larger(larger, setting), said);
  }
  return "";
}

}  // namespace

std::string explain_sites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                          const sim::RunReport& report) {
  if (!setting.text) {
    std::string said = explain_without(bench, the_case, setting);
    if (!said.empty()) return said;
  }
  std::string said = SiteSearch(bench, the_case, setting, report).said();
  return said.empty() && !setting.text ? explain_at_larger(bench, the_case, setting, report) : said;
}

}  // namespace verify
