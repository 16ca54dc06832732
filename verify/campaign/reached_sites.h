#pragma once

/// The sites that cases reach: their calls in groups of several ranks, and the tensors that they publish, as
/// a few drawn runs made them.

#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/properties/bench.h"

namespace verify {

/// Returns the sites and operations of the cases of a campaign, each once, sorted by site.
std::vector<SiteOperation> sites_of(const CampaignRequest& request, Bench& bench);

}  // namespace verify
