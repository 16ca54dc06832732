#include "verify/properties/campaign.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>
#include <unordered_map>

#include "sim/base/check.h"
#include "verify/properties/explanation.h"

namespace verify {

namespace {

/// Returns the requested dtypes in which the property judges the case.
std::vector<sim::DType> dtypes_of(const CampaignRequest& request, const Case& the_case,
                                  const Property& property) {
  std::vector<sim::DType> dtypes;
  for (const sim::DType dtype : request.dtypes) {
    if (property.judges(the_case, dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

CaseSetting drawn_setting(const Case& the_case, const CampaignRequest& request,
                          const std::vector<sim::DType>& dtypes) {
  // Shrinking a seed would be of no use. A seed is at most as large as the option allows.
  const auto any_seed = rc::gen::noShrink(rc::gen::inRange(0, 1 << 24));
  CaseSetting setting{.group_size = *rc::gen::inRange(1, request.max_world + 1),
                      .dtype = *rc::gen::elementOf(dtypes),
                      .seed = static_cast<std::uint64_t>(*any_seed)};
  setting.ranks = the_case.ranks();
  if (2 * setting.group_size <= request.max_world && setting.ranks == Ranks::tensor_parallel)
    setting.replicas = *rc::gen::inRange(1, 3);
  for (const Dimension& dimension : the_case.dimensions()) {
    setting.dimensions[dimension.name] = *rc::gen::inRange(dimension.least, dimension.most + 1);
  }
  return setting;
}

void run_row(const CampaignRequest& request, Bench& bench,
             const std::function<void(const CampaignRow&)>& before_run, CampaignRow& row) {
  const std::vector<sim::DType> dtypes = dtypes_of(request, *row.the_case, *row.property);
  rc::detail::TestParams params;
  params.seed = request.seed;
  params.maxSuccess = static_cast<int>(request.runs);
  rc::detail::TestMetadata metadata;
  metadata.id = row.the_case->name() + " " + row.property->name;
  rc::detail::TestListenerAdapter listener;
  std::optional<Failure> last;  // the last failure, which is the smallest one after shrinking
  // The empty map of settings to reproduce keeps RapidCheck from looking for them in the environment.
  const auto result = rc::detail::checkProperty(
      rc::detail::toProperty([&] {
        before_run(row);
        const CaseSetting setting = drawn_setting(*row.the_case, request, dtypes);
        Judgement judgement;
        bool threw = false;
        try {
          judgement = row.property->judge(bench, *row.the_case, setting);
        } catch (const std::exception& error) {
          judgement = {.holds = false, .detail = fmt::format("the case threw: {}", error.what())};
          threw = true;
        }
        ++row.runs;
        row.slack = std::max(row.slack, judgement.slack);
        row.runs_with_unbounded += judgement.has_unbounded ? 1 : 0;
        if (judgement.holds) return;
        last = Failure{setting, judgement.detail, "", threw, judgement.finding};
        RC_FAIL(judgement.detail);
      }),
      metadata, params, listener, std::unordered_map<std::string, rc::detail::Reproduce>());
  rc::detail::SuccessResult success;
  if (result.match(success)) return;
  CHECK(last.has_value());  // only a judgement can fail the property
  if (!last->threw) last->explanation = explanation(bench, *row.the_case, *row.property, last->setting);
  row.failure = last;
}

}  // namespace

std::vector<CampaignRow> campaign_rows(const CampaignRequest& request) {
  std::vector<CampaignRow> rows;
  for (const Case* the_case : request.cases) {
    for (const Property* property : request.properties) {
      if (dtypes_of(request, *the_case, *property).empty()) continue;
      rows.push_back({.the_case = the_case, .property = property});
    }
  }
  return rows;
}

void run_campaign(const CampaignRequest& request, Bench& bench, std::vector<CampaignRow>& rows,
                  const std::function<void(const CampaignRow&)>& before_run) {
  for (CampaignRow& row : rows) run_row(request, bench, before_run, row);
}

}  // namespace verify
