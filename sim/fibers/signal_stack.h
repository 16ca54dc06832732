#pragma once

/// An alternate stack on which a thread handles signals, because a thread whose stack has overflowed cannot
/// handle the signal of the overflow on it.
///
/// Calls   each thread that runs ranks has one for as long as it runs them. It does nothing if the thread has
///         an alternate stack already, or in a sanitizer build, where signals are the sanitizer's.

#include <cstddef>
#include <memory>

namespace sim {

class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace sim
