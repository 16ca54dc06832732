#include "verify/campaign/campaign.h"

#include <future>
#include <set>

#include "verify/campaign/campaign_work.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/properties/bench.h"

namespace verify {

std::vector<sim::DType> judged_dtypes(const CampaignRequest& request, const Case& the_case,
                                      const Property& property) {
  std::vector<sim::DType> dtypes;
  for (const sim::DType dtype : request.dtypes) {
    if (property.judges(the_case, dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

std::vector<CampaignRow> campaign_rows(const CampaignRequest& request) {
  std::vector<CampaignRow> rows;
  for (const Case* the_case : request.cases) {
    for (const Property* property : request.properties) {
      if (judged_dtypes(request, *the_case, *property).empty()) continue;
      rows.push_back({.the_case = the_case, .property = property});
    }
  }
  return rows;
}

void run_campaign(const CampaignRequest& request, std::span<Bench> benches, std::vector<CampaignRow>& rows,
                  const GoesOn& goes_on) {
  CampaignWork campaign(request, rows, goes_on);
  std::vector<std::future<void>> others;  // what a thread throws is thrown here
  for (Bench& bench : benches.subspan(1))
    others.push_back(std::async(std::launch::async, [&] { campaign.work(bench); }));
  campaign.work(benches.front());
  for (std::future<void>& other : others) other.get();
}

std::vector<SiteOperation> sites_of(const CampaignRequest& request, Bench& bench) {
  constexpr int kDraws = 32;
  std::set<SiteOperation> sites;
  for (const Case* one : request.cases) {
    DrawnSettings settings(*one, "sites", {sim::DType::field}, request.seed, request.max_world);
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::shared_ptr<const sim::RunReport> run = bench.run(*one, settings.next());
      for (const sim::RankReport& rank : run->ranks) {
        for (const sim::CallRecord& call : rank.calls) {
          if (call.group->size() > 1) sites.insert({call.site.name, call.operation});
        }
        for (const sim::Published& tensor : rank.published) sites.insert({"tensor." + tensor.name});
      }
    }
  }
  return {sites.begin(), sites.end()};
}

}  // namespace verify
