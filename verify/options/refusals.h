#pragma once

/// The refusals of one configuration, which are told together: a reader who has mended the first should not
/// meet the second in the next run.
///
///   Refusals refusals;
///   refusals.keep([&] { layout = requested_layout(settings); });
///   refusals.keep([&] { placement = requested_placement(settings, pp); });
///   refusals.throw_if_any();
///
/// Errors  SeveralRefused, which is the sim::Error of the first refusal, carries the further ones. Refusals
///         with the code of an earlier one are dropped: they are the same rule, met again.

#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace verify {

/// The first refusal, as any sim::Error has it, and those that follow it.
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
  /// Does a piece of work. Where it is refused, the refusal is kept, and the next piece can be tried.
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
