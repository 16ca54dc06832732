#pragma once

/// A fault that is planted at a site: what a call, or a kernel of the device, does in place of what the
/// program asked for, or what a published tensor has in place of what it should. The program is not changed
/// (faulty_calls.h, faulty_device.h).
///
/// Shapes  A fault is written SITE:FAULT[=ARGUMENT][@WHERE]. SITE is the name of a site, or a pattern in
///         which each * stands for any text. The site of a kernel is "device." and its name, such as
///         "device.matmul", and that of a published tensor "tensor." and its name, such as "tensor.output".
///         FAULT is a row of fault_table(). WHERE is a list with commas of rank=R (a global rank; several may
///         be given), place=P (a place in the group), call=N (the N-th call of a rank at this site, from 0),
///         group=KIND, pass=forward|backward, and microbatch=N, layer=N and step=N (of a training, from 0).
///         Without it all ranks have the fault, in every call. call=N counts the calls that have all other
///         parts. Kernels and tensors have no group and no part of a training, and their factors are numbers.
/// Calls   The fault is planted in the calls of the site that its row applies to, in groups of several ranks.
/// Errors  bad_fault: the text is not of this form; unknown_fault: there is no such row; bad_fault_argument:
///         the argument is missing, or is none that the row takes; bad_fault_where: WHERE has an unknown or
///         malformed part.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/comm/call.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/work_part.h"

namespace verify {

enum class FaultKind : std::uint8_t {
  skip,
  twice,
  late,
  early,
  no_wait,
  wrong_group,
  op,
  scale,
  root,
  peer,
  swap_blocks,
  next_block,
  own_term,
  stale,
  dtype,
  truncate,
  nan,
  zero,
  offset,
  transpose,
  drop_accumulate,
};

/// What stands behind "=".
enum class FaultArgument : std::uint8_t {
  none,
  group,
  reduce_op,
  factor,
  next,
  next_or_previous,
  bf16,
  count
};

struct FaultInfo {
  FaultKind kind;
  const char* name;
  FaultArgument argument;
  bool (*applies)(sim::Operation operation);  // null for a fault that calls do not have
  const char* about;                          // a sentence
  bool is_of_kernels = false;
  bool is_of_tensors = false;
  bool needs_floats = false;  // the field has no such fault
};

/// All faults, one row each.
std::span<const FaultInfo> fault_table();
const FaultInfo& info_of(FaultKind kind);
/// Returns how the fault is written: "op=max|min|average|product|sum".
std::string form_of(const FaultInfo& info);

/// A call, kernel or tensor, as far as WHERE may name it.
struct CallPlace {
  int rank = 0;
  int place = 0;
  std::string_view kind = "";
  sim::WorkPart part = {};
};

/// A part of WHERE other than call=N, and whether a call has it.
struct WherePart {
  std::string text;       // "layer=0"
  const char* of = "";    // "a layer", where calls need not be of any
  bool is_of_one = true;  // whether the call is of any
  bool has = false;
};

/// Where a fault is, among the calls of its site.
struct FaultWhere {
  std::vector<int> ranks = {};  // global ranks; empty: all
  std::optional<int> place = std::nullopt;
  std::optional<std::int64_t> call = std::nullopt;
  std::string group = {};  // the kind; empty: any
  std::string pass = {};   // "forward" or "backward"; empty: any, and outside of the passes
  std::optional<std::int64_t> microbatch = std::nullopt;
  std::optional<std::int64_t> layer = std::nullopt;
  std::optional<std::int64_t> step = std::nullopt;

  /// Whether a call has all parts but call=N.
  bool has(const CallPlace& at) const;
  /// Returns the parts that are given, but for call=N, and which of them a call has.
  std::vector<WherePart> parts(const CallPlace& at) const;
  bool names_a_part() const { return !pass.empty() || microbatch || layer || step; }
};

/// A factor: a number, the size of a rank's group of a kind, or 1 over that size.
struct Factor {
  sim::Ratio number = {};
  std::string kind = {};  // empty: the number
  bool is_inverse = false;
};

/// The calls of a run that come right before a call with a fault: those that an early call comes before.
/// Ranks may add theirs at the same time.
class CallsBefore {
 public:
  /// Adds a call by its number among the rank's calls in groups of several ranks, from 0, and its site.
  void add(int rank, std::int64_t call, const std::string& site);
  bool has(int rank, std::int64_t call) const { return calls_.contains({rank, call}); }
  const std::set<std::string>& sites() const { return sites_; }

 private:
  std::mutex mutex_;
  std::set<std::pair<int, std::int64_t>> calls_;
  std::set<std::string> sites_;
};

/// What calls at the site of a fault have of its WHERE, so that it can be said why none has all of it. Ranks
/// may add theirs at the same time.
class SeenPlaces {
 public:
  void add(const FaultWhere& where, const CallPlace& call);
  /// Adds a call to whose operation the fault does not apply.
  void add_other(const FaultWhere& where, const CallPlace& call, sim::Operation operation);
  /// Returns "no call there has layer=7", with the name of what can have the fault; or the operations of the
  /// calls that have all of WHERE, and to which the fault does not apply.
  std::string why_unmet(const FaultWhere& where, const char* noun) const;

 private:
  mutable std::mutex mutex_;
  std::int64_t calls_ = 0;
  bool have_all_ = false;                    // whether a call had all parts but call=N
  std::set<std::string> had_, had_another_;  // parts of WHERE that matched a call, and those that did not
  std::set<std::string> others_;             // operations to which the fault does not apply
};

struct Fault {
  std::string text;  // as it is written
  std::string site;
  FaultKind kind = FaultKind::skip;
  FaultWhere where = {};
  std::string group = {};                        // wrong-group
  sim::ReduceOp reduce_op = sim::ReduceOp::sum;  // op
  Factor factor = {};                            // scale
  int step = 1;                                  // root and peer: 1 for next, -1 for previous
  std::int64_t elements = 0;                     // truncate and offset
  bool is_undone = false;                        // offset, transpose, drop-accumulate: the change is reversed
  /// How many calls have had the fault, in all runs of it and of its copies.
  std::shared_ptr<std::atomic<std::int64_t>> met = std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<SeenPlaces> seen = std::make_shared<SeenPlaces>();  // until a call has the fault
  std::shared_ptr<const CallsBefore> before = nullptr;  // early: faulty_calls.h sets it for a run

  bool is_of_kernels() const { return site.starts_with("device."); }
  bool is_of_tensors() const { return site.starts_with("tensor."); }
  bool is_of_calls() const { return !is_of_kernels() && !is_of_tensors(); }
  /// Whether a call, kernel or tensor of the site has all parts of WHERE but call=N.
  bool is_at(const CallPlace& call) const;
  /// Whether the fault is planted in a call, wherever it is made.
  bool fits(const std::string& call_site, sim::Operation operation) const;
};

/// Whether a text fits a pattern, in which each * stands for any text.
bool fits_pattern(std::string_view pattern, std::string_view text);

/// Returns the fault that a text describes.
Fault parsed_fault(const std::string& text);
std::vector<Fault> parsed_faults(const std::vector<std::string>& texts);
/// Returns, as they are written, the faults that no call, kernel or tensor has had.
std::vector<std::string> unmet_faults(const std::vector<Fault>& faults);
/// Returns of each of them which part of WHERE nothing had: "nothing that ran has 'mlp.forward:skip@rank=9':
/// no call there has rank=9". The sentences have "; " between them; "" where there is no such fault.
std::string text_of_unmet(const std::vector<Fault>& faults);

/// A site, and an operation that is called there; or a published tensor, "tensor." and its name.
struct SiteOperation {
  std::string site;
  sim::Operation operation = {};  // of no meaning for a tensor
  bool is_tensor() const { return site.starts_with("tensor."); }
  auto operator<=>(const SiteOperation&) const = default;
};

/// Refuses faults that no call or tensor of these sites would have, with the nearest site (no_such_site).
void require_sites(const std::vector<Fault>& faults, std::span<const SiteOperation> sites);

}  // namespace verify
