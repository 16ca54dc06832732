#include "verify/campaign.h"

#include <algorithm>
#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>
#include <unordered_map>

namespace verify {

namespace {

CaseSetting drawn_setting(const Case& the_case, const CampaignRequest& request) {
  // A seed has nothing to shrink to; it is as large as an option may be.
  const auto any_seed = rc::gen::noShrink(rc::gen::inRange(0, 1 << 24));
  CaseSetting setting{.tp = *rc::gen::inRange(1, request.max_world + 1),
                      .dtype = *rc::gen::elementOf(request.dtypes),
                      .seed = static_cast<std::uint64_t>(*any_seed)};
  for (const Dimension& dimension : the_case.dimensions()) {
    setting.dimensions[dimension.name] = *rc::gen::inRange(dimension.least, dimension.most + 1);
  }
  return setting;
}

void run_row(const CampaignRequest& request, CampaignRow& row) {
  rc::detail::TestParams params;
  params.seed = request.seed;
  params.maxSuccess = static_cast<int>(request.runs);
  rc::detail::TestMetadata metadata;
  metadata.id = row.the_case->name() + " " + row.property->name;
  rc::detail::TestListenerAdapter listener;
  std::optional<Failure> last;  // that failed: after shrinking, the smallest
  // Given nothing to reproduce, it does not look for settings in the environment.
  const auto result = rc::detail::checkProperty(
      rc::detail::toProperty([&] {
        const CaseSetting setting = drawn_setting(*row.the_case, request);
        const Judgement judgement = row.property->judge(*row.the_case, setting);
        ++row.runs;
        row.slack = std::max(row.slack, judgement.slack);
        if (judgement.holds) return;
        last = {setting, judgement.detail};
        RC_FAIL(judgement.detail);
      }),
      metadata, params, listener, std::unordered_map<std::string, rc::detail::Reproduce>());
  rc::detail::SuccessResult success;
  if (!result.match(success)) row.failure = last;
}

}  // namespace

std::vector<CampaignRow> run_campaign(
    const CampaignRequest& request, const std::function<void(std::size_t, const CampaignRow&)>& before_row) {
  std::vector<CampaignRow> rows;
  for (const Case* the_case : request.cases) {
    for (const Property* property : request.properties) {
      rows.push_back({.the_case = the_case, .property = property});
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    before_row(i, rows[i]);
    run_row(request, rows[i]);
  }
  return rows;
}

}  // namespace verify
