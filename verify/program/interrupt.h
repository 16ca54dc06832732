#pragma once

/// Turns an interrupt from the keyboard (SIGINT) into a flag that long work polls, so that the work ends
/// early and its result so far is still written.
///
/// Calls   one object at a time. The first interrupt is kept as long as the object lives; a second one ends
///         the process, as it would without the object.

#include <csignal>

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

}  // namespace verify
