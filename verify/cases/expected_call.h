#pragma once

/// A collective that each rank of a case makes, in closed form, and what ranks made instead.
///
/// Shapes  elements: of the call's count (comm/call.h), of the case's dtype, or of that of its sums (f32 for
///         bf16), or i32. All are calls of the tensor-model-parallel group that do not say another.

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
  sim::DType dtype = sim::DType::field;  // filled in by expected_calls(), where it is not i32
  std::string group = "tp";
  int root_or_peer = -1;  // place in the group; -1 for none
  bool operator==(const ExpectedCall&) const = default;
};

ExpectedCall as_expected(const sim::CallRecord& call);
/// "all_reduce 'mlp.forward' of 24 f32", "send 'pipeline.send_forward' of 8 f32 over pp, to place 1"; in the
/// field without its name
std::string text_of(const ExpectedCall& call);

/// One of the fewest calls to leave out and to put in that make one list of the other: "all_reduce
/// 'mlp.forward' of 24 is missing", "after 'mlp.backward' (mlp.cpp:40)". Where only the size or the operation
/// differs, both. One that is missing in one place and too many in another comes too early, or too late.
struct CallDifference {
  std::string what;
  std::string where;
  bool operator==(const CallDifference&) const = default;
};

/// Of long lists the first so many calls from where they part.
inline constexpr std::size_t kMostCompared = 2000;
std::vector<CallDifference> differences(const std::vector<ExpectedCall>& expected,
                                        const std::vector<sim::CallRecord>& made);

}  // namespace verify
