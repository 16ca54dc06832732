#pragma once

/// A campaign judges cases by properties in random worlds, shapes and dtypes, which RapidCheck draws and
/// shrinks.
///
/// Exact   the same request draws the same settings, and therefore gives the same verdicts.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/properties/properties.h"

namespace verify {

struct CampaignRequest {
  std::vector<const Case*> cases;
  std::vector<const Property*> properties;
  std::vector<sim::DType> dtypes;
  std::int64_t runs = 0;  // for each case and property, over all dtypes
  std::uint64_t seed = 0;
  int max_world = 8;
};

/// The smallest setting that still fails.
struct Failure {
  CaseSetting setting;
  std::string detail;
  std::string explanation;
  bool threw = false;                                  // the case or its reference threw an exception
  std::optional<sim::Finding> finding = std::nullopt;  // the contract that a rank program broke
};

/// The result of one case and one property.
struct CampaignRow {
  const Case* the_case;
  const Property* property;
  std::int64_t runs = 0;
  double slack = 0;                      // the largest share of a bound that was used
  std::int64_t runs_with_unbounded = 0;  // runs in which some elements had no bound
  std::optional<Failure> failure;
};

/// Returns a row for each case and property that go together in one of the requested dtypes. Nothing has run
/// yet.
std::vector<CampaignRow> campaign_rows(const CampaignRequest& request);

/// Runs the campaign. `before_run` is called before every run with its row, which counts the runs so far.
void run_campaign(const CampaignRequest& request, Bench& bench, std::vector<CampaignRow>& rows,
                  const std::function<void(const CampaignRow&)>& before_run);

}  // namespace verify
