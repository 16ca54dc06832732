#pragma once

/// A collective call that a rank of a case is expected to make, and the differences between a list of
/// expected calls and the calls that a rank made.
///
/// Shapes  `elements` is the call's count (sim/comm/call.h). The dtype is that of the case, or that of its
///         sums (f32 for bf16), or i32. A call without a group of its own goes over the
///         tensor-model-parallel group, and a reduction without an operation of its own is a sum.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "sim/comm/call_log.h"

namespace verify {

struct ExpectedCall {
  std::string site;
  sim::Operation operation;
  std::int64_t elements;
  bool of_sums = false;                  // the elements have the dtype of the case's sums
  sim::DType dtype = sim::DType::field;  // expected_calls() fills it in unless it is i32
  std::string group = "tp";              // the group's kind; "tp" is "dp" in a case of data-parallel ranks
  int root_or_peer = -1;                 // place of the root or peer in the group; -1 for none
  sim::ReduceOp reduce_op = sim::ReduceOp::sum;
  // all_to_all_uneven: the elements sent to each place. A record does not keep them, but its bytes must be
  // theirs.
  std::vector<std::int64_t> elements_to = {};

  /// Whether the records of both calls are the same.
  bool operator==(const ExpectedCall& other) const {
    const auto kept = [](const ExpectedCall& call) {
      return std::tie(call.site, call.operation, call.elements, call.of_sums, call.dtype, call.group,
                      call.root_or_peer, call.reduce_op);
    };
    return kept(*this) == kept(other);
  }
};

/// What a rank of a case is expected to do.
struct ExpectedRun {
  std::vector<ExpectedCall> calls;
  std::string departure = {};  // how its plan departs from the rules of its source; "" where it does not
  // Whether the calls are known. They are not where their sizes depend on a choice of the reference that an
  // error may have exchanged with another one.
  bool is_known = true;
};

/// Returns a call that was made in the form of an expected one.
ExpectedCall as_expected(const sim::CallRecord& call);
/// Returns a text such as "all_reduce 'mlp.forward' of 24 f32", or "send 'pipeline.send_forward' of 8 f32
/// over pp, to 1". The dtype is left out if it is the field, and the operation of a reduction if it is a sum;
/// a maximum is "all_reduce(max) ...".
std::string text_of(const ExpectedCall& call);

/// One difference between two lists of calls, for example "all_reduce 'mlp.forward' of 24 is missing", "after
/// 'mlp.backward' (mlp.cpp:40)". The differences are the fewest calls to remove and to insert that turn one
/// list into the other. If a call differs only in size or operation, one difference names both versions. A
/// call that is missing in one place and extra in another is reported as too early or too late.
struct CallDifference {
  std::string what;
  std::string where;
  bool operator==(const CallDifference&) const = default;
};

/// Only this many calls of each list are compared, beginning with the first one that differs.
inline constexpr std::size_t kMostCompared = 2000;
std::vector<CallDifference> differences(const std::vector<ExpectedCall>& expected, const sim::CallLog& made);

}  // namespace verify
