#pragma once

/// A finding: how a rank program broke a contract, told so that its author can mend it: one sentence, and for
/// each rank concerned where it stands.
///
///   rank_threw                   an exception left the program; a refused call keeps its own code
///                                ("wrong_device", ...)
///   collective_type_mismatch     members of a group make different calls at the same place of the sequence
///   size_or_syntax_mismatch      ... with different counts;  split_size_mismatch: rows sent are not those
///                                expected
///   collective_dtype_mismatch, reduction_mismatch, root_mismatch   ... with another dtype, reduction or root
///   group_order_mismatch         new_group calls name different groups;  group_not_created_by_all: some do
///                                not call
///   message_size_mismatch, message_dtype_mismatch   a send and its recv differ
///   deadlock                     ranks wait for each other: the shortest cycle
///   missing_ranks                ranks wait for one that has ended and never called in this group
///   left_early                   ... that had called in this group before
///   rank_terminated              the program came to std::terminate(): an exception in a noexcept function,
///                                for instance
///   rank_will_not_end            it catches what should end it, and goes on calling
///   unmatched_send, unmatched_recv   the peer has ended, or never asked for the message
///   pending_work                 a rank ended without wait() for what it had started
///   potential_deadlock           ranks make calls of several groups in different orders; this schedule
///                                survived
///
/// Source  verdict names are those of PyTorch's flight recorder where it has one.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"

namespace sim {

/// Where one rank stands: the call it is in, has made, or should have made.
struct CallFacts {
  int rank = 0;       // global
  std::string state;  // "waits in", "arrived at", "has ended after 2 calls; the last:"
  std::string group;
  std::int64_t sequence = 0;
  Operation operation = Operation::barrier;
  std::int64_t count = 0;
  DType dtype = DType::f64;
  ReduceOp reduce_op = ReduceOp::sum;
  int root_or_peer = -1;  // global rank, -1 for none
  std::string site;
  std::string file;
  int line = 0;
};

struct Finding {
  std::string code;
  std::string sentence;
  std::vector<CallFacts> calls;  // those at fault first, long lists cut
  std::int64_t more_calls = 0;   // that were cut
  std::string rule;
  std::string hint;
};

CallFacts facts_of(const Call& call, const ProcessGroup& group, int rank, std::string state);
/// What a record still tells of a call that is over.
CallFacts facts_of(const CallRecord& call, int rank, std::string state);
/// Cuts a long list of ranks: ten are enough to see what is wrong.
void add_facts(Finding& finding, CallFacts facts);

/// Several lines; `reproduce` is the line that makes it happen again.
std::string text_of(const Finding& finding, const std::string& reproduce);

}  // namespace sim
