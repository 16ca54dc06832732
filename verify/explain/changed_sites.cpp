#include "verify/explain/changed_sites.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

#include "verify/explain/larger_settings.h"
#include "verify/faults/faulty_device.h"
#include "verify/properties/given_data.h"

namespace verify {

namespace {

/// Adds the calls of one kind of group at a site to those of another, or of none yet.
void add_calls(ChangedSite& site, const ChangedSite& of_kind) {
  site.site = of_kind.site;
  site.operations.insert(of_kind.operations.begin(), of_kind.operations.end());
  site.places = std::max(site.places, of_kind.places);
}

/// The sites whose results a change may reach: all calls of a site, and those of each kind of group where it
/// has several, as gradients of experts are reduced over other replicas than others. Of a training on text,
/// each run of which takes long, only all calls of a site are changed.
std::vector<ChangedSite> sites_of_run(const Bench& bench, const CaseSetting& setting,
                                      const sim::RunReport& report) {
  std::map<std::string, std::map<std::string, ChangedSite>> calls;  // by site and kind
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      if (!gives_data(call)) continue;
      const std::string& kind = call.group->kind;
      add_calls(calls[call.site.name][kind],
                {.site = call.site.name, .operations = {call.operation}, .places = call.group->size()});
    }
  }
  std::vector<ChangedSite> all;
  for (const auto& [site, of_kinds] : calls) {
    all.emplace_back();
    for (const auto& [kind, of_kind] : of_kinds) add_calls(all.back(), of_kind);
    if (of_kinds.size() == 1 || setting.text) continue;
    for (const auto& [kind, of_kind] : of_kinds) {
      all.push_back(of_kind);
      all.back().kind = kind;
    }
  }
  if (setting.text || !bench.takes_faults_of_kernels()) return all;
  for (const std::string& kernel : kernel_names()) all.push_back({.site = kernel});
  return all;
}

/// Returns the tensors that differ between two runs on some rank.
ChangedSites::Names differing(const sim::RunReport& one, const sim::RunReport& other) {
  ChangedSites::Names names;
  for (const sim::RankReport& rank : one.ranks) {
    for (const sim::Published& tensor : rank.published) {
      const sim::Published* twin = other.find(rank.rank, tensor.name);
      if (twin == nullptr || !(*twin == tensor)) names.insert(tensor.name);
    }
  }
  return names;
}

}  // namespace

std::string one_of(const std::vector<ChangedSite>& sites) {
  if (sites.empty() || sites.size() > kMostNamedSites) return "";
  std::vector<std::string> names;
  for (const ChangedSite& site : sites) names.push_back(site.name());
  return fmt::format("{}", fmt::join(names, " or "));
}

bool has_site(const std::vector<ChangedSite>& sites, const std::string& site) {
  return std::any_of(sites.begin(), sites.end(), [&](const ChangedSite& one) { return one.site == site; });
}

ChangedSites::ChangedSites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                           const sim::RunReport& report)
    : bench_(bench),
      planted_(bench.faults()),
      run_(compared_run(bench, the_case, setting, report)),
      tensors_(wrong_tensors(run_)) {}

Bench& ChangedSites::bench() {
  bench_.plant(planted_);
  return bench_;
}

std::shared_ptr<const sim::RunReport> ChangedSites::run_with(const ChangedSite& site, const char* change,
                                                             const FaultWhere& where) {
  const std::shared_ptr<const sim::RunReport> run = changed_run(run_.setting, site, change, where);
  return run != nullptr && run->ok() ? run : nullptr;
}

/// Returns the run with a change, which may break a contract; or null, where no call has it.
std::shared_ptr<const sim::RunReport> ChangedSites::changed_run(const CaseSetting& setting,
                                                                const ChangedSite& site, const char* change,
                                                                const FaultWhere& where) {
  std::vector<Fault> faults = planted_;
  faults.push_back(parsed_fault(site.site + ":" + change));  // behind the others, nearest to the group
  faults.back().where = where;
  faults.back().where.group = site.kind;
  const std::shared_ptr<std::atomic<std::int64_t>> met = faults.back().met;
  bench_.plant(std::move(faults));
  const std::shared_ptr<const sim::RunReport> run = bench_.run(run_.the_case, setting);
  return *met > 0 ? run : nullptr;
}

ChangedSites::Names ChangedSites::changed_by(const sim::RunReport& changed) const {
  return differing(run_.report, changed);
}

void ChangedSites::take_changed(ChangedSite site, bool reaches_none) {
  if (site.is_kernel()) {
    if (reaches_none) zero_.push_back(site);
  } else {
    if (reaches_none && !has_site(unused_, site.site) && is_unused(site, {})) unused_.push_back(site);
    // A block that should have gone to another rank may be all that is wrong, and have no multiple.
    if (!site.reaches_all) {
      unscaled_.push_back(site);
      unscaled_.back().changed = nullptr;
    }
  }
  sites_.push_back(std::move(site));
}

void ChangedSites::change_all() {
  Names wrong;
  for (const WrongTensor& tensor : tensors_.wrong) {
    if (!tensor.has_no_value()) wrong.insert(tensor.output.name);
  }
  for (ChangedSite& site : sites_of_run(bench_, run_.setting, run_.report)) {
    site.changed = run_with(site, site.is_kernel() ? "zero" : "scale=3");
    if (site.changed == nullptr) {
      if (!site.is_kernel()) unscaled_.push_back(std::move(site));
      continue;
    }
    const Names reached = changed_by(*site.changed);
    site.reaches_all =
        !wrong.empty() && std::includes(reached.begin(), reached.end(), wrong.begin(), wrong.end());
    site.others = reached.size() - std::min(reached.size(), wrong.size());
    take_changed(std::move(site), reached.empty());
  }
  std::stable_sort(sites_.begin(), sites_.end(), [](const ChangedSite& a, const ChangedSite& b) {
    return a.reaches_all != b.reaches_all ? a.reaches_all : a.reaches_all && a.others < b.others;
  });
}

bool ChangedSites::is_unused(const ChangedSite& site, const FaultWhere& where) {
  const auto changed = run_with(site, "nan", where);
  return changed != nullptr && changed_by(*changed).empty();
}

const std::vector<CaseSetting>& ChangedSites::other_settings() {
  constexpr std::uint64_t kSeeds = 8;
  if (!other_settings_.empty()) return other_settings_;
  other_settings_ = larger_settings(bench(), run_.the_case, run_.setting, run_.report);
  for (std::uint64_t more = 1; more <= kSeeds; ++more) {
    other_settings_.push_back(run_.setting);
    other_settings_.back().seed += more;
  }
  return other_settings_;
}

CaseSetting ChangedSites::largest_setting() {
  if (run_.setting.text) return run_.setting;
  const CaseSetting& largest = other_settings().front();
  return largest.seed == run_.setting.seed ? largest : run_.setting;
}

std::vector<ChangedSite> ChangedSites::in_any_setting(std::vector<ChangedSite> sites,
                                                      const FaultWhere& where) {
  if (run_.setting.text || sites.empty()) return sites;
  for (const CaseSetting& other : other_settings()) {
    if (sites.empty()) break;
    const std::shared_ptr<const sim::RunReport> before = bench().run(run_.the_case, other);
    if (!before->ok()) continue;
    std::erase_if(sites, [&](const ChangedSite& site) {
      const auto matters = [&](const char* change) {
        const auto changed = changed_run(other, site, change, where);
        return changed != nullptr && (!changed->ok() || !differing(*before, *changed).empty());
      };
      // Of ids none is no number, and a multiple may be refused; and of zeros no multiple differs.
      return site.is_kernel() ? matters("zero") : matters("scale=3") || matters("nan");
    });
  }
  return sites;
}

const ValuesBySite& ChangedSites::values() {
  if (values_.empty()) {
    values_ = call_values(bench(), run_.the_case, run_.setting, WatchedSide::program);
  }
  return values_;
}

}  // namespace verify
