#pragma once

/// A campaign judges cases by properties in drawn worlds, shapes and dtypes (drawn_settings.h). A failure is
/// shrunk and explained.
///
/// Shapes  a failure shrinks until no single step leads to another failure, and no drawn setting on fewer
///         ranks fails.
/// Calls   the runs of a campaign are divided over threads, each of which has a bench, and over processes
///         if spread_campaign.h runs it. The cases are called on several threads at once.
/// Exact   the same request draws the same settings, and gives the same rows with any number of threads,
///         unless it is stopped.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

struct CampaignRequest {
  std::vector<const Case*> cases = {};
  std::vector<const Property*> properties = {};
  std::vector<sim::DType> dtypes = {};
  std::int64_t runs = 0;  // for each case and property, over all dtypes
  std::uint64_t seed = 0;
  int max_world = 8;
  std::vector<Fault> faults = {};  // planted in all runs
};

/// The smallest setting that still fails. If the campaign was stopped, it may not be shrunk to the end.
struct Failure {
  CaseSetting setting;
  std::string detail;
  std::string explanation;
  bool threw = false;                                  // the case or its reference threw an exception
  std::optional<sim::Finding> finding = std::nullopt;  // the contract that a rank program broke
  bool differs_in_levels_alone = false;                // as a judgement does (properties.h)
};

/// The result of one case and one property.
struct CampaignRow {
  const Case* the_case;
  const Property* property;
  std::int64_t runs = 0;                 // with those that shrank a failure
  double slack = 0;                      // the largest share of a bound that was used
  std::int64_t runs_with_unbounded = 0;  // runs in which some elements had no bound
  std::optional<Failure> failure;
};

/// Returns the requested dtypes in which the property judges the case.
std::vector<sim::DType> judged_dtypes(const CampaignRequest& request, const Case& the_case,
                                      const Property& property);

/// Returns a row for each case and each property that judges it in one of the requested dtypes. Nothing has
/// run yet.
std::vector<CampaignRow> campaign_rows(const CampaignRequest& request);

/// Called before every run, by one thread at a time, with the number of finished runs and the row of the run.
/// Returns whether the campaign goes on. If not, it stops after the runs that have begun.
using GoesOn = std::function<bool(std::int64_t done, const CampaignRow& row)>;

/// Runs the campaign, with a thread for each bench.
void run_campaign(const CampaignRequest& request, std::span<Bench> benches, std::vector<CampaignRow>& rows,
                  const GoesOn& goes_on);

// The sites that cases reach: their calls in groups of several ranks, and the tensors that they publish, as
// a few drawn runs made them.

/// Returns the sites and operations of the cases of a campaign, each once, sorted by site.
std::vector<SiteOperation> sites_of(const CampaignRequest& request, Bench& bench);

}  // namespace verify
