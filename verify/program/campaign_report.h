#pragma once

/// What a campaign of check found: the verdict of its rows, and the table or the document that says so, with
/// a scenario for each failure.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/output/output.h"
#include "verify/program/commands.h"

namespace verify {

/// Returns the exit code of all rows. As in a replay, what is falsified is worse than what is broken, and a
/// planted fault that nothing had is a failure. A failure that was found before an interrupt is a verdict;
/// what has not failed until then is none.
ExitCode exit_code_of(const CampaignRequest& request, const std::vector<CampaignRow>& rows, bool is_whole);

/// Writes the result as a table, or as one JSON document, and each failure as a scenario into the working
/// directory.
void write_campaign(const Call& call, const CampaignRequest& request, const std::vector<CampaignRow>& rows,
                    bool is_whole);

}  // namespace verify
