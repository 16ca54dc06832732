#pragma once

/// The refusals of one configuration are collected and reported together, so that a reader who corrects the
/// first does not meet the second in the next run.
///
///   Refusals refusals;
///   refusals.keep([&] { require_size("--world-size", world_size); });
///   refusals.keep([&] { require_size("--num-layers", num_layers); });
///   refusals.throw_if_any();
///
/// Errors  SeveralRefused, which is the Error of the first refusal, carries the further ones. Refusals
///         with the code and the option of an earlier one are dropped, because they come from the same rule.

#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace sim {

/// An error that carries the first refusal, as every Error does, and those that follow it.
class SeveralRefused : public Error {
 public:
  SeveralRefused(Refusal first, std::vector<Refusal> further)
      : Error(std::move(first)), further_(std::move(further)) {}
  const std::vector<Refusal>& further() const { return further_; }

 private:
  std::vector<Refusal> further_;
};

/// Returns the refusals that follow the first one of an error; most errors have none.
std::vector<Refusal> further_refusals(const Error& error);

/// Runs `work`. Its refusals are thrown as `named` returns them, with the options of the user.
template <typename Work, typename Named>
auto with_refusals_named(const Work& work, const Named& named) {
  try {
    return work();
  } catch (const Error& error) {
    std::vector<Refusal> further = further_refusals(error);
    for (Refusal& refusal : further) refusal = named(std::move(refusal));
    throw SeveralRefused(named(error.refusal()), std::move(further));
  }
}

class Refusals {
 public:
  /// Runs `work`. If it is refused, the refusal is kept, and the next piece can be tried. Returns
  /// whether the work was done.
  template <typename Work>
  bool keep(const Work& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      add(error);
      return false;
    }
  }
  void throw_if_any() const;
  bool empty() const { return all_.empty(); }
  const std::vector<Refusal>& all() const { return all_; }

 private:
  void add(const Error& error);
  void add(const Refusal& refusal);

  std::vector<Refusal> all_;
};

}  // namespace sim
