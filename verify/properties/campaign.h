#pragma once

/// A campaign: cases and properties over random worlds, shapes and dtypes, drawn and shrunk by RapidCheck.
///
/// Exact   the same request draws the same settings, and so comes to the same verdicts.

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
  std::int64_t runs = 0;  // of each case and property, over all dtypes
  std::uint64_t seed = 0;
  int max_world = 8;
};

/// The smallest setting that still fails.
struct Failure {
  CaseSetting setting;
  std::string detail;
  std::string explanation;
  bool threw = false;  // in the case or its reference
};

/// What came of one case and one property.
struct CampaignRow {
  const Case* the_case;
  const Property* property;
  std::int64_t runs = 0;
  double slack = 0;                      // the largest share of a bound that was used
  std::int64_t runs_with_unbounded = 0;  // in which some elements had no bound
  std::optional<Failure> failure;
};

/// One for each case and property that go together, in an arithmetic asked for; nothing has run.
std::vector<CampaignRow> campaign_rows(const CampaignRequest& request);

/// `before_run` is told of the row that runs, with the runs it has had.
void run_campaign(const CampaignRequest& request, Bench& bench, std::vector<CampaignRow>& rows,
                  const std::function<void(const CampaignRow&)>& before_run);

}  // namespace verify
