#pragma once

/// A wrong run in the field, and what becomes of it when the results of one site after another are changed:
/// those of a call are tripled, and those of a kernel are zero.
///
/// Calls   change_all() comes before what names sites. While an object lives, the bench may have other faults
///         than before.
/// Exact   A site is unused where no tensor differs, not even when an element of its result is no number.
///         What is said of a site is checked with other seeds and at larger sizes by in_any_setting().

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "verify/explain/wrong_tensor.h"
#include "verify/faults/fault.h"
#include "verify/properties/bench.h"
#include "verify/properties/call_values.h"

namespace verify {

// Settings of a run that is wrong which show more of it: with larger sizes, and the same calls.

/// Whether a dimension makes the result of a training no linear function of its calls: a second step, and a
/// norm by which gradients are clipped.
bool bends(const Dimension& dimension);

/// Returns the setting with one size after another raised, where that leaves the number of calls as it is,
/// the largest first. A size is what is counted from 1 on. Steps are none: behind a second one an update
/// reaches all gradients.
std::vector<CaseSetting> larger_settings(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                         const sim::RunReport& report);

/// Returns the sizes that are larger: "sequence 3, hidden 3".
std::string text_of_larger(const CaseSetting& larger, const CaseSetting& setting);

// Changes at a site that would make all tensors of a wrong run right: the result of a call multiplied by a
// number, its blocks in another order, the result of a kernel shifted or transposed back, or added to what
// was there.
//
// Exact   A change is named only where the run with it has no wrong tensor. A tensor that is linear in the
//         result tells the number, by how much it changes when the result is tripled. Where there is none,
//         the size of the group and 1 over it are tried.

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

/// More sites than these cannot be told apart, and are not named.
constexpr std::size_t kMostNamedSites = 3;

/// Returns "'mlp.forward' or 'device.matmul'"; "" for none, and where there are too many to tell.
std::string one_of(const std::vector<ChangedSite>& sites);
bool has_site(const std::vector<ChangedSite>& sites, const std::string& site);

/// Returns the tensors that differ between two runs on some rank.
std::set<std::string> differing(const sim::RunReport& one, const sim::RunReport& other);

class ChangedSites {
 public:
  using Names = std::set<std::string>;

  ChangedSites(Bench& bench, const Case& the_case, const CaseSetting& setting, const sim::RunReport& report);
  ~ChangedSites() { bench_.plant(planted_); }
  ChangedSites(const ChangedSites&) = delete;
  ChangedSites& operator=(const ChangedSites&) = delete;

  /// Changes the results of one site after another.
  void change_all();

  /// Returns the bench with the faults of the wrong run alone.
  Bench& bench();
  const std::vector<Fault>& planted() const { return planted_; }
  const ComparedRun& run() const { return run_; }
  const WrongTensors& tensors() const { return tensors_; }
  /// The sites whose change leaves a run: those that reach all that is wrong first, and of them the closest.
  const std::vector<ChangedSite>& sites() const { return sites_; }
  /// Calls whose results cannot be scaled, as counts of rows, or are zero.
  const std::vector<ChangedSite>& unscaled() const { return unscaled_; }
  /// Calls whose results are not used.
  const std::vector<ChangedSite>& unused() const { return unused_; }
  /// Kernels whose results are zero already, or not used.
  const std::vector<ChangedSite>& zero() const { return zero_; }

  /// Returns the run with a change, or null, where no call has it or it breaks a contract.
  std::shared_ptr<const sim::RunReport> run_with(const ChangedSite& site, const char* change,
                                                 const FaultWhere& where = {});
  /// Returns the names of the tensors that differ from the wrong run on some rank.
  Names changed_by(const sim::RunReport& changed) const;
  /// Returns the tensors that differ where the result is tripled at another setting of the case; none where
  /// no call has the change, or it breaks a contract.
  Names reached_at(const CaseSetting& setting, const ChangedSite& site, const FaultWhere& where);
  /// Returns the names of the wrong tensors at a setting.
  Names wrong_at(const CaseSetting& setting);
  /// Whether no tensor differs when the first element of a result is no number, which is another one even
  /// where the result is zero.
  bool is_unused(const ChangedSite& site, const FaultWhere& where);
  /// Returns settings that show more of the same calls: at larger sizes, and with other seeds.
  const std::vector<CaseSetting>& other_settings();
  /// Returns the largest of the other settings, or that of the run where there is none. A text has one size.
  CaseSetting largest_setting();
  /// Removes the sites at which a change does change something in other settings: what is not used with one
  /// seed, as a gradient of rows that no id asks for, need not be wrong, nor the gradient of a softmax that
  /// is zero because there is one key. Of too many sites none is told.
  std::vector<ChangedSite> in_any_setting(std::vector<ChangedSite> sites, const FaultWhere& where);
  /// Returns settings at which all is right: with an option left out, or other seeds. What is found in them,
  /// too, is no mistake.
  const std::vector<CaseSetting>& right_settings();
  /// Returns what the program gives to the calls of the run, and gets from them.
  const ValuesBySite& values();

 private:
  /// Puts a site whose change leaves a run into the lists where it belongs.
  void take_changed(ChangedSite site, bool reaches_none);
  /// Removes the sites at which a change changes nothing in a right run either.
  std::vector<ChangedSite> not_in_right_runs(std::vector<ChangedSite> sites, const FaultWhere& where);
  std::shared_ptr<const sim::RunReport> changed_run(const CaseSetting& setting, const ChangedSite& site,
                                                    const char* change, const FaultWhere& where);

  Bench& bench_;
  std::vector<Fault> planted_;
  ComparedRun run_;
  WrongTensors tensors_;
  std::vector<ChangedSite> sites_, unscaled_, unused_, zero_;
  ValuesBySite values_;                      // of values(), where they were needed
  std::vector<CaseSetting> other_settings_;  // of other_settings(), where they were needed
  std::vector<CaseSetting> right_settings_;
  bool knows_right_ = false;
};

}  // namespace verify
