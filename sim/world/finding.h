#pragma once

/// A finding says how a rank program broke a contract. It has one sentence, and for each rank concerned the
/// call in which the rank waits or which it made last, so that the author can repair the program.
///
///   rank_threw                   an exception left the program; a refused call keeps its own code
///                                ("wrong_device", ...)
///   collective_type_mismatch     members of a group make different calls with the same sequence number
///   size_or_syntax_mismatch      members make the same call with different counts
///   split_size_mismatch          the rows that a member sends are not as many as the receiver expects
///   collective_dtype_mismatch, reduction_mismatch, root_mismatch
///                                members make the same call with different dtypes, reductions or roots
///   group_order_mismatch         new_group calls with the same sequence number name different groups
///   group_not_created_by_all     some ranks do not make a new_group or split call
///   message_size_mismatch, message_dtype_mismatch
///                                a send and its recv differ in their count or dtype
///   deadlock                     ranks wait for each other; the finding lists the shortest cycle
///   missing_ranks                ranks wait for a rank that has ended and never called in this group
///   left_early                   ranks wait for a rank that has ended after it had called in this group
///   rank_terminated              the program called std::terminate(), for instance because of an exception
///                                in a noexcept function
///   rank_will_not_end            the program catches the exception that should end it, or its refusals, and
///                                makes more calls
///   unmatched_send, unmatched_recv
///                                the peer has ended without the other side of the message
///   pending_work                 a rank ended without wait() for a call that it had started
///   guest_raised, guest_gone, guest_frame
///                                the rank's program is a process of its own (sim/guest), and it raised, is
///                                gone without a word, or sent what is no request
///   other_lines                  a warning: members made equal calls at different lines of their program
///   caught_refusal               a warning: a program caught the refusal of a call and went on to its end
///   potential_deadlock           ranks make calls of several groups in different orders, which this schedule
///                                survived
///
/// Source  the codes have the names of PyTorch's flight recorder where it has one.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"

namespace sim {

/// The position of one rank: the call that it is in, or the last one that it made.
struct CallFacts {
  int rank = 0;       // global rank
  std::string state;  // such as "waits in", "arrived at", "has ended after 2 calls; the last:"
  std::string group;
  std::int64_t sequence = 0;
  Operation operation = Operation::barrier;
  std::int64_t count = 0;
  DType dtype = DType::f64;
  ReduceOp reduce_op = ReduceOp::sum;
  int root_or_peer = -1;  // global rank, or what is no place of the group; -1 if the operation has neither
  std::string site;
  std::string file;
  std::int64_t line = 0;
};

struct Finding {
  std::string code;
  std::string sentence;
  std::vector<CallFacts> calls;  // the ranks at fault come first; long lists are shortened
  std::int64_t more_calls = 0;   // number of calls that were left out
  std::string rule;
  std::string hint;
};

/// Returns the facts of a call.
CallFacts facts_of(const Call& call, const ProcessGroup& group, int rank, std::string state);
/// Returns the facts that the record of a call still has when the call is over.
CallFacts facts_of(const CallRecord& call, int rank, std::string state);
/// Adds the facts of one rank. Beyond ten it only counts them, because ten are enough to see what is wrong.
void add_facts(Finding& finding, CallFacts facts);

/// Returns several lines that describe a finding. `reproduce` is the line that reproduces the run, or "".
std::string text_of(const Finding& finding, const std::string& reproduce);

}  // namespace sim
