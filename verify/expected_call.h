#pragma once

/// A collective that each rank of a case makes, in closed form, and what ranks made instead.
///
/// Shapes  elements: of the call's count (comm/call.h).

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"

namespace verify {

struct ExpectedCall {
  std::string site;
  sim::Operation operation;
  std::int64_t elements;
  bool operator==(const ExpectedCall&) const = default;
};

ExpectedCall as_expected(const sim::CallRecord& call);
/// "all_reduce 'mlp.forward' of 24"
std::string text_of(const ExpectedCall& call);

/// The fewest calls to leave out and to put in that make one list of the other, one phrase each: "all_reduce 'mlp.forward' of 24
/// is missing (after ...)". Where only the size differs, both sizes.
std::vector<std::string> differences(const std::vector<ExpectedCall>& expected,
                                     const std::vector<sim::CallRecord>& made);

}  // namespace verify
