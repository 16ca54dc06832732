#pragma once

/// A context that is a fiber. It takes its stack from a pool at the first resume() and gives it back as soon
/// as the body has ended.
///
/// Calls   every switch (stack_switch.h) informs the sanitizers. It also swaps the state of exceptions in
///         flight, which the C++ runtime keeps for each thread, so that a rank may wait inside a catch block.
///         A body that waits may yield to another body, in place of its worker, so that a round of ranks
///         takes one switch for each of them. The worker goes on when a body yields to it, or ends.

#include <cstring>
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
    exceptions_ = ExceptionsInFlight::of(turn_->globals);
    next.exceptions_.put_into(turn_->globals);
    RunningStack::hand_over(next.stack_);
    next.turn_ = turn_;
    next.before_ = this;
    came_back(switch_to(next.body_side_).fctx);
  }
  /// Whether another body may yield to this one: it is suspended, and switches are not those of a worker
  /// alone, as in a build for sanitizers.
  bool can_take_over() const { return !kSanitized && started() && !ended_; }
  bool started() const override { return stack_.bottom != nullptr; }
  bool ended() const override { return ended_; }

 private:
  /// The exceptions of a thread: those that are being handled, and the number of those that are being thrown.
  /// The C++ ABI defines where __cxa_get_globals() has them: a pointer, then an unsigned int.
  struct ExceptionsInFlight {
    void* caught = nullptr;
    unsigned int uncaught = 0;

    static ExceptionsInFlight of(const void* globals) {
      ExceptionsInFlight read;
      std::memcpy(&read.caught, globals, sizeof(caught));
      std::memcpy(&read.uncaught, static_cast<const char*>(globals) + sizeof(caught), sizeof(uncaught));
      return read;
    }
    void put_into(void* globals) const {
      std::memcpy(globals, &caught, sizeof(caught));
      std::memcpy(static_cast<char*>(globals) + sizeof(caught), &uncaught, sizeof(uncaught));
    }
  };
  /// What bodies that take over from one another have in common. It lies on the stack of resume().
  struct Turn {
    void* globals;                 // the exceptions of the thread
    Side worker = nullptr;         // while a body runs
    FiberContext* last = nullptr;  // the body that comes back to the worker
  };

  [[noreturn]] void run_body(Side worker);
  /// Keeps the side that is suspended now: the body that has yielded to this one, or the worker.
  void came_back(Side from) {
    (before_ == nullptr ? turn_->worker : std::exchange(before_, nullptr)->body_side_) = from;
  }

  StackPool& stacks_;
  std::function<void()> body_;
  Stack stack_;
  Side body_side_ = nullptr;        // the body, while it does not run
  Turn* turn_ = nullptr;            // while the body runs
  FiberContext* before_ = nullptr;  // the body that yields to this one, until this one runs
  ExceptionsInFlight exceptions_;   // of the body, while it does not run
  SanitizerFiber sanitizer_;
  bool ended_ = false;
};

}  // namespace sim
