#pragma once

/// What the user said of cases: which of them, which properties and dtypes, or one setting to the last
/// number.
///
/// Errors  unknown_case, unknown_property, unknown_dtype, max_world, bad_dimensions, nothing_to_check.

#include "verify/cases/case_list.h"
#include "verify/options/case_options.h"
#include "verify/properties/campaign.h"

namespace verify {

/// Among these cases.
CampaignRequest requested_campaign(const CaseOptions& options, const CaseList& cases);

/// One case, property and setting, of a scenario that has them all.
struct OneCase {
  const Case* the_case;
  const Property* property;
  CaseSetting setting;
};
OneCase requested_case(const CaseOptions& options, const CaseList& cases);

/// Cases, properties and dtypes that do not go together.
[[noreturn]] void refuse_nothing_to_check();

/// The options that make it happen again, in the vocabulary of scenarios.
NamedValues options_of(const Case& the_case, const Property& property, const CaseSetting& setting);

}  // namespace verify
