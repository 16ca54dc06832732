#pragma once

/// What became of the bugs of a catalogue (verify/exam/fault_catalogue.h): a table, and what was said
/// where the expected property did not catch one; or the document.

#include <string>
#include <vector>

#include "verify/exam/fault_catalogue.h"
#include "verify/output/output.h"

namespace verify {

struct Call;

/// The command exam with --catalogue, for the bugs of these files, which are planted in `cases`.
int exam_catalogue(const Call& call, const CaseList& cases, const std::vector<std::string>& files);

}  // namespace verify
