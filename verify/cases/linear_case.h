#pragma once

/// ColumnParallelLinear and RowParallelLinear, forward and backward, with every flag they have.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> column_parallel_linear_case();
std::unique_ptr<Case> row_parallel_linear_case();

}  // namespace verify
