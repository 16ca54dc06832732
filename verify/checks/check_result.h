#pragma once

/// The result of one check of replay, which is one row of its table.

#include <string>

namespace verify {

struct CheckResult {
  std::string check;
  bool holds = false;
  std::string detail;  // what was counted, or the first counterexample
};

}  // namespace verify
