#pragma once

/// Turns an interrupt from the keyboard (SIGINT) into a flag that long work polls, so that the work ends
/// early and its result so far is still written.
///
/// Calls   one object at a time. The first interrupt is kept as long as the object lives; a second one ends
///         the process, as it would without the object.

#include <csignal>
#include <optional>
#include <string>

#include "verify/output/output.h"
#include "verify/output/progress.h"

namespace verify {

class InterruptKept {
 public:
  InterruptKept();
  ~InterruptKept();
  InterruptKept(const InterruptKept&) = delete;
  InterruptKept& operator=(const InterruptKept&) = delete;

  /// Returns whether there was an interrupt.
  bool is_asked() const;

 private:
  struct sigaction before_ = {};
};

/// Long work that shows its progress, in items of this unit, and that an interrupt ends.
class InterruptibleWork {
 public:
  InterruptibleWork(const Output& output, std::string unit) : output_(output), unit_(std::move(unit)) {}

  /// Must be called before item `done` of `total` begins. Returns whether the work goes on.
  bool operator()(std::size_t done, std::size_t total, const std::string& what);
  /// Removes the line of progress. An interrupt is still kept.
  void end() { progress_.reset(); }

 private:
  const Output& output_;
  std::string unit_;
  InterruptKept interrupt_;
  std::optional<Progress> progress_;
};

}  // namespace verify
