#pragma once

/// The faults that an exam plants at a site: every one that has a meaning there.
///
/// Shapes  Faults are planted in all calls of a site, and some of them also at place 1 of each group alone,
///         where the ranks of a group then differ. A factor is the size of the group that the call goes over,
///         1 over it, or 1 + 2^-10.

#include <set>
#include <string>
#include <vector>

#include "sim/comm/call.h"
#include "verify/faults/fault.h"

namespace verify {

/// What is known of the calls of a site. A site is known by its name; its calls may be of several operations
/// and go over groups of several kinds.
struct CallsOfSite {
  std::set<sim::Operation> operations = {};
  std::set<sim::ReduceOp> reductions = {};
  std::set<std::string> sizes = {};         // of its groups: kinds that a factor may name, or numbers
  std::set<std::string> other_groups = {};  // kinds whose groups have other members
  bool has_more_than_two_places = false;

  void add(const sim::CallRecord& call);
};

/// Returns these faults as they are written, in the order of fault_table().
std::vector<Fault> planned_faults(const std::string& site, const CallsOfSite& calls);

}  // namespace verify
