#pragma once

/// What one check of replay came to: a row of its table.

#include <string>

namespace verify {

struct CheckResult {
  std::string check;
  bool holds = false;
  std::string detail;  // what was counted, or the first counterexample
};

}  // namespace verify
