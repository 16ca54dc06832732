#pragma once

/// A training on a layout, held against the same training on another one, such as one rank: every element
/// that any rank has published, in the order in which a step computes them.
///
/// Exact   an element whose gradient is zero but for rounding may be updated by anything, if the optimizer
///         divides by gradients. Without a twin, such an element of a parameter is not judged after its step.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/run/global_values.h"
#include "verify/run/value_bounds.h"

namespace verify {

/// A value that is not what the reference has.
struct WrongValue {
  ValueKey key;
  std::int64_t wrong = 0;  // elements, of which copies on several ranks count once
  std::int64_t elements = 0;
  std::set<int> ranks;  // that hold a wrong element
  std::string what;     // "it is 2 times that of the reference, as many as tp and dp"
};

/// What explanations may name.
struct NamesOfLayout {
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // ("tp", 2); those above 1
  std::vector<sim::GuestGroup> groups;                      // of the program
};

struct ComparedValues {
  std::int64_t values = 0;             // that were compared
  std::int64_t elements = 0;           // of them
  std::set<PublishedKind> kinds = {};  // of these
  double worst_slack = 0;  // the largest share of its bound that the error of a right element takes
  std::vector<WrongValue> wrong = {};
  std::string incomparable = {};  // why no numbers were compared; "" if they were
  bool holds() const { return wrong.empty() && incomparable.empty() && values > 0; }
};

ComparedValues compared_values(const GlobalValues& layout, const GlobalValues& reference,
                               const NamesOfLayout& names, const JudgedBy& judged = {});

}  // namespace verify
