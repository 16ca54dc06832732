#include "verify/exam/power.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "verify/campaign/campaign.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/properties/bench.h"
#include "verify/properties/call_values.h"

namespace verify {

namespace {

constexpr int kDrawsOfPower = 24;
constexpr std::size_t kMostSettingsOfASite = 8;
/// The properties that compare values. The others see no error of a value.
constexpr std::array kPropertiesOfValues = {"serial", "agree", "adjoint", "twins", "resumes", "special"};
constexpr std::string_view kTensorSite = "tensor.";

/// The settings of one dtype in which a case reaches each of its sites.
using SettingsOfSites = std::map<std::string, std::vector<CaseSetting>>;

void add_setting(SettingsOfSites& sites, const std::string& site, const CaseSetting& setting) {
  std::vector<CaseSetting>& settings = sites[site];
  const bool is_new = settings.empty() || !(settings.back() == setting);
  if (is_new && settings.size() < kMostSettingsOfASite) settings.push_back(setting);
}

SettingsOfSites settings_of_sites(const Case& the_case, sim::DType dtype, const CampaignRequest& request,
                                  Bench& bench) {
  SettingsOfSites sites;
  DrawnSettings drawn(the_case, "power", {dtype}, request.seed, request.max_world);
  bench.plant({});
  for (int draws = 0; draws < kDrawsOfPower;) {
    const CaseSetting setting = drawn.next();
    if (setting.group_size * setting.replicas == 1) continue;  // no call has a fault
    ++draws;
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
    for (const sim::RankReport& rank : run->ranks) {
      for (const sim::CallRecord& call : rank.calls) {
        if (gives_data(call)) add_setting(sites, std::string(call.site.name), setting);
      }
      for (const sim::Published& tensor : rank.published)
        add_setting(sites, std::string(kTensorSite) + tensor.name, setting);
    }
  }
  return sites;
}

/// The search at one site, in one dtype.
class PowerSearch {
 public:
  PowerSearch(const Case& the_case, std::string site, Bench& bench)
      : the_case_(the_case), site_(std::move(site)), bench_(bench) {}

  /// Returns the largest k that the property catches in any of the settings; none if it catches no k.
  std::optional<int> largest(const Property& property, const std::vector<CaseSetting>& settings) const {
    int caught = 0;
    for (const CaseSetting& setting : settings) {
      if (caught == kMostBitsOfPower || !catches(property, setting, caught + 1)) continue;
      int missed = kMostBitsOfPower + 1;
      ++caught;
      while (missed - caught > 1) {
        const int middle = missed == kMostBitsOfPower + 1 ? kMostBitsOfPower : (caught + missed) / 2;
        (catches(property, setting, middle) ? caught : missed) = middle;
      }
    }
    return caught == 0 ? std::nullopt : std::optional(caught);
  }

 private:
  bool catches(const Property& property, const CaseSetting& setting, int bits) const {
    const bool is_of_one = std::string_view(property.name) == "agree";
    const char* where = !is_of_one ? "" : site_.starts_with(kTensorSite) ? "@rank=1" : "@place=1";
    bench_.plant({parsed_fault(fmt::format("{}:scale=1+2^-{}{}", site_, bits, where))});
    return !property.judge(bench_, the_case_, setting).holds;
  }

  const Case& the_case_;
  std::string site_;
  Bench& bench_;
};

}  // namespace

Power power_of(const CampaignRequest& request, std::span<Bench> benches, const ExamGoesOn& goes_on) {
  constexpr std::size_t kDTypes = kDTypesOfPower.size();
  std::vector<SettingsOfSites> sites(request.cases.size() * kDTypes);
  over_benches(sites.size(), benches, [&](Bench& bench, std::size_t i) {
    sites[i] = settings_of_sites(*request.cases[i / kDTypes], kDTypesOfPower[i % kDTypes], request, bench);
  });
  Power power;
  struct Item {
    std::size_t sites;  // its place in `sites`, which says the case and the dtype
    std::string site;
    std::size_t first_row;
  };
  std::vector<Item> items;
  std::map<std::pair<std::size_t, std::string>, std::size_t> first_rows;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    for (const auto& [site, settings] : sites[i]) {
      const auto [known, is_new] = first_rows.try_emplace({i / kDTypes, site}, power.rows.size());
      items.push_back({i, site, known->second});
      if (!is_new) continue;
      for (const char* name : kPropertiesOfValues)
        power.rows.push_back(
            {.the_case = request.cases[i / kDTypes], .site = site, .property = &property_named(name)});
    }
  }
  const auto case_of = [&](std::size_t i) -> const Case& { return *request.cases[items[i].sites / kDTypes]; };
  const auto name_of = [&](std::size_t i) { return case_of(i).name() + " " + items[i].site; };
  power.is_whole = over_items(items.size(), benches, goes_on, name_of, [&](Bench& bench, std::size_t i) {
    const Item& item = items[i];
    const PowerSearch search(case_of(i), item.site, bench);
    for (std::size_t p = 0; p < kPropertiesOfValues.size(); ++p) {
      PowerRow& row = power.rows[item.first_row + p];
      const sim::DType dtype = kDTypesOfPower[item.sites % kDTypes];
      if (!row.property->judges(case_of(i), dtype)) continue;
      row.bits[item.sites % kDTypes] = search.largest(*row.property, sites[item.sites].at(item.site));
    }
    bench.plant({});
  });
  std::erase_if(power.rows, [](const PowerRow& row) {
    return std::ranges::none_of(row.bits, [](const auto& bits) { return bits.has_value(); });
  });
  return power;
}

}  // namespace verify
