#pragma once

/// Runs a rank program on a world of virtual ranks, in this process.
///
///   CpuDevice device;
///   const RunReport report = simulate(world_of(8), device, [](Rank& rank) { ... });
///
/// Calls   an exception in one rank, or a deadlock, ends the world: every stack is unwound, and the report
///         says what happened. The other ranks first go on as far as they can, so that the report does not
///         depend on the schedule.
/// Errors  world_spec; stack_memory, thread_limit, out_of_memory: what the system refuses the world, thrown
///         when every stack has been unwound. What the program does wrong is a finding of the report, and is
///         never thrown.
/// Exact   run_hash is over published tensors and call records, and is the same for every schedule, number of
///         threads and kind of context.

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
  std::vector<RankReport> ranks;  // ascending
  std::vector<LedgerRow> ledger;
  std::vector<Finding> findings;  // the first failure first; empty: none
  std::uint64_t run_hash = 0;
  std::uint64_t schedule_hash = 0;
  bool guarded_stacks = true;
  std::string reproduce;
  std::vector<std::shared_ptr<const void>> kept;  // what the call records point to

  bool ok() const { return findings.empty(); }
  /// The first failure in words, with the line that reproduces it; "" when there is none.
  std::string failure() const;
  /// The first of this name; null where the rank published no such tensor.
  const Published* find(int rank, std::string_view name) const;
};

RunReport simulate(const WorldSpec& spec, Device& device, const RankProgram& program);

}  // namespace sim
