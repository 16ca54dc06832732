#pragma once

/// Looks up the cases, properties, dtypes and dimensions that the options about cases name (case_options.h).
///
/// Errors  unknown_case, unknown_property, unknown_dtype: a name that is not known; max_world: more than 64
///         ranks; bad_dimensions: dimensions that are not those of one case, or out of range;
///         nothing_to_check: no property judges any of the cases in these dtypes; those of case_rules.h.

#include <string>
#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/cases/case_list.h"
#include "verify/requests/case_options.h"

namespace verify {

/// Returns the names of the dtypes in which cases are judged.
std::vector<std::string> dtype_names();

/// Returns the campaign that the options name. They choose among `cases`, which may declare what cannot be.
CampaignRequest named_campaign(const CaseOptions& options, const CaseList& cases);

/// Returns the campaign that the options name, and refuses a case that declares what cannot be.
CampaignRequest requested_campaign(const CaseOptions& options, const CaseList& cases);

/// One case, one property and one setting, as a scenario of check names them.
struct OneCase {
  const Case* the_case;
  const Property* property;
  CaseSetting setting;
};
/// Returns the case, property and setting that the options name.
OneCase requested_case(const CaseOptions& options, const CaseList& cases);

/// Refuses cases, properties and dtypes that leave nothing to check together.
[[noreturn]] void refuse_nothing_to_check();

/// Returns the options that reproduce a judgement, in the vocabulary of scenarios.
NamedValues options_of(const Case& the_case, const Property& property, const CaseSetting& setting);

/// Adds the faults that were planted to the options that reproduce a judgement.
NamedValues with_plants(NamedValues options, const std::vector<Fault>& faults);

/// Returns the same options with the whole layout in which the case ran, for a scenario file.
NamedValues scenario_options(const Case& the_case, const Property& property, const CaseSetting& setting);

}  // namespace verify
