#pragma once

/// A step of a replay that is about to begin: a row of the report, or a part of the work for a row. Who shows
/// progress reports each.

#include <cstddef>
#include <functional>
#include <string>

namespace verify {

struct ReplayStep {
  std::string row;        // the name of the row
  std::size_t done = 0;   // the steps before this one
  std::size_t total = 0;  // the steps of the scenario if all checks hold
};
using BeforeStep = std::function<void(const ReplayStep&)>;

}  // namespace verify
