#pragma once

/// What a wrong value is, by the first relation with the right ones that all of its elements have: no number,
/// zero, a factor, terms of ranks whose sum is missing, another tensor, the value of a step before.
///
/// Exact   a relation holds up to 2^25 roundings of the largest element in f64, or the bound by which the
///         value is judged, if that is more. It is stated as it is, without its cause.

#include <string>
#include <vector>

#include "verify/run/compared_values.h"

namespace verify {

/// A wrong value beside the right one. It refers to all of them.
struct SeenValue {
  const WrongValue& wrong;
  const GlobalValue& got;
  const std::vector<double>& serial;  // what is right
  double bound;                       // by which it is judged
  const GlobalValues& layout;
  const GlobalValues& reference;
  const NamesOfLayout& names;
};

/// Returns the end of the sentence "the gradient of x in step 0: ...".
std::string explained_value(const SeenValue& value);
/// Returns the same, with the size of the error alone.
std::string measured_value(const SeenValue& value);

}  // namespace verify
