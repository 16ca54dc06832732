#pragma once

/// Runs a rank program on a world of virtual ranks, in this process.
///
///   CpuDevice device;
///   const RunReport report = simulate(world_of(8), device, [](Rank& rank) { ... });
///
/// Calls   an exception in one rank, or a deadlock, ends the world: every stack is unwound, and the report
///         says what happened. Before that the other ranks continue as far as they can, so that the report
///         does not depend on the schedule.
/// Errors  world_spec: the spec is not valid. stack_memory, thread_limit, out_of_memory: the system refuses
///         memory or threads to the world; these are thrown when every stack has been unwound. Errors of the
///         program are findings of the report and are never thrown. Among them is out_of_memory, if the
///         program of a rank gets no more memory, or publishes more than world_spec.h allows. If a program
///         ends the process, by exit() or by a signal, or overflows its stack, its rank is named, and the
///         exit code is 3 (process_end.h).
/// Exact   run_hash is a hash over published tensors, call records and the codes of findings. It is the
///         same for every schedule, number of threads and kind of context.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/ledger.h"
#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"
#include "sim/world/finding.h"
#include "sim/world/world_spec.h"

namespace sim {

struct RunReport {
  std::vector<RankReport> ranks;  // in order of ascending ranks
  std::vector<LedgerRow> ledger;
  std::vector<Finding> findings;  // in the order of diagnosis.h; empty if the run succeeded
  /// Collectives that agree, and that members made at different lines of their program (other_lines). Right
  /// programs have such calls in branches; with another order of two equal calls, their values are mixed. The
  /// first of each pair of lines in each group. And refusals that a program caught, and after which it went
  /// on to its end (caught_refusal). They are no part of the run hash.
  std::vector<Finding> warnings;
  std::uint64_t run_hash = 0;
  std::uint64_t schedule_hash = 0;
  bool guarded_stacks = true;
  std::string reproduce;                          // the line that reproduces the run; "" if nothing was found
  std::vector<std::shared_ptr<const void>> kept;  // the groups that the call records point to

  bool ok() const { return findings.empty(); }
  /// Returns a text of the first finding, with the line that reproduces it; "" if there is none.
  std::string failure() const;
  /// Returns the first tensor that the rank published under this name; null if there is none.
  const Published* find(int rank, std::string_view name) const;
};

/// Runs the program on every rank of the world and returns the report.
RunReport simulate(const WorldSpec& spec, Device& device, const RankProgram& program);

}  // namespace sim
