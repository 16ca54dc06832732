#include "verify/campaign/reached_sites.h"

#include <set>

#include "verify/campaign/drawn_settings.h"

namespace verify {

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
