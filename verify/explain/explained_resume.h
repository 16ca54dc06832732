#pragma once

/// What a training has after a checkpoint was loaded that it had not when it was saved: first what is there
/// before any step, on the same and on another number of ranks, then one step later.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

/// Returns "" if all is as it was. The setting is in the field.
std::string explain_resume(Bench& bench, const Case& the_case, const CaseSetting& setting);
/// The same of a setting in floats, where nothing differs in the field: a value that is rounded differently.
std::string explain_resume_in_floats(Bench& bench, const Case& the_case, const CaseSetting& setting);

}  // namespace verify
