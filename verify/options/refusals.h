#pragma once

/// The refusals of one configuration are collected and reported together, so that a reader who corrects the
/// first does not meet the second in the next run.
///
///   Refusals refusals;
///   refusals.keep([&] { layout = requested_layout(settings); });
///   refusals.keep([&] { placement = requested_placement(settings, pp); });
///   refusals.throw_if_any();
///
/// Errors  SeveralRefused, which is the sim::Error of the first refusal, carries the further ones. Refusals
///         with the code of an earlier one are dropped, because they come from the same rule.

#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace verify {

/// An error that carries the first refusal, as every sim::Error does, and those that follow it.
class SeveralRefused : public sim::Error {
 public:
  SeveralRefused(sim::Refusal first, std::vector<sim::Refusal> further)
      : sim::Error(std::move(first)), further_(std::move(further)) {}
  const std::vector<sim::Refusal>& further() const { return further_; }

 private:
  std::vector<sim::Refusal> further_;
};

/// Returns the refusals that follow the first one of an error; most errors have none.
std::vector<sim::Refusal> further_refusals(const sim::Error& error);

class Refusals {
 public:
  /// Does a piece of work. If it is refused, the refusal is kept, and the next piece can be tried.
  template <typename Work>
  void keep(const Work& work) {
    try {
      work();
    } catch (const sim::Error& error) {
      add(error);
    }
  }
  void throw_if_any() const;

 private:
  void add(const sim::Error& error);
  void add(const sim::Refusal& refusal);

  std::vector<sim::Refusal> all_;
};

}  // namespace verify
