#pragma once

/// The case of dropout in replicated and in sharded regions.

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> parallel_dropout_case();

}  // namespace verify
