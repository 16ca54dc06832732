#pragma once

/// How small an error the properties see (verify/exam/power.h), as a table or as the document.

#include <string>

#include "verify/cases/case_list.h"

namespace verify {

struct Call;

/// The command exam with --power, for these cases.
int exam_power(const Call& call, const CaseList& cases);

}  // namespace verify
