#pragma once

/// Long work that an interrupt from the keyboard (SIGINT) ends early, so that its result so far is still
/// written.
///
///   InterruptibleWork work(output, "runs");
///   while (done < total && work(done, total, "mlp serial")) ...;
///
/// Calls   one object at a time. The first interrupt is kept as long as the object lives; a second one ends
///         the process, as it would without the object.

#include <csignal>
#include <cstddef>
#include <string>

#include "verify/output/output.h"
#include "verify/output/progress.h"

namespace verify {

class InterruptibleWork {
 public:
  /// Its progress is shown in items of this unit.
  InterruptibleWork(const Output& output, std::string unit);
  ~InterruptibleWork() { sigaction(SIGINT, &before_, nullptr); }
  InterruptibleWork(const InterruptibleWork&) = delete;
  InterruptibleWork& operator=(const InterruptibleWork&) = delete;

  /// Must be called before item `done` of `total` begins. Returns whether the work goes on.
  bool operator()(std::size_t done, std::size_t total, const std::string& what);
  /// Removes the line of progress. An interrupt is still kept.
  void end() { progress_.end(); }

 private:
  struct sigaction before_ = {};
  Progress progress_;
};

}  // namespace verify
