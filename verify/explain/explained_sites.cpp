#include "verify/explain/explained_sites.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "verify/explain/changed_sites.h"
#include "verify/explain/larger_settings.h"
#include "verify/explain/repaired_sites.h"
#include "verify/explain/repeated_inputs.h"
#include "verify/explain/unused_sites.h"

namespace verify {

namespace {

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
    say(text_of_repeated());
    say(text_of_zero_kernels(changes_));
    const bool has_zeros = !phrases.empty();
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
      const auto changed = std::find_if(
          changes_.sites().begin(), changes_.sites().end(),
          [&](const auto& site) { return site.name() == ChangedSite{.site = repeated.site}.name(); });
      if (changed != changes_.sites().end() && !changed->reaches_all) continue;
      phrases.push_back(fmt::format("call {} of '{}' on {} has the input of the call before it",
                                    repeated.call, repeated.site,
                                    text_of_ranks(repeated.ranks, changes_.run().report.ranks.size())));
    }
    return phrases.size() <= kMostNamedSites ? fmt::format("{}", fmt::join(phrases, "; ")) : "";
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
    const auto sites = std::count_if(changes_.sites().begin(), changes_.sites().end(),
                                     [](const auto& site) { return site.kind.empty(); });
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
      if (reaches_first && std::includes(wrong.begin(), wrong.end(), reached.begin(), reached.end()))
        return true;
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
