#pragma once

/// The cyclomatic complexity of the functions of a source: 1, and 1 more for each if, for, while, case,
/// catch, &&, || and ? in the body.
///
/// Exact   it is an estimate from words and braces, without a parser. A lambda counts as a part of the
///         function around it. The initializers of a constructor are left out.

#include <string>
#include <vector>

namespace test {

struct FunctionComplexity {
  std::string name;  // the last word before its parameters
  int complexity = 1;
};

std::vector<FunctionComplexity> complexities_of(const std::string& source);

}  // namespace test
