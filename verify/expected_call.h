#pragma once

/// A collective that each rank of a case makes, in closed form, and what ranks made instead.
///
/// Shapes  elements: of the call's count (comm/call.h), of the case's dtype, or of that of its sums (f32 for bf16). All are calls of
///         the tensor-model-parallel group.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"

namespace verify {

struct ExpectedCall {
  std::string site;
  sim::Operation operation;
  std::int64_t elements;
  bool of_sums = false;
  sim::DType dtype = sim::DType::field;  // filled in by expected_calls()
  std::string group = "tp";
  bool operator==(const ExpectedCall&) const = default;
};

ExpectedCall as_expected(const sim::CallRecord& call);
/// "all_reduce 'mlp.forward' of 24 f32"; in the field without its name
std::string text_of(const ExpectedCall& call);

/// The fewest calls to leave out and to put in that make one list of the other, one phrase each: "all_reduce 'mlp.forward' of 24
/// is missing (after ...)". Where only the size differs, both sizes.
std::vector<std::string> differences(const std::vector<ExpectedCall>& expected,
                                     const std::vector<sim::CallRecord>& made);

}  // namespace verify
