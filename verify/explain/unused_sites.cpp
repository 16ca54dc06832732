#include "verify/explain/unused_sites.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace verify {

namespace {

class UnusedSearch {
 public:
  explicit UnusedSearch(ChangedSites& changes) : changes_(changes) {}

  std::string text_of_zero() {
    const std::string sites = one_of(changes_.in_any_setting(that_reach_the_first(changes_.zero(), {}), {}));
    return sites.empty() ? "" : text_of_zeros(sites, "all ranks");
  }

  /// Behind a result that is no number nothing shows, and a site that seems unused need not be.
  std::string text_of_unused() {
    if (changes_.tensors().wrong.front().has_no_value()) return "";
    const std::string sites = one_of(changes_.in_any_setting(changes_.unused(), {}));
    return sites.empty() ? "" : fmt::format("the result of {} is used on no rank, or comes too late", sites);
  }

  /// Sites that give no number already: one more, or an element that is not written, changes nothing.
  std::string text_of_hidden() {
    if (!changes_.tensors().wrong.front().lacks_a_value()) return "";
    std::vector<ChangedSite> hidden;
    for (const ChangedSite& site : changes_.sites()) {
      if (site.is_kernel() || !site.kind.empty()) continue;
      const auto changes_nothing = [&](const char* change) {
        const auto changed = changes_.run_with(site, change);
        return changed != nullptr && changes_.changed_by(*changed).empty();
      };
      if (changes_nothing("nan") || changes_nothing("truncate=1")) hidden.push_back(site);
    }
    if (hidden.size() > kMostNamedSites) hidden = {first_called(hidden)};
    const std::string sites = one_of(hidden);
    return sites.empty()
               ? ""
               : fmt::format("one more element of {} that is no number, on all ranks, changes nothing",
                             sites);
  }

  /// The calls of one layer alone may be wrong, where those of a site are made in several.
  std::string text_of_one_layer() {
    constexpr std::int64_t kMostLayers = 4;
    for (ChangedSite site : changes_.sites()) {
      if (site.is_kernel() || !site.kind.empty() || !site.reaches_all) continue;
      std::map<std::int64_t, std::shared_ptr<const sim::RunReport>> of_layers;
      for (std::int64_t layer = 0; layer < kMostLayers; ++layer) {
        if (auto changed = changes_.run_with(site, "scale=3", {.layer = layer}))
          of_layers[layer] = std::move(changed);
      }
      if (of_layers.size() < 2) continue;
      for (const auto& [layer, changed] : of_layers) {
        site.changed = changed;
        const std::string said = text_of_layer(site, layer);
        if (!said.empty()) return said;
      }
    }
    return "";
  }

  /// The result of a call may be unused, or that of a kernel zero, on one rank alone.
  std::string text_of_one_rank() {
    std::vector<ChangedSite> late;  // what they give to a rank is padding
    for (int rank = 0; rank < changes_.run().setting.group_size; ++rank) {
      auto [unused, zero] = without_effect_on(rank);
      zero = that_reach_the_first(std::move(zero), {.ranks = {rank}});
      if (const std::string sites = one_of(changes_.in_any_setting(zero, {.ranks = {rank}})); !sites.empty())
        return text_of_zeros(sites, fmt::format("rank {}", rank));
      unused = changes_.in_any_setting(std::move(unused), {.ranks = {rank}});
      std::erase_if(unused, [&](const ChangedSite& site) {
        if (gets_a_value(site.site, rank)) return false;
        if (is_late(site) && !has_site(late, site.site)) late.push_back(site);
        return true;
      });
      if (const std::string sites = one_of(unused); !sites.empty())
        return fmt::format("the result of {} is not used on rank {}, or comes too late", sites, rank);
    }
    const std::string sites = one_of(late);
    return sites.empty()
               ? ""
               : fmt::format("the result of {} does not reach {}: it is not used there, or comes too late",
                             sites, changes_.tensors().wrong.front().output.name);
  }

 private:
  /// Returns the calls whose results are not used on a rank, and the kernels whose results are zero there.
  std::pair<std::vector<ChangedSite>, std::vector<ChangedSite>> without_effect_on(int rank) {
    std::vector<ChangedSite> unused, zero;
    for (const ChangedSite& site : changes_.sites()) {
      if (!site.kind.empty() || (!site.is_kernel() && !gets_a_result(site.site, rank))) continue;
      const auto changed = changes_.run_with(site, site.is_kernel() ? "zero" : "scale=3", {.ranks = {rank}});
      if (changed == nullptr || !changes_.changed_by(*changed).empty()) continue;
      if (site.is_kernel()) zero.push_back(site);
      if (!site.is_kernel() && changes_.is_unused(site, {.ranks = {rank}})) unused.push_back(site);
    }
    return {std::move(unused), std::move(zero)};
  }

  /// The experiment does not tell a result that is zero from one that nobody uses, nor whether a right run
  /// has it, too.
  static std::string text_of_zeros(const std::string& sites, const std::string& ranks) {
    return fmt::format("every result of {} is zero or is not used on {}: zeros in its place change no tensor",
                       sites, ranks);
  }

  /// Removes the kernels of which no result reaches the first wrong tensor, as an element that is no number
  /// would: what they give is no reason for it.
  std::vector<ChangedSite> that_reach_the_first(std::vector<ChangedSite> kernels, const FaultWhere& where) {
    const WrongTensor& first = changes_.tensors().wrong.front();
    if (first.has_no_value()) return kernels;
    std::erase_if(kernels, [&](const ChangedSite& kernel) {
      const auto changed = changes_.run_with(kernel, "nan", where);
      return changed != nullptr && !changes_.changed_by(*changed).contains(first.output.name);
    });
    return kernels;
  }

  std::string text_of_layer(const ChangedSite& site, std::int64_t layer) {
    const FaultWhere where{.layer = layer};
    const bool is_without_use = changes_.changed_by(*site.changed).empty() &&
                                changes_.is_unused(site, where) &&
                                !changes_.in_any_setting({site}, where).empty();
    if (is_without_use)
      return fmt::format("the result of {} in layer {} is used on no rank, or comes too late", site.name(),
                         layer);
    const Repair repair =
        find_repair(changes_.bench(), changes_.run(), changes_.tensors(), site, changes_.planted(), where);
    return repair.is_none() ? ""
                            : fmt::format("all is right if {} in layer {} on all ranks", repair.says, layer);
  }

  /// Whether a rank gets a result at a site: the root of a broadcast gets none.
  bool gets_a_result(const std::string& site, int rank) {
    const auto of_ranks = changes_.values().find(site);
    return of_ranks != changes_.values().end() && of_ranks->second[static_cast<std::size_t>(rank)].gets;
  }

  /// Whether a rank gets a result that is not zero, here or in another setting: a part of padding never is.
  bool gets_a_value(const std::string& site, int rank) {
    const auto has_one = [&](const ValuesBySite& values) {
      const auto of_ranks = values.find(site);
      return of_ranks != values.end() && of_ranks->second[static_cast<std::size_t>(rank)].gets_a_value;
    };
    if (has_one(changes_.values())) return true;
    const std::vector<CaseSetting>& others = changes_.other_settings();
    return std::ranges::any_of(others, [&](const CaseSetting& other) {
      return fit_run(changes_.bench(), changes_.run().the_case, other) != nullptr &&
             has_one(call_values(changes_.bench(), changes_.run().the_case, other, WatchedSide::program));
    });
  }

  /// Whether the result of a call reaches right tensors, and not the first wrong one.
  bool is_late(const ChangedSite& site) const {
    const ChangedSites::Names reached =
        site.changed == nullptr ? ChangedSites::Names() : changes_.changed_by(*site.changed);
    return !reached.empty() && !reached.contains(changes_.tensors().wrong.front().output.name);
  }

  /// Returns the site that the first rank calls first.
  ChangedSite first_called(const std::vector<ChangedSite>& sites) const {
    for (const sim::CallRecord& call : changes_.run().report.ranks.front().calls) {
      if (has_site(sites, call.site.name)) return {.site = call.site.name};
    }
    return sites.front();
  }

  ChangedSites& changes_;
};

}  // namespace

std::string text_of_zero_kernels(ChangedSites& changes) { return UnusedSearch(changes).text_of_zero(); }
std::string text_of_unused(ChangedSites& changes) { return UnusedSearch(changes).text_of_unused(); }
std::string text_of_hidden(ChangedSites& changes) { return UnusedSearch(changes).text_of_hidden(); }
std::string text_of_one_layer(ChangedSites& changes) { return UnusedSearch(changes).text_of_one_layer(); }
std::string text_of_one_rank(ChangedSites& changes) { return UnusedSearch(changes).text_of_one_rank(); }

}  // namespace verify
