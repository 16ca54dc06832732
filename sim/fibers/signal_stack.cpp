#include "sim/fibers/signal_stack.h"

#include <csignal>
#include <cstddef>
#include <memory>

#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

/// The alternate stack of a thread, which it gets from this file.
class SignalStack {
 public:
  SignalStack() = default;
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t present{};
    sigaltstack(nullptr, &present);
    if (present.ss_sp != memory_.get()) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  void set() {
    if (memory_ == nullptr) memory_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
    stack_t own{};
    own.ss_sp = memory_.get();
    own.ss_size = kBytes;
    sigaltstack(&own, nullptr);
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
};

thread_local SignalStack of_thread;

}  // namespace

void require_signal_stack() {
  if (kSanitized) return;
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) != 0) of_thread.set();
}

}  // namespace sim
