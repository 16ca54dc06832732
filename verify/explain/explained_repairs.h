#pragma once

/// Changes at a site that would make all tensors of a wrong run right: the result of a call multiplied by a
/// number, its blocks in another order, the result of a kernel shifted or transposed back, or added to what
/// was there.
///
/// Exact   A change is named only where the run with it has no wrong tensor. A tensor that is linear in the
///         result tells the number, by how much it changes when the result is tripled. Where there is none,
///         the size of the group and 1 over it are tried.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "verify/explain/wrong_tensor.h"
#include "verify/faults/fault.h"

namespace verify {

/// A site in a wrong run, and the run in which its results are changed: tripled, or those of a kernel zero.
/// Without such a run, as where that breaks a contract, only the order of its blocks is changed.
struct ChangedSite {
  std::string site;
  std::string kind = {};  // of the groups of its calls that are changed; empty: all calls of the site
  std::set<sim::Operation> operations = {};  // none for a kernel
  int places = 1;                            // the most ranks of a group that the calls go over
  std::shared_ptr<const sim::RunReport> changed = nullptr;
  std::size_t others = 0;  // the tensors that it reaches besides the wrong ones
  bool reaches_all = false;

  bool is_kernel() const { return operations.empty(); }
  /// Returns "'data_parallel.all_reduce' over edp".
  std::string name() const { return kind.empty() ? "'" + site + "'" : "'" + site + "' over " + kind; }
};

/// What is planted on top of a wrong run, and what it does to the site: "the result of 'mlp.forward' is
/// multiplied by 2".
struct Repair {
  std::vector<Fault> faults;
  std::string says;
  bool is_none() const { return says.empty(); }
};

/// Whether no tensor of a wrong run is wrong with these faults on top of those that are planted. The bench
/// has other faults afterwards.
bool makes_all_right(Bench& bench, const ComparedRun& run, std::vector<Fault> planted,
                     const std::vector<Fault>& on_top);

/// Returns the change that makes all right, or none. `where` says which calls have the change, besides the
/// site's kind. The bench has other faults afterwards.
Repair find_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors, const ChangedSite& site,
                   const std::vector<Fault>& planted, FaultWhere where);

/// Returns one change that makes all right if each of these sites has it, as where they share a function that
/// is wrong, or none. Sites that need not have it are left out.
Repair find_shared_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors,
                          std::vector<ChangedSite> sites, const std::vector<Fault>& planted);

}  // namespace verify
