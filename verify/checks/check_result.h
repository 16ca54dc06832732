#pragma once

/// The result of one check of replay, which is one row of its table.

#include <string>

namespace verify {

struct CheckResult {
  std::string check;
  bool holds = false;
  std::string detail;          // what was counted, or the first counterexample
  std::string reproduce = {};  // the options of replay that show the counterexample alone; "" if it has none
};

}  // namespace verify
