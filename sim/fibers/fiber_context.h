#pragma once

/// A context that is a fiber. It takes its stack from a pool at the first resume() and gives it back as soon
/// as the body has ended.
///
/// Calls   every switch (stack_switch.h) informs the sanitizers. It also swaps the state of exceptions in
///         flight, which the C++ runtime keeps for each thread, so that a rank may wait inside a catch block.
///         A body that waits may yield to another body, in place of its worker, so that a round of ranks
///         takes one switch for each of them. The worker goes on when a body yields to it, or ends.

#include <functional>
#include <utility>

#include "sim/fibers/context.h"
#include "sim/fibers/running_stack.h"
#include "sim/fibers/sanitizer_fiber.h"
#include "sim/fibers/stack_switch.h"

namespace sim {

class FiberContext final : public Context {
 public:
  FiberContext(StackPool& stacks, std::function<void()> body) : stacks_(stacks), body_(std::move(body)) {}
  ~FiberContext() override;

  void resume() override;
  void yield() override;
  /// Suspends this body and resumes another one in its place, on the same worker. The other body
  /// can_take_over().
  [[gnu::always_inline]] void yield_to(FiberContext& next) {
    pass_exceptions_to(next);
    RunningStack::hand_over(next.stack_);
    next.worker_side_ = worker_side_;
    next.last_ = last_;
    next.before_ = this;
    came_back(switch_to(next.body_side_).fctx);
  }
  /// Whether another body may yield to this one: it is suspended, and switches are not those of a worker
  /// alone, as in a build for sanitizers.
  bool can_take_over() const { return !kSanitized && started() && !ended_; }
  bool started() const override { return stack_.bottom != nullptr; }
  bool ended() const override { return ended_; }

 private:
  /// The state that __cxa_get_globals points to: the exceptions that are being handled, and the number of
  /// those that are being thrown.
  struct ExceptionsInFlight {
    void* caught = nullptr;
    unsigned int uncaught = 0;
    static ExceptionsInFlight of(const void* globals);
    void put_into(void* globals) const;
  };
  void exchange_exceptions(void* globals);
  void pass_exceptions_to(FiberContext& next);
  [[noreturn]] void run_body(Side worker);
  /// Keeps the side that is suspended now: the body that has yielded to this one, or the worker.
  void came_back(Side from) {
    (before_ == nullptr ? worker_side_ : std::exchange(before_, nullptr)->body_side_) = from;
  }

  StackPool& stacks_;
  std::function<void()> body_;
  Stack stack_;
  Side body_side_ = nullptr;        // the body, while it does not run
  Side worker_side_ = nullptr;      // the worker, while the body runs
  FiberContext* before_ = nullptr;  // the body that yields to this one, until this one runs
  FiberContext** last_ = nullptr;  // while the body runs: where the worker learns which body comes back to it
  ExceptionsInFlight exceptions_;  // of the body while it does not run, and else of the worker
  SanitizerFiber sanitizer_;
  bool ended_ = false;
};

}  // namespace sim
